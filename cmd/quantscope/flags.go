package main

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"quantscope/kernels"
	"quantscope/quant/export"
	"quantscope/quant/method"
	"quantscope/quant/recode"
	"quantscope/sessions"
)

// runFlags are the flags of commands that measure.
type runFlags struct {
	variants, targets, session, mem string
	threads                         int
	json, allowFallback             bool
	compat, globalScale, part       string
	export                          sessions.ExportOptions
	calib                           calibFlags
	recipe                          recipeFlag
	notice                          string   // said once the run has begun; no flag
	given                           []string // flags of a run that were given to the workbench; no flag
}

// checkSaved refuses flags of a run beside a session that is saved: nothing is
// measured then, so that they would do nothing.
func (f *runFlags) checkSaved(path string) error {
	if len(f.given) == 0 {
		return nil
	}
	return usage(fmt.Errorf("--%s is for a checkpoint, and %s is a saved session: quantize CHECKPOINT --session %s goes on with it", f.given[0], path, path))
}

func (f *runFlags) bind(cmd *cobra.Command, variants string) {
	fl := cmd.Flags()
	fl.StringVar(&f.variants, "variant", variants, "variants to measure, separated by commas")
	fl.StringVar(&f.targets, "targets", "", "matrices to quantize: GLOB or re:REGEXP, separated by commas (default: routed experts, else attention and MLP)")
	fl.StringVar(&f.session, "session", "", "session file to create or go on with (default: a new one in the state folder)")
	fl.StringVar(&f.mem, "mem", "", "memory for buffered weights, such as 512MiB or 2GiB")
	fl.IntVar(&f.threads, "threads", runtime.GOMAXPROCS(0), "workers")
	fl.BoolVar(&f.json, "json", false, "print one JSON document on standard output")
	f.calib.bind(cmd)
	f.recipe.bind(cmd)
	fl.BoolVar(&f.allowFallback, "allow-fallback", false, "do not fail when something other than the requested method ran")
	_ = cmd.RegisterFlagCompletionFunc("variant", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, h := range method.Known() {
			names = append(names, h.Name+"\t"+h.Description)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
}

// bindExport adds the flags of a run that may write a checkpoint, or be one of
// several.
func (f *runFlags) bindExport(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.export.Dir, "out", "", "folder to write the quantized checkpoint to, of exactly one variant")
	fl.StringVar(&f.export.Layout, "layout", "", "layout of --out: "+strings.Join(export.Layouts(), ", ")+", or gguf, which is one file; of FP4 codes that become two bits: "+export.Source+" (the default there) or "+export.Own)
	fl.BoolVar(&f.export.Resume, "resume", false, "go on with the unfinished export in --out")
	fl.StringVar(&f.globalScale, "global-scale", "", "second-level scales over matrices that servers fuse, or over each tensor: shared or tensor (default: shared with --out)")
	fl.StringVar(&f.compat, "compat", "", "whose arithmetic: "+strings.Join(conventions(), ", ")+" (default: the layout's, else the format's first)")
	f.calib.bindExport(cmd)
	fl.StringVar(&f.part, "part", "", "K/N: only this part of the checkpoint's files")
}

// conventions are the words that --compat takes.
func conventions() []string {
	var names []string
	for _, f := range kernels.Formats() {
		for _, c := range kernels.Conventions(f.Name) {
			if !slices.Contains(names, c.String()) {
				names = append(names, c.String())
			}
		}
	}
	return names
}

// extra checks the flags of bindExport and puts them into the options.
func (f *runFlags) extra(o *sessions.Options) error {
	if f.compat != "" {
		if _, err := kernels.ConventionByName(f.compat); err != nil {
			return usage(fmt.Errorf("--compat: %w", err))
		}
	}
	if f.globalScale != "" {
		if _, err := export.ParseGlobals(f.globalScale); err != nil {
			return usage(fmt.Errorf("--global-scale: %w", err))
		}
	}
	o.Compat, o.GlobalScale = f.compat, f.globalScale
	if f.part != "" {
		var err error
		if o.Part, err = sessions.ParsePart(f.part); err != nil {
			return usage(fmt.Errorf("--part: %w", err))
		}
	}
	switch {
	case f.export.Dir == "" && (f.export.Layout != "" || f.export.Resume):
		return usage(errors.New("--layout and --resume go with --out"))
	case f.export.Dir == "":
		return nil
	case f.export.Layout == "" && !recodes(o.Variants):
		return usage(fmt.Errorf("--out needs --layout: %s", strings.Join(export.Layouts(), ", ")))
	case f.export.Layout != "" && f.export.Layout != export.Source && !slices.Contains(export.Layouts(), f.export.Layout):
		return usage(fmt.Errorf("--layout %q is none of %s, gguf", f.export.Layout, strings.Join(export.Layouts(), ", ")))
	case len(o.Variants)+len(o.Recipes) != 1:
		names := slices.Clone(o.Variants)
		for _, r := range o.Recipes {
			names = append(names, sessions.RecipePrefix+r.Name)
		}
		return usage(fmt.Errorf("--out writes one variant, and %d are named: %s", len(names), strings.Join(names, ", ")))
	}
	x := f.export
	o.Export = &x
	return nil
}

// recodes says whether all variants are of two bits, which FP4 checkpoints become in
// their own layout.
func recodes(names []string) bool {
	for _, name := range names {
		v, err := method.Parse(name)
		if err != nil || !recode.Recodes(v) {
			return false
		}
	}
	return len(names) > 0
}

// options checks the flags and turns them into what an engine takes.
func (f *runFlags) options(source string) (sessions.Options, error) {
	if len(f.recipe.recipes) > 0 && f.calib.fromCodes != "" {
		return sessions.Options{}, usage(errors.New("--recipe and --from-codes exclude each other: codes are of one variant"))
	}
	from, err := f.calib.origin(&f.variants, &f.targets)
	if err != nil {
		return sessions.Options{}, err
	}
	var variants []method.Variant
	if !f.recipe.alone {
		if variants, err = method.ParseList(f.variants); err != nil {
			return sessions.Options{}, usage(err)
		}
	}
	followed, err := f.recipe.open()
	if err != nil {
		return sessions.Options{}, err
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
		Checkpoint: source, Session: f.session, Targets: f.targets, Recipes: followed, Threads: f.threads,
		MemBytes: mem, Program: version, KernelSet: kernels.Best(),
	}
	for _, v := range variants {
		o.Variants = append(o.Variants, v.Name)
	}
	if err := f.calib.check(&o, variants); err != nil {
		return o, err
	}
	if err := f.extra(&o); err != nil {
		return o, err
	}
	if from != nil {
		return o, calibrationError(o.TakeCodes(*from))
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
