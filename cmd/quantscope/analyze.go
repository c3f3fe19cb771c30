package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quantscope/analysis/landscape"
	"quantscope/sessions"
	reports "quantscope/sessions/report"
	"quantscope/views"
)

func newAnalyze(std streams) *cobra.Command {
	var variants, html string
	var asJSON, force bool
	cmd := &cobra.Command{
		Use:   "analyze SESSION",
		Short: "Is there a tail worth protecting? The landscape of a session's records",
		Long: `analyze says of each variant, and of each role that matrices have, whether
anything stands out: a verdict in one sentence, then the figures that it rests
on with their intervals. --html writes all of it, with maps, curves and the
price of exemption lists, as one file that needs nothing else. A session that
another process writes is read as far as it is.`,
		Example: `  quantscope analyze run.qscope
  quantscope analyze run.qscope --variant nvfp4 --html report.html`,
		Args: exactly(1, "analyze takes one session file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if force && html == "" {
				return usage(errors.New("--force goes with --html"))
			}
			if err := present(args[0]); err != nil {
				return err
			}
			r, err := analyze(cmd.Context(), args[0], variants, html != "")
			if err != nil {
				return err
			}
			var written *htmlDocument
			if html != "" {
				if written, err = writeReport(cmd.Context(), r, args[0], html, force); err != nil {
					return err
				}
			}
			if asJSON {
				return printJSON(std.out, analysisOf(args[0], r, written))
			}
			if written != nil {
				t := newReport(std.out)
				t.line("%s: %s", html, formatBytes(written.Bytes))
				return t.err
			}
			return printAnalysis(std.out, args[0], r)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&variants, "variant", "", "variants to report, separated by commas (default: all)")
	fl.StringVar(&html, "html", "", "write a report as one HTML file")
	fl.BoolVar(&force, "force", false, "overwrite the file of --html")
	fl.BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

// analyze opens a session and reports it, the price of exemptions where the
// whole report is asked for.
func analyze(ctx context.Context, path, variants string, whole bool) (*reports.Report, error) {
	st, err := savedState(path)
	if err != nil {
		return nil, err
	}
	o := reports.Options{Pricing: whole}
	if o.Variants, err = sessionVariants(st, path, variants); err != nil {
		return nil, err
	}
	info, err := sessions.Inspect(path)
	if err != nil {
		return nil, err
	}
	o.Settings = info.Settings
	if whole && info.Writer == 0 { // else the records are not all there yet
		o.Records, err = sessions.Digest(ctx, path)
		var damaged *sessions.FileError
		switch {
		case errors.As(err, &damaged): // what can be read is reported, without a digest
			o.Records = ""
		case err != nil:
			return nil, err
		}
	}
	return reports.Build(ctx, st, o)
}

// sessionVariants are the IDs of the variants that --variant names, nil for
// none named. Short forms are understood as elsewhere: nvfp4+rtn is nvfp4.
func sessionVariants(st *sessions.State, path, list string) ([]int, error) {
	if list == "" {
		return nil, nil
	}
	var known []string
	for _, v := range st.Variants {
		known = append(known, v.Name)
	}
	var out []int
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		id := findVariant(st, name)
		if id < 0 {
			return nil, usage(fmt.Errorf("--variant %q is not in %s (it has: %s)", name, path, strings.Join(known, ", ")))
		}
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out, nil
}

// htmlDocument says what --html wrote.
type htmlDocument struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

func writeReport(ctx context.Context, r *reports.Report, session, out string, force bool) (*htmlDocument, error) {
	err := sessions.WriteFile(ctx, session, out, force, func(w io.Writer) error { return r.WriteHTML(w) })
	if errors.Is(err, fs.ErrExist) {
		return nil, usage(fmt.Errorf("%s is there already; --force overwrites it", out))
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(out)
	if err != nil {
		return nil, err
	}
	return &htmlDocument{out, info.Size()}, nil
}

// analysisDocument is the --json output of analyze.
type analysisDocument struct {
	Session    string            `json:"session"`
	Checkpoint string            `json:"checkpoint"`
	Identity   string            `json:"identity"`
	Family     string            `json:"family"`
	Targets    string            `json:"targets"`
	Part       string            `json:"part,omitempty"`
	Program    string            `json:"program"`
	KernelSet  string            `json:"kernel_set"`
	State      sessions.RunState `json:"state"`
	Records    string            `json:"records_sha256,omitempty"`
	Confidence float64           `json:"confidence"`
	Variants   []analysisVariant `json:"variants"`
	Notes      []reports.Note    `json:"notes"`
	HTML       *htmlDocument     `json:"html,omitempty"`
}

type analysisVariant struct {
	sessions.Summary
	Bytes   int64              `json:"bytes"` // -1: not known
	Groups  []landscape.Group  `json:"groups"`
	Pricing *landscape.Pricing `json:"pricing,omitempty"`
}

func analysisOf(path string, r *reports.Report, written *htmlDocument) analysisDocument {
	m := r.Meta
	d := analysisDocument{
		Session: path, Checkpoint: m.SourcePath, Identity: m.SourceIdentity, Family: m.Family, Targets: m.Targets, Part: m.Part.String(),
		Program: m.Program, KernelSet: m.KernelSet, State: r.Progress.State, Records: r.Records, Confidence: landscape.Confidence,
		Variants: []analysisVariant{}, Notes: append([]reports.Note{}, r.Notes...), HTML: written,
	}
	for _, v := range r.Variants {
		d.Variants = append(d.Variants, analysisVariant{v.Summary, v.Bytes, v.Landscape.Groups, v.Pricing})
	}
	return d
}

// printAnalysis prints the landscape of every variant: verdicts first, then what
// they rest on.
func printAnalysis(w io.Writer, path string, r *reports.Report) error {
	t := newReport(w)
	t.line("%s", views.Clean(r.Meta.SourcePath))
	t.line("  %s", views.Clean(r.Meta.Summary))
	t.line("  targets   %s", views.Clean(r.Meta.Targets))
	t.line("  session   %s (%s)", path, r.Progress.State)
	t.line("  measured  %d of %d", r.Progress.Done, r.Progress.Total)
	for _, a := range r.Alerts() {
		t.line("  note      %s", views.Clean(a))
	}
	t.line("")
	if len(r.Variants) == 0 {
		t.line("no variant was measured, so there is nothing to say")
		return t.err
	}
	for _, v := range r.Variants {
		for _, g := range v.Landscape.Groups {
			t.line("%s, %s: %s", v.Summary.Variant, g.Role, views.Clean(g.Verdict.Sentence))
		}
	}
	for i := range r.Variants {
		for k := range r.Variants[i].Landscape.Groups {
			printGroup(t, &r.Variants[i], &r.Variants[i].Landscape.Groups[k])
		}
	}
	return t.err
}
