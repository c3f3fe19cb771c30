package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quantscope/sessions"
	"quantscope/views"
)

func newQuantize(std streams) *cobra.Command {
	f := runFlags{}
	g := ggufFlags{}
	cmd := &cobra.Command{
		Use:   "quantize CHECKPOINT",
		Short: "Quantize, measure every tensor, keep the session, write a checkpoint",
		Long: `quantize reads the targeted matrices in file order, quantizes each under every
variant and records what the round trip did to it. A session that exists
already is gone on with: what it holds is not measured again. With --out one
variant is also written as a checkpoint; without it nothing is written but the
session.

A recipe (--recipe FILE, or the name of one that is built in; see plan --list) is
measured as one variant, whose matrices each have the scheme and methods of their
group. It is resolved before any weight is read, and refused where its plan has
errors. What it keeps has no record.

Variants with gptq or imatrix are calibrated: a text goes through the model layer
by layer, and each layer is quantized by what goes into it. Their codes are kept
beside the session (--codes), so that what is killed goes on, and --from-codes
writes a checkpoint from them without calibrating again.

Of a checkpoint that is stored as FP4, variants of code2 change codes alone, to four
of their values a matrix, under the scales that are there; --out then copies every
file byte for byte but for codes, or packs two bits with --layout quantscope.

With --layout gguf CHECKPOINT, which may be a GGUF file itself, becomes one GGUF
file, and --variant is a type of its blocks: q4_k, q6_k+imatrix, …`,
		Example: `  quantscope quantize demo --variant nvfp4,nvfp4+mse --session demo.qscope --json
  quantscope quantize demo --variant nvfp4+mse --out demo-nvfp4 --layout modelopt
  quantscope quantize demo --variant int4-g128,int4-g128+gptq --session gptq.qscope
  quantscope quantize demo --recipe mixed-nvfp4-fp8 --out demo-mixed --layout compressed-tensors
  quantscope quantize demo --from-codes gptq.qscope.codes/int4-g128+gptq --out demo-gptq --layout quantscope
  quantscope quantize model-FP4 --variant code2+sym --out model-2bit
  quantscope quantize model-F16.gguf --layout gguf --variant q4_k+imatrix --imatrix model.imatrix --out model-Q4_K.gguf`,
		Args: exactly(1, "quantize takes one checkpoint: a folder, a file or demo"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.calib.note(cmd)
			if f.export.Layout == ggufLayout {
				return quantizeGGUF(cmd.Context(), std, args[0], cmd, &f, &g)
			}
			if err := g.check(cmd, false); err != nil {
				return err
			}
			f.recipe.note(cmd)
			return quantize(cmd.Context(), std, args[0], f)
		},
	}
	f.bind(cmd, defaultVariants)
	f.bindExport(cmd)
	g.bind(cmd)
	return cmd
}

// quantizeDocument is the --json output of quantize.
type quantizeDocument struct {
	Session    string            `json:"session"`
	Checkpoint string            `json:"checkpoint"`
	Identity   string            `json:"identity"`
	Family     string            `json:"family"`
	Targets    string            `json:"targets"`
	Part       string            `json:"part,omitempty"`
	Program    string            `json:"program"`
	KernelSet  string            `json:"kernel_set"`
	State      sessions.RunState `json:"state"`
	Variants   []variantDocument `json:"variants"`
	Failed     []eventLine       `json:"failed"`
	Fallbacks  []eventLine       `json:"fallbacks"`
	Findings   []eventLine       `json:"findings"`
	Export     *exportDocument   `json:"export,omitempty"`
}

// variantDocument is what one variant did.
type variantDocument struct {
	sessions.Summary
	Calibration *sessions.CalibrationSummary `json:"calibration,omitempty"` // of a calibrated one
	Recipe      *recipeDocument              `json:"recipe,omitempty"`      // that it follows
	// EffectiveShares say what ran of what was requested, by share of the parameters.
	EffectiveShares []sessions.EffectiveShare `json:"effective_shares"`
}

// exportDocument is what became of --out.
type exportDocument struct {
	Dir     string               `json:"dir"`
	Layout  string               `json:"layout"`
	State   sessions.ExportState `json:"state"`
	Files   int                  `json:"files"`
	Bytes   int64                `json:"bytes"`
	Seconds float64              `json:"seconds"`
	Missing []int                `json:"missing_parts,omitempty"`
	Notes   []string             `json:"notes,omitempty"`
}

func exportOf(feed *sessions.LiveFeed) *exportDocument {
	e, ok := feed.Export()
	if !ok {
		return nil
	}
	return &exportDocument{Dir: e.Dir, Layout: e.Layout, State: e.State, Files: e.Files, Bytes: e.Bytes, Seconds: e.Seconds, Missing: e.Missing, Notes: e.Notes}
}

