package main

import (
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"quantscope/kernels"
	"quantscope/quant/method"
	"quantscope/sessions"
)

// runFlags are the flags of commands that measure.
type runFlags struct {
	variants, targets, session, mem string
	threads                         int
	json, allowFallback             bool
	notice                          string // said once the run has begun; no flag
}

func (f *runFlags) bind(cmd *cobra.Command, variants string) {
	fl := cmd.Flags()
	fl.StringVar(&f.variants, "variant", variants, "variants to measure, separated by commas")
	fl.StringVar(&f.targets, "targets", "", "matrices to quantize: GLOB or re:REGEXP, separated by commas (default: routed experts, else attention and MLP)")
	fl.StringVar(&f.session, "session", "", "session file to create or go on with (default: a new one in the state folder)")
	fl.StringVar(&f.mem, "mem", "", "memory for buffered weights, such as 512MiB or 2GiB")
	fl.IntVar(&f.threads, "threads", runtime.GOMAXPROCS(0), "workers")
	fl.BoolVar(&f.json, "json", false, "print one JSON document on standard output")
	fl.BoolVar(&f.allowFallback, "allow-fallback", false, "do not fail when something other than the requested method ran")
	_ = cmd.RegisterFlagCompletionFunc("variant", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, h := range method.Known() {
			names = append(names, h.Name+"\t"+h.Description)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
}

// options checks the flags and turns them into what an engine takes.
func (f *runFlags) options(source string) (sessions.Options, error) {
	variants, err := method.ParseList(f.variants)
	if err != nil {
		return sessions.Options{}, usage(err)
	}
	if f.threads < 1 {
		return sessions.Options{}, usage(fmt.Errorf("--threads %d: at least one is needed", f.threads))
	}
	var mem int64
	if f.mem != "" {
		if mem, err = parseBytes(f.mem); err != nil {
			return sessions.Options{}, usage(fmt.Errorf("--mem: %w", err))
		}
	}
	o := sessions.Options{
		Checkpoint: source, Session: f.session, Targets: f.targets, Threads: f.threads,
		MemBytes: mem, Program: version, KernelSet: kernels.Best(),
	}
	for _, v := range variants {
		o.Variants = append(o.Variants, v.Name)
	}
	return o, nil
}

// parseBytes reads a size: a number with B, kB, MB, GB, TB (powers of 1000) or
// KiB, MiB, GiB, TiB (powers of 1024). A bare number is bytes.
func parseBytes(s string) (int64, error) {
	units := []struct {
		suffix string
		factor float64
	}{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
		{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
	}
	number, factor := s, 1.0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			number, factor = rest, u.factor
			break
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(v) || v*factor < 1 || v*factor >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is not a size such as 512MiB or 2GiB", s)
	}
	return int64(v * factor), nil
}
