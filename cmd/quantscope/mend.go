package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/mend"
	"quantscope/views"
)

// mendFlags are what mend is told.
type mendFlags struct {
	from, to        string
	steps           []string
	inPlace, dryRun bool
	json            bool
}

func newMend(std streams) *cobra.Command {
	f := mendFlags{}
	var steps []string
	for _, s := range mend.Steps() {
		steps = append(steps, "  "+s.ID+": "+s.Help)
	}
	cmd := &cobra.Command{
		Use:   "mend OUT --from SOURCE",
		Short: "Put back what quantizing lost beside the weights",
		Long: `mend holds a quantized checkpoint against the one that it was made of, says what was
lost, and puts it back:
` + strings.Join(steps, "\n") + `

The result is a new folder (--to, OUT-mended by default) that has its name when it is
whole. --in-place writes into OUT: each file beside and then swapped, what is
replaced kept in OUT/.before-mend. --dry-run says what would be done, and exits with 1
where there is something. Afterwards the result is opened again and held against the
source once more.`,
		Example: `  quantscope mend ./GLM-4.5-Air-NVFP4 --from ./GLM-4.5-Air --dry-run
  quantscope mend ./GLM-4.5-Air-NVFP4 --from ./GLM-4.5-Air --in-place --steps graft-mtp,ignore-mtp`,
		Args: exactly(1, "mend takes the checkpoint to be mended: mend OUT --from SOURCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return mendCheckpoint(cmd.Context(), std, args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.from, "from", "", "the checkpoint that OUT was made of: a folder or demo")
	fl.StringVar(&f.to, "to", "", "folder of the result (default OUT-mended)")
	fl.BoolVar(&f.inPlace, "in-place", false, "write into OUT itself")
	fl.BoolVar(&f.dryRun, "dry-run", false, "only say what would be done; exit 1 where there is something")
	fl.StringSliceVar(&f.steps, "steps", nil, "steps to take, comma separated (default: all)")
	fl.BoolVar(&f.json, "json", false, "print one JSON document on standard output")
	return cmd
}

// mendDocument is the --json output of mend.
type mendDocument struct {
	Out     string        `json:"out"`
	From    string        `json:"from"`
	Needed  bool          `json:"needed"`
	Steps   []mend.Step   `json:"steps"`
	Written *mend.Result  `json:"written,omitempty"`
	Checked *mend.Checked `json:"checked,omitempty"`
}

func mendCheckpoint(ctx context.Context, std streams, path string, f mendFlags) error {
	switch {
	case f.from == "":
		return usage(errors.New("--from names the checkpoint that it was made of"))
	case f.inPlace && f.to != "":
		return usage(errors.New("--in-place and --to exclude each other"))
	case f.dryRun && (f.inPlace || f.to != ""):
		return usage(errors.New("--dry-run writes nothing: leave --in-place and --to out"))
	case path == demo.Label && f.inPlace:
		return usage(errors.New("the embedded demo cannot be written to"))
	}
	out, err := openAny(path)
	if err != nil {
		return err
	}
	defer out.Close()
	src, err := openAny(f.from)
	if err != nil {
		return err
	}
	defer src.Close()
	p, err := mend.NewPlan(out, src, f.steps)
	switch {
	case errors.Is(err, mend.ErrStep):
		return usage(err)
	case err != nil:
		return badInput(err)
	}
	doc := mendDocument{Out: path, From: f.from, Needed: p.Needed(), Steps: p.Steps}
	o := mend.Options{To: f.to, InPlace: f.inPlace, Progress: newMendProgress(std)}
	if o.To == "" && !o.InPlace {
		o.To = filepath.Clean(path) + "-mended"
	}
	if p.Refused() == nil && !f.dryRun && p.Needed() { // before anything is printed
		if err := p.CheckOutput(o); err != nil {
			return mendError(err)
		}
	}
	if !f.json {
		if err := printMendPlan(std, p); err != nil {
			return err
		}
	}
	if refused := p.Refused(); refused != nil || f.dryRun || !p.Needed() {
		if f.json {
			if err := printJSON(std.out, doc); err != nil {
				return err
			}
		}
		switch {
		case refused != nil:
			return badInput(refused)
		case f.dryRun && p.Needed():
			return checkFailed(errSaid)
		}
		return nil
	}
	res, err := p.Apply(ctx, o)
	if err != nil {
		return mendError(err)
	}
	checked, err := p.Check(ctx, res)
	if err != nil {
		return err
	}
	doc.Written, doc.Checked = &res, &checked
	if f.json {
		err = printJSON(std.out, doc)
	} else {
		err = printMended(std, res, checked)
	}
	if err == nil && !checked.OK {
		return checkFailed(errSaid)
	}
	return err
}

// openAny opens a folder, a file or the demo.
func openAny(path string) (*checkpoint.Checkpoint, error) {
	if path == demo.Label {
		return demo.Open()
	}
	if err := present(path); err != nil {
		return nil, err
	}
	return checkpoint.Open(path)
}

// newMendProgress says now and then how much was copied.
func newMendProgress(std streams) func(int64) {
	p := newProgress(std)
	begun, done := time.Now(), int64(0)
	return func(n int64) {
		done += n
		if time.Since(p.last) < p.every {
			return
		}
		p.last = time.Now()
		p.print(fmt.Sprintf("copied %s  %s/s", formatBytes(done), formatBytes(int64(float64(done)/max(time.Since(begun).Seconds(), 1e-3)))))
	}
}

func mendError(err error) error {
	if errors.Is(err, mend.ErrOutput) {
		return usage(err)
	}
	return err
}

func printMendPlan(std streams, p *mend.Plan) error {
	t := newReport(std.out)
	t.line("%s, made of %s", views.Clean(p.Out), views.Clean(p.From))
	for _, s := range p.Steps {
		word := "good"
		switch {
		case s.Refused != "":
			word = "refused"
		case s.Needed:
			word = "to do"
		}
		t.line("  %-13s  %-7s  %s", s.ID, word, views.Clean(s.Says))
		if s.Refused != "" {
			t.line("  %-13s           %s", "", views.Clean(s.Refused))
		}
		for _, c := range s.Changes {
			t.line("  %-13s           %s  %s: %s → %s", "", views.Clean(c.File), views.Clean(c.What), views.Clean(c.Before), views.Clean(c.After))
		}
	}
	return t.err
}

func printMended(std streams, res mend.Result, c mend.Checked) error {
	t := newReport(std.out)
	t.line("written   %s: %s, %s", views.Clean(res.Dir), counted(len(res.Files), "file", "files"), formatBytes(res.Bytes))
	if res.Backup != "" {
		t.line("replaced  kept in %s", views.Clean(res.Backup))
	}
	steps := slices.Clone(c.Steps)
	t.line("checked   %s as they were, %s equal to the source's, %d new in the index; nothing left to do: %s",
		counted(c.Kept, "tensor", "tensors"), counted(c.Grafted, "grafted one", "grafted ones"), c.Joined, strings.Join(steps, ", "))
	for _, p := range c.Problems {
		t.line("problem   %s", views.Clean(p))
	}
	return t.err
}
