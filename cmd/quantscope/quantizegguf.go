package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"quantscope/kernels"
	"quantscope/quant/demo"
	"quantscope/quant/gguf"
	"quantscope/quant/ggufmake"
	"quantscope/views"
)

// ggufLayout is the layout that is no folder but one file.
const ggufLayout = "gguf"

// ggufFlags are the flags of quantize that go with --layout gguf.
type ggufFlags struct {
	imatrix, typeFile, output, embedding, blocks string
	types                                        []string
	dryRun, requantize, noTokenizer              bool
}

// ggufOnly are those flags, and ggufNot those of quantize that do not go with it.
var (
	ggufOnly = []string{"imatrix", "tensor-type", "tensor-type-file", "output-tensor-type", "token-embedding-type", "dry-run", "allow-requantize", "gguf-blocks", "no-tokenizer"}
	ggufNot  = []string{"targets", "session", "resume", "part", "compat", "global-scale", "from-codes", "calib", "calib-chunk", "calib-chunks", "calibration", "calibrate", "damp", "codes", "recipe"}
)

func (f *ggufFlags) bind(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.imatrix, "imatrix", "", "with --layout gguf and a type+imatrix: file of llama-imatrix or of calibrate")
	fl.StringArrayVar(&f.types, "tensor-type", nil, "with --layout gguf: REGEXP=TYPE for tensors whose names match; the first that matches counts")
	fl.StringVar(&f.typeFile, "tensor-type-file", "", "with --layout gguf: file of such entries, as llama-quantize reads it")
	fl.StringVar(&f.output, "output-tensor-type", "", "with --layout gguf: type of the head")
	fl.StringVar(&f.embedding, "token-embedding-type", "", "with --layout gguf: type of the embedding")
	fl.BoolVar(&f.dryRun, "dry-run", false, "with --layout gguf: say what would be written, and write nothing")
	fl.BoolVar(&f.requantize, "allow-requantize", false, "with --layout gguf: take a source that is quantized already")
	fl.StringVar(&f.blocks, "gguf-blocks", "", "how numbers in the blocks of a big-endian file stand, where they do not tell: "+gguf.BlockOrders())
	fl.BoolVar(&f.noTokenizer, "no-tokenizer", false, "with --layout gguf: leave a tokenizer out that the file cannot say")
}

// check refuses flags that would do nothing.
func (f *ggufFlags) check(cmd *cobra.Command, is bool) error {
	list, format := ggufNot, "--%s does not go with --layout gguf"
	if !is {
		list, format = ggufOnly, "--%s goes with --layout gguf"
	}
	for _, name := range list {
		if cmd.Flags().Changed(name) {
			return usage(fmt.Errorf(format, name))
		}
	}
	return nil
}

// request turns the flags into what is made.
func (f *ggufFlags) request(run *runFlags, variants bool) (r ggufmake.Request, err error) {
	if !variants {
		return r, usage(fmt.Errorf("--layout gguf needs --variant TYPE: %s", strings.Join(ggufmake.Types(), ", ")))
	}
	if r.Type, r.Importance, err = ggufmake.ParseVariant(run.variants); err != nil {
		return r, usage(fmt.Errorf("--variant: %w", err))
	}
	switch {
	case r.Importance && f.imatrix == "":
		return r, usage(fmt.Errorf("--variant %s needs --imatrix FILE", run.variants))
	case !r.Importance && f.imatrix != "":
		return r, usage(fmt.Errorf("--imatrix goes with a type+imatrix, and --variant is %s", run.variants))
	}
	for _, one := range []struct {
		flag, name string
		to         **kernels.GGUFType
	}{{"output-tensor-type", f.output, &r.Output}, {"token-embedding-type", f.embedding, &r.Embedding}} {
		if one.name == "" {
			continue
		}
		t, err := ggufmake.ParseType(one.name)
		if err != nil {
			return r, usage(fmt.Errorf("--%s: %w", one.flag, err))
		}
		*one.to = &t
	}
	for _, text := range f.types {
		o, err := ggufmake.ParseOverride(text)
		if err != nil {
			return r, usage(fmt.Errorf("--tensor-type: %w", err))
		}
		r.Overrides = append(r.Overrides, o)
	}
	if f.typeFile != "" {
		data, err := readForeign(f.typeFile)
		if err != nil {
			return r, err
		}
		list, err := ggufmake.ParseOverrides(data)
		if err != nil {
			return r, badInput(fmt.Errorf("%s: %w", f.typeFile, err))
		}
		r.Overrides = append(r.Overrides, list...)
	}
	r.AllowFallback, r.AllowRequantize, r.ImatrixFile = run.allowFallback, f.requantize, f.imatrix
	return r, nil
}