type eventLine struct {
	Variant string `json:"variant,omitempty"`
	Tensor  string `json:"tensor,omitempty"`
	Message string `json:"message"`
}

// programBytes is what the program needs beside the buffers for weights: records
// of some 37,000 tensors under a few variants, SQLite, the runtime.
const programBytes = 128 << 20

// quantize runs without a screen: progress on standard error, then the table.
func quantize(ctx context.Context, std streams, source string, f runFlags) error {
	o, err := f.options(source)
	if err != nil {
		return err
	}
	if source != "demo" {
		if err := present(source); err != nil {
			return err
		}
	}
	feed, err := sessions.Start(ctx, o)
	if err != nil {
		return calibrationError(recipeError(err))
	}
	// What the buffers hold is not to be doubled by garbage before it is collected.
	debug.SetMemoryLimit(feed.MemBytes() + programBytes)
	if f.notice != "" {
		fmt.Fprintln(std.err, "quantscope: "+f.notice)
	}
	st, runErr := follow(ctx, std, feed)
	if err := feed.Close(); err != nil && runErr == nil {
		runErr = err
	}
	// What could not be written is not reported: a run that stopped speaks of what
	// its file holds.
	if runErr != nil || st.Progress.State != sessions.RunFinished {
		saved, err := savedState(feed.Path())
		switch {
		case err != nil && runErr != nil: // what ended the run says more
			return runErr
		case err != nil:
			return err
		}
		st = saved
	}
	written := exportOf(feed)
	if f.json {
		doc := document(feed.Path(), st)
		doc.Export = written
		err = printJSON(std.out, doc)
	} else if err = printRun(std.out, feed.Path(), st); err == nil {
		err = printExport(std.out, written)
	}
	if runErr == nil {
		runErr = err
	}
	if errors.Is(runErr, context.Canceled) {
		return interrupted(feed.Path(), written)
	}
	if runErr == nil {
		runErr = verdict(feed.Path(), st, f.allowFallback, written)
	}
	return calibrationError(runErr)
}

// printExport says what became of the export.
func printExport(w io.Writer, e *exportDocument) error {
	if e == nil {
		return nil
	}
	t := newReport(w)
	switch e.State {
	case sessions.ExportWhole:
		t.line("export   %s: %s, %d files, %s in %.1f s", e.Dir, e.Layout, e.Files, formatBytes(e.Bytes), e.Seconds)
	case sessions.ExportPart:
		t.line("export   %s: this part is written; not yet: part %s", e.Dir, strings.Trim(strings.ReplaceAll(fmt.Sprint(e.Missing), " ", ", "), "[]"))
	default:
		t.line("export   %s: incomplete, and marked so; --resume goes on", e.Dir)
	}
	for _, n := range e.Notes {
		t.line("note     %s", views.Clean(n))
	}
	return t.err
}

// follow brings a state up to date with a live run until nothing runs any more.
func follow(ctx context.Context, std streams, feed *sessions.LiveFeed) (*sessions.State, error) {
	st := feed.Snapshot()
	p := newProgress(std)
	// The run hears of ctx by itself and then posts how it ended, so what is read
	// here is not cut short.
	whole := context.WithoutCancel(ctx)
	for !ended(st.Progress.State) {
		b, err := feed.Next(whole, 100*time.Millisecond)
		if err != nil {
			return st, err
		}
		st.Apply(b)
		if b.Closed {
			break
		}
		p.show(st, feed)
	}
	p.finish(st, feed)
	_, err := feed.Wait(whole)
	return st, err
}

func ended(s sessions.RunState) bool {
	return s == sessions.RunFinished || s == sessions.RunCancelled || s == sessions.RunStopped
}

// verdict turns how a run ended into an error.
func verdict(path string, st *sessions.State, allowFallback bool, written *exportDocument) error {
	failed := problems(st, sessions.EventFailed)
	switch {
	case st.Progress.State == sessions.RunCancelled, st.Progress.State == sessions.RunInterrupted,
		st.Progress.State == sessions.RunIdle: // a signal came before the run began
		return interrupted(path, written)
	case len(failed) > 0 && st.Progress.Failed > 0:
		first, left := failed[0], ""
		if written != nil {
			left = "; " + written.Dir + " is incomplete"
		}
		return badInput(fmt.Errorf("%d measurements failed, the first: %s%s", st.Progress.Failed, first.Message, left))
	case gateFailed(st) != nil:
		err := gateFailed(st)
		if written != nil && written.State == sessions.ExportIncomplete {
			err = fmt.Errorf("%w; %s is incomplete", err, written.Dir)
		}
		return checkFailed(err)
	case written != nil && written.State == sessions.ExportIncomplete: // all was measured
		return interrupted(path, written)
	case !allowFallback && len(problems(st, sessions.EventFallback)) > 0:
		what := "something other than what was requested ran"
		if share := fellBack(st); share != "" {
			what += " (" + share + ")"
		}
		return checkFailed(errors.New(what + ", see fallbacks; --allow-fallback accepts it"))
	}
	return nil
}

