package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"quantscope/quant/convert"
	"quantscope/quant/layout"
	"quantscope/views"
)

// convertFlags are the flags of convert.
type convertFlags struct {
	layout, zeroPoints, packing string
	threads                     int
	resume, json                bool
}

func newConvert(std streams) *cobra.Command {
	var f convertFlags
	cmd := &cobra.Command{
		Use:   "convert SRC DST --layout L",
		Short: "Store a quantized checkpoint in another layout without quantizing it again",
		Long: `convert copies a quantized checkpoint into the layout of another tool. Codes stay,
bit for bit; scales and zero points are moved, or widened where that is exact;
where one layout multiplies by a second-level scale and the other divides
(ModelOpt's and compressed-tensors' NVFP4), it becomes its reciprocal, and the
report says how many values differ by that and by how much. FP4 codes of no more
than four values a matrix are packed into two bits in layout quantscope, and back.
What the other layout cannot say is refused with the module and the reason before anything is
written. Everything else is copied byte for byte; the config and its list of
exceptions are said in the other layout's words.

Then the copy is read again: every code is compared with the source's, every
value under both layouts' own formulas, every other tensor byte for byte. The
exit code is 1 where something is not as promised.`,
		Example: `  quantscope convert ./Llama-GPTQ ./Llama-W4A16 --layout compressed-tensors
  quantscope convert ./Qwen3-NVFP4 ./Qwen3-NVFP4-ct --layout compressed-tensors --json`,
		Args: exactly(2, "convert takes a quantized checkpoint and a folder for the copy: convert SRC DST --layout L"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return convertCheckpoint(cmd.Context(), std, args[0], args[1], f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.layout, "layout", "", "layout of the copy: "+strings.Join(convert.Layouts(), ", "))
	fl.StringVar(&f.zeroPoints, "zero-points", "", "how GPTQ's zero points are stored in SRC: as-labelled, v1 or v2 (default: by the label, and refused where what is stored speaks against it)")
	fl.StringVar(&f.packing, "packing", "", "how words hold integers of 3, 5, 6 or 7 bits in SRC: dense or padded (default: by what is stored, and refused where that does not tell)")
	fl.BoolVar(&f.resume, "resume", false, "go on with the unfinished conversion in DST")
	fl.IntVar(&f.threads, "threads", runtime.GOMAXPROCS(0), "workers")
	fl.BoolVar(&f.json, "json", false, "print one JSON document on standard output")
	_ = cmd.RegisterFlagCompletionFunc("layout", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return convert.Layouts(), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// convertDocument is what --json prints.
type convertDocument struct {
	Source string          `json:"source"`
	Output string          `json:"output"`
	From   string          `json:"from"`
	To     string          `json:"to"`
	OK     bool            `json:"ok"`
	Bytes  int64           `json:"bytes"`
	Files  int             `json:"files"`
	Groups []convert.Group `json:"groups"`
	Notes  []string        `json:"notes"`
	convert.Report
}

func convertCheckpoint(ctx context.Context, std streams, src, dst string, f convertFlags) error {
	var o layout.Options
	var err error
	switch {
	case f.layout == "":
		return usage(fmt.Errorf("convert needs --layout: %s", strings.Join(convert.Layouts(), ", ")))
	case f.threads < 1:
		return usage(fmt.Errorf("--threads %d: at least one is needed", f.threads))
	}
	if err := convert.Known(f.layout); err != nil {
		return usage(fmt.Errorf("--layout: %w", err))
	}
	if o.ZeroPoints, err = layout.ParseZeroPoints(f.zeroPoints); err != nil {
		return usage(fmt.Errorf("--zero-points: %w", err))
	}
	if o.Packing, err = layout.ParsePacking(f.packing); err != nil {
		return usage(fmt.Errorf("--packing: %w", err))
	}
	ck, model, err := openModel(src)
	if err != nil {
		return err
	}
	defer ck.Close()
	l, err := layout.OpenWith(ck, model, o)
	if err != nil {
		return err
	}
	plan, err := convert.New(ctx, ck, model, l, convert.Options{Layout: f.layout, Threads: f.threads})
	if errors.Is(err, convert.ErrRefused) {
		return badInput(err)
	}
	if err != nil {
		return err
	}
	p := newConvertProgress(std, plan.ShardBytes())
	res, notes, err := plan.Write(ctx, dst, convert.WriteOptions{Resume: f.resume, Threads: f.threads, Progress: p.add})
	p.end()
	if errors.Is(err, context.Canceled) {
		return &exitError{exitInterrupted, fmt.Errorf("interrupted: files that are whole are kept; the same command with --resume goes on")}
	}
	if err != nil {
		return err
	}
	report, err := plan.Check(ctx, dst, f.threads)
	if err != nil {
		return err
	}
	doc := convertDocument{
		Source: src, Output: dst, From: plan.From, To: plan.To, OK: report.OK(), Bytes: res.Bytes, Files: res.Files,
		Groups: plan.Groups, Notes: append(append([]string{}, plan.Notes...), notes...), Report: report,
	}
	if f.json {
		err = printJSON(std.out, doc)
	} else {
		err = printConverted(std, &doc)
	}
	if err == nil && !doc.OK {
		return checkFailed(errSaid)
	}
	return err
}

func printConverted(std streams, d *convertDocument) error {
	t := newReport(std.out)
	t.line("%s is %s in layout %s, was %s", d.Output, formatBytes(d.Bytes), d.To, d.From)
	for _, g := range d.Groups {
		t.line("  %-12s %s", counted(g.Modules, "module", "modules"), views.Clean(g.Scheme))
	}
	t.line("codes       %d of %d modules have the source's, every one of %d", d.CodesEqual, d.Modules, d.Elements)
	v := &d.Values
	switch {
	case v.Differ == 0:
		t.line("values      all %d are the same under both layouts' formulas", v.Equal)
	case v.Rounded == v.Differ:
		t.line("values      %d the same under both layouts' formulas; %d differ by the narrower type that one of them computes in, by up to %.3g", v.Equal, v.Differ, float64(v.MaxAbs))
	default:
		t.line("values      %d the same under both layouts' formulas; %d DIFFER, by up to %.3g of themselves (%s), %d of them in bf16", v.Equal, v.Differ, float64(v.MaxRel), views.Clean(v.Module), v.BF16)
	}
	if s := d.Scales; s.Reciprocal > 0 {
		t.line("reciprocal  second-level scales of %d modules, of which %d come back bit for bit when they are converted back", s.Reciprocal, s.RoundTrip)
	}
	t.line("untouched   %d of %d tensors have the source's bytes", d.Untouched.Identical, d.Untouched.Tensors)
	for _, n := range d.Notes {
		t.line("note        %s", views.Clean(n))
	}
	for i, p := range d.Problems {
		if i == maxPrinted {
			t.line("%d more problems; --json has all", len(d.Problems)-i)
			break
		}
		t.line("problem     %s", strings.TrimSpace(views.Clean(p.Tensor+" "+p.Message)))
	}
	if d.OK {
		t.line("ok")
	} else {
		t.line("%s", counted(len(d.Problems), "problem", "problems"))
	}
	return t.err
}

// convertProgress prints how much is written.
type convertProgress struct {
	*progress
	total int64
	done  atomic.Int64
	stop  chan struct{}
	over  chan struct{}
}

func newConvertProgress(std streams, total int64) *convertProgress {
	p := &convertProgress{progress: newProgress(std), total: total, stop: make(chan struct{}), over: make(chan struct{})}
	go func() {
		defer close(p.over)
		tick := time.NewTicker(p.every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.print(p.text())
			case <-p.stop:
				return
			}
		}
	}()
	return p
}

func (p *convertProgress) add(n int64) { p.done.Add(n) }

func (p *convertProgress) text() string {
	return fmt.Sprintf("converting  %s of %s", formatBytes(p.done.Load()), formatBytes(p.total))
}

func (p *convertProgress) end() {
	close(p.stop)
	<-p.over
	if p.live {
		p.print(p.text())
		fmt.Fprintln(p.w)
	}
}
