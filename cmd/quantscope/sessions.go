package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quantscope/sessions"
	"quantscope/views"
)

func newSessions(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List, describe, export and merge saved sessions",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("sessions knows no %q: list, info, export, merge", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSessionsList(std), newSessionsInfo(std), newSessionsExport(std), newSessionsMerge(std))
	return cmd
}

// sessionLine is a session in a list.
type sessionLine struct {
	Path     string            `json:"path"`
	Source   string            `json:"source"`
	Identity string            `json:"identity"`
	Summary  string            `json:"summary"`
	State    sessions.RunState `json:"state"`
	Tensors  int               `json:"tensors"`
	Variants []string          `json:"variants"`
	Done     int64             `json:"done"`
	Total    int64             `json:"total"`
	Failed   int64             `json:"failed"`
	Bytes    int64             `json:"bytes"`
	Created  time.Time         `json:"created"`
	Modified time.Time         `json:"modified"`
	Yards    []yardLine        `json:"measurements"`
	Gates    []gateRunLine     `json:"gates"`
	Biases   []biasRunLine     `json:"biases"`
	Tiers    []tierRunLine     `json:"tiers"`
	Writer   int               `json:"writer"` // process that writes it now, 0 where none does
}

// yardLine is a measurement of KL divergence in a list.
type yardLine struct {
	Reference  string            `json:"reference"`
	Candidates []string          `json:"candidates"`
	State      sessions.RunState `json:"state"`
}

func yardLineOf(y *sessions.Yard) yardLine {
	l := yardLine{Reference: y.Setup.Reference.Label, Candidates: []string{}, State: sessions.RunInterrupted}
	for _, c := range y.Setup.Candidates {
		if !c.Floor {
			l.Candidates = append(l.Candidates, c.Label)
		}
	}
	if y.End != nil {
		l.State = y.End.State
	}
	return l
}

// gateRunLine is a run of gates in a list.
type gateRunLine struct {
	Suite string            `json:"suite"`
	Arms  []string          `json:"arms"`
	State sessions.RunState `json:"state"`
}

func gateRunLineOf(g *sessions.GateRun) gateRunLine {
	l := gateRunLine{Suite: g.Setup.Suite, Arms: []string{}, State: sessions.RunInterrupted}
	for _, a := range g.Setup.Arms {
		l.Arms = append(l.Arms, a.Label)
	}
	if g.End != nil {
		l.State = sessions.RunState(g.End.State)
	}
	return l
}

// holds says in a few words what is in a session: variants, measurements, gates, biases
// and tiers.
func (l *sessionLine) holds() string {
	words := slices.Clone(l.Variants)
	for _, y := range l.Yards {
		words = append(words, fmt.Sprintf("KL of %s (%s)", counted(len(y.Candidates), "candidate", "candidates"), y.State))
	}
	for _, g := range l.Gates {
		words = append(words, fmt.Sprintf("gates %s of %s (%s)", g.Suite, counted(len(g.Arms), "arm", "arms"), g.State))
	}
	return strings.Join(append(words, l.looks()...), ", ")
}

func lineOf(i sessions.Info) sessionLine {
	l := sessionLine{
		Path: i.Meta.Path, Source: i.Meta.SourcePath, Identity: i.Meta.SourceIdentity, Summary: i.Meta.Summary, State: i.Progress.State,
		Tensors: i.Tensors, Variants: []string{}, Yards: []yardLine{}, Gates: []gateRunLine{}, Biases: []biasRunLine{}, Tiers: []tierRunLine{}, Done: i.Progress.Done, Total: i.Progress.Total, Failed: i.Progress.Failed, Bytes: i.Bytes,
		Created: time.UnixMilli(i.Meta.CreatedUnixMS).UTC(), Modified: i.Modified.UTC(), Writer: i.Writer,
	}
	for _, v := range i.Variants {
		l.Variants = append(l.Variants, v.Name)
	}
	for _, y := range i.Yards {
		l.Yards = append(l.Yards, yardLineOf(y))
	}
	for _, g := range i.Gates {
		l.Gates = append(l.Gates, gateRunLineOf(g))
	}
	for _, b := range i.Biases {
		l.Biases = append(l.Biases, biasRunLineOf(b))
	}
	for _, t := range i.Tiers {
		l.Tiers = append(l.Tiers, tierRunLineOf(t))
	}
	return l
}

