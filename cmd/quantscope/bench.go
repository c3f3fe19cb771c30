package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quantscope/kernels"
	"quantscope/quant/method"
	"quantscope/quant/speed"
)

type benchFlags struct {
	variants string
	sets     string
	threads  int
	seconds  float64
	read     string
	json     bool
}

func newBench(std streams) *cobra.Command {
	f := benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "What this machine can do: each kernel against memcpy and multiply-adds",
		Long: `bench measures every quantizer with its whole tap record, on one thread and on
all, on matrices larger than the caches, and prints its rate over the one of
memcpy on one thread, measured in the same run; matrix products are held
against the multiply-adds that the same threads reach on registers. The last
column is how long the weights of a 200 GB checkpoint keep a quantizer busy here.`,
		Example: "  quantscope bench\n  quantscope bench --variant nvfp4,nvfp4+mse --set all --read ./checkpoint --json",
		Args:    exactly(0, "bench takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench(cmd.Context(), std, f)
		},
	}
	cmd.Flags().StringVar(&f.variants, "variant", "", "variants to measure, separated by commas (all)")
	cmd.Flags().StringVar(&f.sets, "set", "", "kernel sets, separated by commas, or all (the fastest of this machine)")
	cmd.Flags().IntVar(&f.threads, "threads", 0, "threads of each kernel's second measurement (all cores)")
	cmd.Flags().Float64Var(&f.seconds, "seconds", 0.3, "how long each measurement takes at least")
	cmd.Flags().StringVar(&f.read, "read", "", "also measure reading this checkpoint")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON document")
	return cmd
}

func (f benchFlags) options() (speed.Options, error) {
	o := speed.Options{Threads: f.threads, Checkpoint: f.read, Products: f.variants == ""}
	if f.threads < 0 || f.threads > 1024 {
		return o, usage(fmt.Errorf("--threads %d: want 1 to 1024, or 0 for all cores", f.threads))
	}
	if !(f.seconds > 0 && f.seconds <= 600) {
		return o, usage(fmt.Errorf("--seconds %v: want more than 0 and at most 600", f.seconds))
	}
	o.Each = time.Duration(f.seconds * float64(time.Second))
	threads := f.threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	o.MaxBytes = max(512<<20, int64(threads)*32<<20) // two matrices a thread where there are many
	names := f.variants
	if names == "" {
		all := make([]string, 0, 32)
		for _, h := range method.Plain() {
			all = append(all, h.Name)
		}
		names = strings.Join(all, ",")
	}
	var err error
	if o.Variants, err = method.ParseList(names); err != nil {
		return o, usage(err)
	}
	o.Sets, err = pickSets(f.sets)
	return o, err
}

// pickSets finds kernel sets by name; none for "".
func pickSets(names string) ([]kernels.Set, error) {
	available := kernels.Available()
	switch names {
	case "":
		return nil, nil
	case "all":
		return available, nil
	}
	known := make([]string, len(available))
	for i, s := range available {
		known[i] = s.Name
	}
	var sets []kernels.Set
	for name := range strings.SplitSeq(names, ",") {
		i := slices.Index(known, strings.TrimSpace(name))
		if i < 0 {
			return nil, usage(fmt.Errorf("--set %q: not a kernel set of this machine (it has %s)", name, strings.Join(known, ", ")))
		}
		sets = append(sets, available[i])
	}
	return sets, nil
}

func bench(ctx context.Context, std streams, f benchFlags) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	switch f.read {
	case "":
	case "demo":
		return usage(errors.New("--read demo: the embedded model is in memory; name a checkpoint on a disk"))
	default:
		if err := present(f.read); err != nil {
			return err
		}
	}
	r, err := speed.Measure(ctx, o, func(k speed.Kernel) {
		fmt.Fprintf(std.err, "%-24s %-7s %2d threads  %s\n", k.Name, k.Set, k.Threads, rate(k))
	})
	if err != nil {
		return err
	}
	if f.json {
		return printJSON(std.out, r)
	}
	return printBench(std, r)
}

// rate is what a kernel does in a second.
func rate(k speed.Kernel) string {
	if k.Of == speed.OfFMA {
		return fmt.Sprintf("%.4g GFLOP/s", k.GFLOPs)
	}
	return fmt.Sprintf("%.3g GB/s", k.GBs)
}

func printBench(std streams, r speed.Report) error {
	t := newReport(std.out)
	t.line("%s, %d cores, %s, kernel sets %s", r.CPU, r.Cores, r.Go, strings.Join(r.Sets, ", "))
	t.line("  memcpy, one thread       %.3g GB/s", r.MemcpyGBs)
	t.line("  multiply-adds, f32       %.4g GFLOP/s", r.FMAGFLOPs)
	if r.Read != nil {
		t.line("  reading %s  %.3g GB/s: 200 GB in %s", r.Read.Checkpoint, r.Read.GBs, duration(r.Read.Seconds200GB))
	}
	var quantizers, products [][]string
	for _, k := range r.Kernels {
		head := []string{k.Name, k.Set, fmt.Sprint(k.Threads)}
		if k.Of == speed.OfFMA {
			products = append(products, append(head, fmt.Sprintf("%.1f", k.GFLOPs), fmt.Sprintf("%.3f", k.Ratio)))
			continue
		}
		quantizers = append(quantizers, append(head, fmt.Sprintf("%.3f", k.GBs), fmt.Sprintf("%.0f", k.Weights/1e6), fmt.Sprintf("%.3f", k.Ratio), duration(k.Seconds200GB)))
	}
	t.line("")
	t.table([]string{"quantizer", "set", ">threads", ">GB/s", ">Mweights/s", ">of memcpy", ">200 GB"}, quantizers)
	if len(products) > 0 {
		t.line("")
		t.table([]string{"product", "set", ">threads", ">GFLOP/s", ">of peak"}, products)
	}
	return t.err
}

// duration writes seconds as a person says them.
func duration(seconds float64) string {
	switch {
	case seconds < 100:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 3600:
		return fmt.Sprintf("%d min %02d s", int(seconds)/60, int(seconds)%60)
	}
	return fmt.Sprintf("%d h %02d min", int(seconds)/3600, int(seconds)%3600/60)
}
