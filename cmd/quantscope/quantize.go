package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"quantscope/sessions"
	"quantscope/views"
)

func newQuantize(std streams) *cobra.Command {
	f := runFlags{}
	cmd := &cobra.Command{
		Use:   "quantize CHECKPOINT",
		Short: "Quantize in memory, measure every tensor and keep the session",
		Long: `quantize reads the targeted matrices in file order, quantizes each under every
variant and records what the round trip did to it. Nothing is written but the
session. A session that exists already is gone on with: what it holds is not
measured again.`,
		Example: "  quantscope quantize demo --variant nvfp4,nvfp4+mse --session demo.qscope --json",
		Args:    exactly(1, "quantize takes one checkpoint: a folder, a file or demo"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return quantize(cmd.Context(), std, args[0], f)
		},
	}
	f.bind(cmd, defaultVariants)
	return cmd
}

// quantizeDocument is the --json output of quantize.
type quantizeDocument struct {
	Session    string             `json:"session"`
	Checkpoint string             `json:"checkpoint"`
	Identity   string             `json:"identity"`
	Family     string             `json:"family"`
	Targets    string             `json:"targets"`
	Program    string             `json:"program"`
	KernelSet  string             `json:"kernel_set"`
	State      sessions.RunState  `json:"state"`
	Variants   []sessions.Summary `json:"variants"`
	Failed     []eventLine        `json:"failed"`
	Fallbacks  []eventLine        `json:"fallbacks"`
	Findings   []eventLine        `json:"findings"`
}

type eventLine struct {
	Variant string `json:"variant,omitempty"`
	Tensor  string `json:"tensor,omitempty"`
	Message string `json:"message"`
}

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
		return err
	}
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
	if f.json {
		err = printJSON(std.out, document(feed.Path(), st))
	} else {
		err = printRun(std.out, feed.Path(), st)
	}
	if runErr == nil {
		runErr = err
	}
	if errors.Is(runErr, context.Canceled) {
		return interrupted(feed.Path())
	}
	if runErr == nil {
		runErr = verdict(feed.Path(), st, f.allowFallback)
	}
	return runErr
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
		p.show(st)
	}
	p.finish(st)
	_, err := feed.Wait(whole)
	return st, err
}

func ended(s sessions.RunState) bool {
	return s == sessions.RunFinished || s == sessions.RunCancelled || s == sessions.RunStopped
}

// verdict turns how a run ended into an error.
func verdict(path string, st *sessions.State, allowFallback bool) error {
	failed := problems(st, sessions.EventFailed)
	switch {
	case st.Progress.State == sessions.RunCancelled || st.Progress.State == sessions.RunInterrupted:
		return interrupted(path)
	case len(failed) > 0 && st.Progress.Failed > 0:
		first := failed[0]
		return badInput(fmt.Errorf("%d measurements failed, the first: %s", st.Progress.Failed, first.Message))
	case !allowFallback && len(problems(st, sessions.EventFallback)) > 0:
		return checkFailed(errors.New("something other than what was requested ran (see fallbacks); --allow-fallback accepts it"))
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
		Targets: st.Meta.Targets, Program: st.Meta.Program, KernelSet: st.Meta.KernelSet, State: st.Progress.State,
		Variants: []sessions.Summary{},
		Failed:   problems(st, sessions.EventFailed), Fallbacks: problems(st, sessions.EventFallback), Findings: problems(st, sessions.EventFinding),
	}
	for v := range st.Variants {
		d.Variants = append(d.Variants, sessions.Summarize(st, v))
	}
	return d
}

// printRun prints what a session holds as plain text.
func printRun(w io.Writer, path string, st *sessions.State) error {
	t := newReport(w)
	t.line("%s", st.Meta.SourcePath)
	t.line("  %s", st.Meta.Summary)
	t.line("  targets   %s: %d matrices", st.Meta.Targets, len(st.Tensors))
	t.line("  session   %s (%s)", path, st.Progress.State)
	t.line("  measured  %d of %d by kernels %q", st.Progress.Done, st.Progress.Total, st.Meta.KernelSet)
	t.line("")
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
	t.table([]string{"variant", ">b/w", ">tensors", ">rel2", ">rel_l2", ">worst/mean", ">cos min", ">cos max", ">shallow", ">deep", ">deep L2", ">clamped", ">nonfinite"}, rows)
	t.line("")
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