func problems(st *sessions.State, kind sessions.EventKind) []eventLine {
	out := []eventLine{}
	for _, e := range st.Log {
		if e.Kind != kind {
			continue
		}
		line := eventLine{Message: e.Message}
		if e.Variant >= 0 && e.Variant < len(st.Variants) {
			line.Variant = st.Variants[e.Variant].Name
		}
		if e.Tensor >= 0 && e.Tensor < len(st.Tensors) {
			line.Tensor = st.Tensors[e.Tensor].Name
		}
		out = append(out, line)
	}
	return out
}

func document(path string, st *sessions.State) quantizeDocument {
	d := quantizeDocument{
		Session: path, Checkpoint: st.Meta.SourcePath, Identity: st.Meta.SourceIdentity, Family: st.Meta.Family,
		Targets: st.Meta.Targets, Part: st.Meta.Part.String(), Program: st.Meta.Program, KernelSet: st.Meta.KernelSet, State: st.Progress.State,
		Variants: []variantDocument{},
		Failed:   problems(st, sessions.EventFailed), Fallbacks: problems(st, sessions.EventFallback), Findings: problems(st, sessions.EventFinding),
	}
	for v := range st.Variants {
		is := variantDocument{Summary: sessions.Summarize(st, v)}
		if s, ok := st.CalibrationSummary(v); ok {
			is.Calibration = &s
		}
		is.Recipe, is.EffectiveShares = recipeOf(st, v), st.EffectiveShares(v)
		d.Variants = append(d.Variants, is)
	}
	return d
}

// printRun prints what a session holds as plain text.
func printRun(w io.Writer, path string, st *sessions.State) error {
	t := newReport(w)
	t.line("%s", st.Meta.SourcePath)
	t.line("  %s", st.Meta.Summary)
	t.line("  targets   %s: %s", st.Meta.Targets, counted(len(st.Tensors), "matrix", "matrices"))
	if st.Meta.Part.Of > 0 {
		t.line("  part      %v", st.Meta.Part)
	}
	t.line("  session   %s (%s)", path, st.Progress.State)
	t.line("  measured  %d of %d by kernels %q", st.Progress.Done, st.Progress.Total, st.Meta.KernelSet)
	for _, line := range yardLines(st) {
		t.line("  measured  %s", views.Clean(line))
	}
	for _, line := range gateLines(st) {
		t.line("  gates     %s", views.Clean(line))
	}
	for _, line := range lookLines(st) {
		t.line("  %-9s %s", line[0], views.Clean(line[1]))
	}
	if len(st.Variants) > 0 {
		t.line("")
	}
	var rows [][]string
	for v := range st.Variants {
		s := sessions.Summarize(st, v)
		name := s.Variant
		if s.Effective != s.Variant {
			name += " → " + s.Effective
		}
		rows = append(rows, []string{
			name, fmt.Sprintf("%.2f", s.BitsPerWeight), fmt.Sprint(s.Tensors), sig(s.MeanRel2, 5), sig(s.MeanRelL2, 5), sig(s.WorstOverMean, 3),
			sig(s.CosMin, 5), sig(s.CosMax, 5), percent(s.ShallowBlocks), percent(s.DeepBlocks), percent(s.DeepL2),
			fmt.Sprint(s.ScalesClamped), fmt.Sprint(s.NonFinite),
		})
	}
	if len(rows) > 0 {
		t.table([]string{"variant", ">b/w", ">tensors", ">rel2", ">rel_l2", ">worst/mean", ">cos min", ">cos max", ">shallow", ">deep", ">deep L2", ">clamped", ">nonfinite"}, rows)
		t.line("")
	}
	printCalibrated(t, st)
	printEffective(t, st)
	for v := range st.Variants {
		s := sessions.Summarize(st, v)
		if s.WorstTensor != "" {
			t.line("worst  %s: %s (rel_l2 %s)", s.Variant, s.WorstTensor, sig(s.WorstRelL2, 4))
		}
	}
	for _, group := range []struct {
		title string
		kind  sessions.EventKind
	}{{"failed", sessions.EventFailed}, {"fallback", sessions.EventFallback}, {"finding", sessions.EventFinding}} {
		const most = 20
		lines := problems(st, group.kind)
		for i, l := range lines {
			if i == most {
				t.line("%s  … %d more: quantscope sessions export has all", group.title, len(lines)-most)
				break
			}
			t.line("%-9s %s  %s", group.title, l.Variant, views.Clean(l.Message))
		}
	}
	return t.err
}

func sig(f sessions.Figure, digits int) string { return fmt.Sprintf("%.*f", digits, float64(f)) }

func percent(f sessions.Figure) string { return fmt.Sprintf("%.2f %%", 100*float64(f)) }