func newSessionsList(std streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list [FOLDER]",
		Short: "List the sessions of a folder (default: the state folder)",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(errors.New("sessions list takes one folder, or none"))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := sessions.DefaultDir()
			if len(args) == 1 {
				dir, err = args[0], present(args[0])
			}
			if err != nil {
				return err
			}
			infos, errs := sessions.List(dir)
			if asJSON {
				doc := struct {
					Folder   string        `json:"folder"`
					Sessions []sessionLine `json:"sessions"`
					Problems []string      `json:"problems"`
				}{dir, []sessionLine{}, []string{}}
				for _, i := range infos {
					doc.Sessions = append(doc.Sessions, lineOf(i))
				}
				for _, e := range errs {
					doc.Problems = append(doc.Problems, oneLine(e.Error()))
				}
				return printJSON(std.out, doc)
			}
			t := newReport(std.out)
			t.line("%s: %s", dir, counted(len(infos), "session", "sessions"))
			var rows [][]string
			for _, i := range infos {
				l := lineOf(i)
				rows = append(rows, []string{
					filepath.Base(l.Path), l.Source, string(l.State), fmt.Sprintf("%d/%d", l.Done, l.Total),
					l.Modified.Local().Format("2006-01-02 15:04"), formatBytes(l.Bytes), views.Clean(l.holds()),
				})
			}
			if len(rows) > 0 {
				t.table([]string{"session", "source", "state", ">measured", "changed", ">size", "holds"}, rows)
			}
			for _, e := range errs {
				fmt.Fprintln(std.err, "quantscope: "+oneLine(e.Error()))
			}
			return t.err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

func newSessionsInfo(std streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info SESSION",
		Short: "Say where a session comes from and what it holds",
		Args:  exactly(1, "sessions info takes one session file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := present(args[0]); err != nil {
				return err
			}
			info, err := sessions.Inspect(args[0])
			if err != nil {
				return err
			}
			st, err := savedState(args[0])
			if err != nil {
				return err
			}
			digest, err := sessions.Digest(cmd.Context(), args[0])
			if err != nil { // of a damaged session, which is said below
				digest = ""
			}
			if asJSON {
				return printJSON(std.out, struct {
					quantizeDocument
					Info    sessionLine `json:"info"`
					Records string      `json:"records_sha256"`
				}{document(args[0], st), lineOf(info), digest})
			}
			l := lineOf(info)
			t := newReport(std.out)
			t.line("%s", args[0])
			t.line("  source    %s", views.Clean(l.Source))
			t.line("  identity  %s", l.Identity)
			t.line("  made by   quantscope %s, kernels %q", st.Meta.Program, st.Meta.KernelSet)
			t.line("  created   %s, changed %s", l.Created.Format(time.RFC3339), l.Modified.Format(time.RFC3339))
			t.line("  holds     %d events in %s", st.LastSeq, formatBytes(l.Bytes))
			if digest != "" {
				t.line("  records   sha256 %s", digest)
			}
			if l.Writer != 0 {
				t.line("  written   by process %d at this moment", l.Writer)
			}
			t.line("")
			if t.err != nil {
				return t.err
			}
			return printRun(std.out, args[0], st)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

func newSessionsExport(std streams) *cobra.Command {
	var format, out string
	var force, asJSON, canonical, ofGates bool
	cmd := &cobra.Command{
		Use:   "export SESSION",
		Short: "Write the tap records, or the answers of gates, as JSONL, CSV or Parquet",
		Long: `export writes one tap record a line (JSONL, with histograms) or a row (CSV,
Parquet). JSONL and CSV go to standard output unless --out names a file. With
--canonical the JSONL says what the measurements are and not when they were made:
sessions of the same measurements, in one run or merged, give the same bytes,
whose SHA-256 sessions info prints.

With --gates it writes one answer of a run of gates a line instead; a session of
served models has nothing else.`,
		Args: exactly(1, "sessions export takes one session file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case canonical && ofGates:
				return usage(errors.New("--canonical is of tap records, not of --gates"))
			case canonical && format != "" && format != "jsonl":
				return usage(fmt.Errorf("--canonical writes jsonl, not %s", format))
			case canonical && format == "" && (filepath.Ext(out) == ".csv" || filepath.Ext(out) == ".parquet"):
				return usage(fmt.Errorf("--canonical writes jsonl, not what %s ends in", out))
			case canonical:
				format = "canonical"
			case format != "":
			case out == "":
				format = "jsonl"
			default:
				format = strings.TrimPrefix(filepath.Ext(out), ".")
			}
			write, ok := map[string]func(context.Context, io.Writer, string) error{
				"jsonl": sessions.ExportJSONL, "csv": sessions.ExportCSV, "parquet": sessions.ExportParquet, "canonical": sessions.ExportCanonical,
			}[format]
			if format == "canonical" && !canonical {
				ok = false
			}
			if !ok {
				return usage(fmt.Errorf("--format %q is none of jsonl, csv, parquet", format))
			}
			if err := present(args[0]); err != nil {
				return err
			}
			if asJSON && out == "" {
				return usage(errors.New("--json says what was written, so it needs --out"))
			}
			if !ofGates && !canonical {
				if info, err := sessions.Inspect(args[0]); err == nil { // else the export says what is wrong
					ofGates = info.Meta.Served()
					if info.Progress.Done == 0 && !ofGates {
						fmt.Fprintf(std.err, "%s holds no tap records; sessions info says what it holds\n", views.Clean(args[0]))
					}
				}
			}
			to := sessions.ExportFile
			if ofGates {
				to = sessions.ExportGatesFile
				write = func(ctx context.Context, w io.Writer, path string) error {
					return sessions.ExportGates(ctx, w, path, format)
				}
			}
			if out == "" {
				if format == "parquet" {
					return usage(errors.New("parquet is not for a terminal or a pipe: name a file with --out"))
				}
				return write(cmd.Context(), std.out, args[0])
			}
			err := to(cmd.Context(), args[0], out, format, force)
			if errors.Is(err, fs.ErrExist) {
				return usage(fmt.Errorf("%s is there already; --force overwrites it", out))
			}
			if err != nil {
				return err
			}
			info, err := os.Stat(out)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(std.out, struct {
					Out    string `json:"out"`
					Format string `json:"format"`
					Bytes  int64  `json:"bytes"`
				}{out, format, info.Size()})
			}
			t := newReport(std.out)
			t.line("%s: %s, %s", out, format, formatBytes(info.Size()))
			return t.err
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&format, "format", "", "jsonl, csv or parquet (default: by --out's ending, else jsonl)")
	fl.StringVar(&out, "out", "", "file to write")
	fl.BoolVar(&canonical, "canonical", false, "JSONL without seq and times, variants by name, with digests of the weights")
	fl.BoolVar(&ofGates, "gates", false, "answers of gates, not tap records")
	fl.BoolVar(&force, "force", false, "overwrite --out")
	fl.BoolVar(&asJSON, "json", false, "say in one JSON document what was written")
	return cmd
}

func newSessionsMerge(std streams) *cobra.Command {
	var asJSON bool
	o := sessions.MergeOptions{}
	cmd := &cobra.Command{
		Use:   "merge OUT PART…",
		Short: "Make one session of the sessions of all parts of a checkpoint",
		Long: `merge joins sessions that quantize --part K/N made of one checkpoint into one,
which is as that of a run over all of it. Parts that overlap, leave gaps or were
measured with other settings are refused by name.`,
		Example: "  quantscope sessions merge all.qscope part-1.qscope part-2.qscope part-3.qscope",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage(errors.New("sessions merge takes the file to write and the sessions of the parts"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, p := range args[1:] {
				if err := present(p); err != nil {
					return err
				}
			}
			err := sessions.Merge(cmd.Context(), args[0], args[1:], o)
			if errors.Is(err, fs.ErrExist) {
				return usage(fmt.Errorf("%s is there already", args[0]))
			}
			if err != nil {
				return err
			}
			info, err := sessions.Inspect(args[0])
			if err != nil {
				return err
			}
			digest, err := sessions.Digest(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			l := lineOf(info)
			if asJSON {
				return printJSON(std.out, struct {
					Info    sessionLine `json:"info"`
					Records string      `json:"records_sha256"`
				}{l, digest})
			}
			t := newReport(std.out)
			t.line("%s: %s, %d of %d measured (%s)", args[0], views.Clean(l.Source), l.Done, l.Total, l.State)
			t.line("  records   sha256 %s", digest)
			return t.err
		},
	}
	cmd.Flags().BoolVar(&o.Partial, "partial", false, "merge what is there, although parts or measurements are missing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}