// quantizeGGUF writes one GGUF file.
func quantizeGGUF(ctx context.Context, std streams, source string, cmd *cobra.Command, run *runFlags, f *ggufFlags) error {
	if err := f.check(cmd, true); err != nil {
		return err
	}
	out := run.export.Dir
	switch {
	case out == "" && !f.dryRun:
		return usage(errors.New("--layout gguf needs --out FILE, or --dry-run"))
	case run.threads < 1:
		return usage(fmt.Errorf("--threads %d: at least one is needed", run.threads))
	}
	r, err := f.request(run, cmd.Flags().Changed("variant"))
	if err != nil {
		return err
	}
	blocks, err := gguf.ParseBlocks(f.blocks)
	if err != nil {
		return usage(fmt.Errorf("--gguf-blocks: %w", err))
	}
	s := ggufmake.Settings{Threads: run.threads, Set: kernels.Best()}
	if run.mem != "" {
		if s.MemBytes, err = parseBytes(run.mem); err != nil {
			return usage(fmt.Errorf("--mem: %w", err))
		}
	}
	if source != demo.Label {
		if err := present(source); err != nil {
			return err
		}
	}
	if out != "" {
		if info, err := os.Stat(out); err == nil && info.IsDir() {
			return usage(fmt.Errorf("--out %s is a folder, and --layout gguf writes a file", out))
		}
		if err := present(filepath.Dir(out)); err != nil {
			return err
		}
	}
	src, err := ggufmake.Open(source, gguf.Options{Blocks: blocks}, ggufmake.Options{NoTokenizer: f.noTokenizer})
	if err != nil {
		return ggufError(err)
	}
	defer src.Close()
	if r.Importance {
		if r.Imatrix, err = gguf.ReadImatrix(f.imatrix); err != nil {
			return ggufError(err)
		}
	}
	plan, err := ggufmake.NewPlan(src, r)
	if errors.Is(err, ggufmake.ErrFallback) { // what would be written is said all the same
		if printErr := reportGGUF(std, ggufDocumentOf(plan, out, nil, 0), run.json); printErr != nil {
			return printErr
		}
		return checkFailed(err)
	}
	if err != nil {
		return ggufError(err)
	}
	var errs []ggufmake.Error
	began := time.Now()
	if !f.dryRun {
		if s.MemBytes > 0 {
			debug.SetMemoryLimit(s.MemBytes + programBytes)
		}
		if errs, err = writeGGUF(ctx, std, plan, out, s); err != nil {
			return ggufError(err)
		}
	}
	return reportGGUF(std, ggufDocumentOf(plan, out, errs, time.Since(began).Seconds()), run.json)
}

// ggufError gives errors about files their exit code; what is left is about what the
// input holds.
func ggufError(err error) error {
	if exitCode(err) == exitUsage {
		return badInput(err)
	}
	return err
}

// writeGGUF writes the file and says now and then how far it is.
func writeGGUF(ctx context.Context, std streams, plan *ggufmake.Plan, out string, s ggufmake.Settings) (errs []ggufmake.Error, err error) {
	var elements atomic.Int64
	s.Progress = func(n int64) { elements.Add(n) }
	done := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(done)
		errs, err = plan.Write(ctx, out, s)
	}()
	p := newProgress(std)
	say := func() {
		n, took := elements.Load(), time.Since(began).Seconds()
		line := fmt.Sprintf("writing  %d %% of %s", 100*n/max(plan.Params, 1), formatBytes(plan.Size))
		if n > 0 && took > 0 {
			line += fmt.Sprintf("  %.3g Mweights/s  ETA %s", float64(n)/took/1e6, clock(took/float64(n)*float64(max(plan.Params-n, 0))))
		}
		p.print(line)
	}
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for {
		select {
		case <-done:
			if err == nil {
				say()
			}
			if p.drawn {
				fmt.Fprintln(std.err)
			}
			return errs, err
		case <-tick.C:
			say()
		}
	}
}

func reportGGUF(std streams, d *ggufDocument, asJSON bool) error {
	if asJSON {
		return printJSON(std.out, d)
	}
	return printGGUF(newReport(std.out), d)
}

// printGGUF says what was written, and what became of what was asked for.
func printGGUF(t *textReport, d *ggufDocument) error {
	t.line("%s → %s", views.Clean(d.Checkpoint), views.Clean(orNothing(d.Out)))
	t.line("  identity  %s", d.Identity)
	if d.State == "written" {
		t.line("  %s, %d tensors in %.1f s", formatBytes(d.Bytes), len(d.Tensors), d.Seconds)
	} else {
		t.line("  %s, %d tensors, %s", formatBytes(d.Bytes), len(d.Tensors), d.State)
	}
	t.line("")
	var rows [][]string
	for _, s := range d.Types {
		rows = append(rows, []string{s.Requested, s.Effective, fmt.Sprint(s.Tensors), millions(s.Params), fmt.Sprintf("%.2f %%", 100*s.Share), formatBytes(s.Bytes)})
	}
	t.table([]string{"requested", "effective", ">tensors", ">params", ">share", ">size"}, rows)
	if len(d.Variants) > 0 && d.State == "written" {
		v := d.Variants[0]
		t.line("")
		t.line("%s: %.2f bits a weight, mean rel_l2 %.5f, worst %s (%.5f)", v.Variant, float64(v.BitsPerWeight), float64(v.MeanRelL2), views.Clean(v.WorstTensor), float64(v.WorstRelL2))
		if d.weighted() {
			t.line("weighted by the imatrix: mean rel_l2 %.5f", float64(v.MeanWeighted))
		}
	}
	for i, f := range d.Fallbacks {
		if i == 10 {
			t.line("fallback … %d more (--json has all)", len(d.Fallbacks)-i)
			break
		}
		t.line("fallback %s: %s → %s, %.2f %% of the parameters: %s", views.Clean(f.Tensor), f.Requested, f.Effective, 100*f.Share, views.Clean(f.Reason))
	}
	for _, f := range d.Findings {
		t.line("note     %s", views.Clean(strings.TrimSpace(f.Tensor+" "+f.Message)))
	}
	if len(d.Unweighted) > 0 {
		t.line("note     an imatrix has no entries of %s: not weighted", views.Clean(strings.Join(d.Unweighted, ", ")))
	}
	return t.err
}

func orNothing(out string) string {
	if out == "" {
		return "(nothing)"
	}
	return out
}
