package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quantscope/analysis/gates"
	"quantscope/analysis/tier"
	"quantscope/analysis/yardstick"
	"quantscope/kernels"
	"quantscope/sessions"
)

// tierFlags are the flags of tier.
type tierFlags struct {
	budgets, workload, corpora, probes                 []string
	hot, cold, routed, record, out, suite, session     string
	mem, activations                                   string
	window, stay, moves, trace, chunk, chunks, threads int
	klChunks, speculate                                int
	decay, hysteresis                                  float64
	seed                                               uint64
	perLayer, kl, noControls, force, json              bool
	draftsSaid                                         bool // --speculate was given
	reading                                            readingFlags
}

func newTier(std streams) *cobra.Command {
	var f tierFlags
	standard := tier.DefaultPolicy()
	cmd := &cobra.Command{
		Use:   "tier CHECKPOINT --budget 25% …",
		Short: "Keep the experts that a workload asks for most in four bits, the rest in two",
		Long: `tier follows the routing of a workload and keeps the hottest experts in one precision,
within a budget of bytes, and the rest in another: what is served hot, what moves, how many
experts of each layer are hot, where more budget stops to pay. The workload is text that goes
through the forward pass, a recorded trace, or made up after Zipf's law with ranks that drift.
With --kl and --suite the maps that come of it are measured and asked, beside all hot, all
cold, and maps of as many bytes that chance or the opposite order chose. docs/tier.md says
what each figure means.

Windows and moves are events of the session: the map on screen 1 shows them, live and in
replay. The maps are JSON (--out), and tier:FILE is a candidate everywhere.`,
		Example: `  quantscope tier demo --budget 0,10%,25%,50%,100% --kl
  quantscope tier demo --budget 25% --workload zipf:1.2:drift=4096 --window 512 --json
  quantscope tier ./Model-FP4 --hot source --cold code2+sym --budget 20GiB --workload chats.jsonl --out maps
  quantscope measure demo --candidate code2+sym --candidate tier:maps/25%.json`,
		Args: exactly(1, "tier takes one checkpoint: a folder, a file or demo"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.draftsSaid = cmd.Flags().Changed("speculate")
			return runTier(cmd.Context(), std, args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&f.budgets, "budget", []string{"0", "10%", "25%", "50%", "100%"}, "what of the experts may be hot: shares of their bytes (25%, 0.25) or bytes (1.5GiB), separated by commas")
	fl.StringArrayVar(&f.workload, "workload", nil, "text, file of ids or embedded corpus, once for each, in this order; or one of FILE.routes, zipf:S[:drift=TOKENS][:seed=K][:tokens=N] (default: the demo's text for calibration, for its tokenizer)")
	fl.StringVar(&f.hot, "hot", "nvfp4", "what hot experts are stored as: a variant, or source for as they are")
	fl.StringVar(&f.cold, "cold", "code2+sym", "what cold experts are stored as: a variant")
	fl.StringVar(&f.routed, "routed", "", "SPEC of the candidate whose forward pass chooses the experts (default: the checkpoint)")
	fl.StringVar(&f.record, "record", "", "file to write the recorded routing to, FILE.routes")
	fl.IntVar(&f.window, "window", standard.Window, "tokens of a window, at whose end experts move")
	fl.Float64Var(&f.decay, "decay", standard.Decay, "what is left of a score from window to window, 0 to below 1")
	fl.Float64Var(&f.hysteresis, "hysteresis", standard.Hysteresis, "share by which a newcomer must be hotter than what it replaces")
	fl.IntVar(&f.stay, "stay", standard.Stay, "windows that a promoted expert stays at least")
	fl.IntVar(&f.moves, "moves", standard.Moves, "promotions a window at most (0: no limit)")
	fl.BoolVar(&f.perLayer, "per-layer", false, "every layer has its share of the budget (default: layers compete)")
	fl.IntVar(&f.trace, "trace", tier.TraceMoves, "what the session holds: 1 windows, 2 each move too")
	fl.StringVar(&f.out, "out", "", "folder to write the precision maps to, one JSON file a budget")
	fl.BoolVar(&f.force, "force", false, "overwrite maps in --out")
	fl.BoolVar(&f.kl, "kl", false, "measure the KL divergence of the maps, of all hot and all cold, and of controls at equal bytes")
	fl.StringArrayVar(&f.corpora, "corpus", nil, "text to measure on with --kl, once for each (default: the demo's five, for the demo's tokenizer)")
	fl.IntVar(&f.klChunks, "kl-chunks", 0, "at most so many chunks of each --corpus (0: all)")
	fl.StringVar(&f.suite, "suite", "", "suite of probes to ask the maps, all hot and all cold: twobit, demo, quick, default or a YAML file (default: none)")
	fl.StringArrayVar(&f.probes, "probe", nil, "only probes with these IDs: GLOB or re:REGEXP, separated by commas or named again")
	fl.IntVar(&f.speculate, "speculate", 0, "tokens that are drafted a step while probes are asked (where it is not said and the suite measures acceptance: 1 where the model has a multi-token-prediction layer)")
	fl.BoolVar(&f.noControls, "no-controls", false, "do not measure maps of as many bytes that chance or the opposite order chose")
	fl.IntVar(&f.chunk, "chunk", 0, "tokens of a chunk of a text (512)")
	fl.IntVar(&f.chunks, "chunks", 0, "at most so many chunks of each --workload (0: all)")
	fl.StringVar(&f.activations, "activations", "f32", "arithmetic of activations: f32 or bf16")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of the random control and of the noise of the knee")
	f.reading.bind(cmd)
	fl.StringVar(&f.session, "session", "", "session file to create or to add to (default: a new one in the state folder)")
	fl.StringVar(&f.mem, "mem", "", "memory for weights and hidden states, such as 512MiB (default 2GiB)")
	fl.IntVar(&f.threads, "threads", runtime.GOMAXPROCS(0), "workers")
	fl.BoolVar(&f.json, "json", false, "print one JSON document on standard output")
	return cmd
}

// request checks the flags. What they name is opened later.
func (f *tierFlags) request(checkpoint string) (sessions.TierRequest, error) {
	r := sessions.TierRequest{
		Checkpoint: checkpoint, Workload: f.workload, Routed: f.routed, Record: f.record, Chunk: f.chunk, Chunks: f.chunks,
		Threads: f.threads, Program: version, KernelSet: kernels.Best(),
		Options: tier.Options{
			Hot: f.hot, Cold: f.cold, Budgets: f.budgets, Trace: f.trace, Seed: f.seed,
			Policy: tier.Policy{Window: f.window, Decay: f.decay, Hysteresis: f.hysteresis, Stay: f.stay, Moves: f.moves, PerLayer: f.perLayer},
		},
	}
	measured := f.kl || f.suite != ""
	switch {
	case f.threads < 1:
		return r, usage(fmt.Errorf("--threads %d: at least one is needed", f.threads))
	case f.chunk < 0 || f.chunks < 0 || f.klChunks < 0:
		return r, usage(fmt.Errorf("--chunk %d, --chunks %d, --kl-chunks %d: want 0 or more", f.chunk, f.chunks, f.klChunks))
	case f.trace != tier.TraceWindows && f.trace != tier.TraceMoves:
		return r, usage(fmt.Errorf("--trace %d: want %d (windows) or %d (moves too)", f.trace, tier.TraceWindows, tier.TraceMoves))
	case !f.kl && (len(f.corpora) > 0 || f.klChunks > 0):
		return r, usage(errors.New("--corpus and --kl-chunks go with --kl"))
	case f.suite == "" && (len(f.probes) > 0 || f.draftsSaid):
		return r, usage(errors.New("--probe and --speculate go with --suite"))
	case f.noControls && !measured:
		return r, usage(errors.New("--no-controls goes with --kl or --suite"))
	case f.force && f.out == "":
		return r, usage(errors.New("--force goes with --out"))
	case f.speculate < 0 || f.speculate > 8:
		return r, usage(fmt.Errorf("--speculate %d: want 0 to 8", f.speculate))
	case f.record != "" && !strings.HasSuffix(f.record, tier.RoutesSuffix):
		return r, usage(fmt.Errorf("--record %s: name it FILE%s, by which it is known as a trace", f.record, tier.RoutesSuffix))
	}
	if err := r.Options.Policy.Check(); err != nil {
		return r, usage(err)
	}
	var err error
	if r.Options.BF16, err = bf16Activations(f.activations); err != nil {
		return r, err
	}
	if r.Layout, err = f.reading.options(); err != nil {
		return r, err
	}
	r.Cache = hiddenCache()
	if f.mem != "" {
		if r.MemBytes, err = parseBytes(f.mem); err != nil {
			return r, usage(fmt.Errorf("--mem: %w", err))
		}
	}
	return r, nil
}

// tierRun is what one command found.
type tierRun struct {
	session string
	setup   *tier.Setup
	end     *tier.End
	maps    map[string]string // file by name of the map
	kl      *yardstick.Report // nil: not measured
	gates   *gates.Report     // nil: not asked
	answers *sessions.GateRun
}

func runTier(ctx context.Context, std streams, checkpoint string, f tierFlags) error {
	r, err := f.request(checkpoint)
	if err != nil {
		return err
	}
	if checkpoint != "demo" {
		if err := present(checkpoint); err != nil {
			return err
		}
	}
	if err := f.ahead(); err != nil {
		return err
	}
	if f.record != "" {
		if err := writable(f.record, false, append(f.workload, f.session, checkpoint)...); err != nil {
			return err
		}
	}
	if r.MemBytes > 0 { // what the buffers hold is not to be doubled by garbage
		debug.SetMemoryLimit(r.MemBytes + programBytes)
	}
	run := &tierRun{}
	p := newTierProgress(std)
	r.Progress, r.Warn = p.tell, p.warn
	r.Report = func(s *tier.Setup, e *tier.End) { run.setup, run.end = s, e }
	t, err := sessions.PrepareTier(ctx, f.session, r)
	if err != nil {
		return tierError(err)
	}
	runErr := t.Run(ctx)
	p.end()
	if err := t.Close(); err != nil && runErr == nil {
		runErr = err
	}
	run.session = t.Path
	if runErr != nil {
		return tierKept(t.Path, runErr)
	}
	if run.end == nil || run.setup == nil {
		return fmt.Errorf("%s: the run ended without a word", t.Path)
	}
	if err := f.writeMaps(run); err != nil {
		return err
	}
	if err := f.measure(ctx, std, checkpoint, run); err != nil {
		return tierKept(t.Path, err)
	}
	if err := f.ask(ctx, std, checkpoint, run); err != nil {
		return tierKept(t.Path, err)
	}
	doc := tierOf(run)
	if f.json {
		err = printJSON(std.out, doc)
	} else {
		err = printTier(std.out, doc)
	}
	if err != nil {
		return err
	}
	return doc.verdict()
}

// writeMaps writes the maps to the folder that is named.
func (f *tierFlags) writeMaps(run *tierRun) error {
	run.maps = map[string]string{}
	if f.out == "" {
		return nil
	}
	if err := os.MkdirAll(f.out, 0o777); err != nil {
		return environment(err)
	}
	names, maps := run.end.Labels()
	for _, n := range names { // nothing is written where one cannot be
		path := f.mapFile(n)
		if err := writable(path, f.force, run.session, f.record); err != nil {
			return err
		}
		run.maps[n] = path
	}
	for i, n := range names {
		if err := tier.WriteMap(run.maps[n], maps[i]); err != nil {
			return environment(err)
		}
	}
	return nil
}

// arms are the specs of what is measured: all cold, the maps by budget, all hot; and
// controls.
func (f *tierFlags) arms(run *tierRun, controls bool) []string {
	out := []string{f.cold}
	names, _ := run.end.Labels()
	for _, n := range names {
		label, control, is := strings.Cut(n, "#")
		switch {
		case !is:
			out = append(out, tierLabel(label, "")+"=tier:"+n)
		case controls && !f.noControls:
			out = append(out, tierLabel(label, control)+"=tier:"+n)
		}
	}
	if f.hot != tier.Source {
		out = append(out, f.hot)
	}
	return out
}

// tierLabel is what tables call a map.
func tierLabel(budget, control string) string {
	if control != "" {
		return "tier " + budget + " " + control
	}
	return "tier " + budget
}

// measure measures the KL divergence of the maps.
func (f *tierFlags) measure(ctx context.Context, std streams, checkpoint string, run *tierRun) error {
	if !f.kl {
		return nil
	}
	m := measureFlags{
		candidates: f.arms(run, true), corpora: f.corpora, chunk: f.chunk, chunks: f.klChunks, session: run.session, mem: f.mem,
		threads: f.threads, activations: f.activations, reading: f.reading, seed: f.seed,
	}
	if !slices.ContainsFunc(f.workload, tier.Alone) { // maps are not to be measured on what they were made on
		m.calib = f.workload
	}
	r, err := m.request(checkpoint)
	if err != nil {
		return err
	}
	p := &measureProgress{progress: newProgress(std)}
	r.Progress = p.tell
	r.Warn = func(s string) { p.warn(s) }
	r.Report = func(rep *yardstick.Report) { run.kl = rep }
	prepared, err := sessions.PrepareMeasure(ctx, run.session, r)
	if err != nil {
		return measureError(err)
	}
	_, err = followMeasure(ctx, prepared, p)
	if closed := prepared.Close(); err == nil {
		err = closed
	}
	return err
}

// ask asks the maps the probes of a suite.
func (f *tierFlags) ask(ctx context.Context, std streams, checkpoint string, run *tierRun) error {
	if f.suite == "" {
		return nil
	}
	g := gatesFlags{
		candidates: f.arms(run, false), suite: f.suite, probes: f.probes, session: run.session, mem: f.mem, threads: f.threads,
		activations: f.activations, reading: f.reading, speculate: f.speculate, draftsSaid: f.draftsSaid, chunks: 1, top: 1, timeout: 5 * time.Minute, failOn: []string{"none"},
	}
	r, err := g.request(checkpoint)
	if err != nil {
		return err
	}
	p := &gatesProgress{progress: newProgress(std)}
	r.Progress, r.Warn = p.tell, p.warn
	r.Report = func(rep *gates.Report) { run.gates = rep }
	prepared, err := sessions.PrepareGates(ctx, run.session, r)
	if err != nil {
		return gatesError(err)
	}
	err = prepared.Run(ctx)
	p.end()
	if closed := prepared.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if run.answers, err = lastGates(run.session); err == nil && run.gates == nil {
		run.gates = run.answers.Analyze()
	}
	return err
}

// tierError gives errors of opening their exit codes.
func tierError(err error) error {
	switch {
	case errors.Is(err, tier.ErrBudget), errors.Is(err, tier.ErrWorkload), errors.Is(err, tier.ErrPolicy):
		return usage(err)
	case errors.Is(err, tier.ErrMap):
		return badInput(err)
	}
	return measureError(err)
}

// tierKept adds to an error where what was found before it is.
func tierKept(path string, err error) error {
	if errors.Is(err, context.Canceled) {
		return &exitError{exitInterrupted, fmt.Errorf("interrupted: what ran so far is in %s", path)}
	}
	err = tierError(err)
	if errors.Is(err, sessions.ErrDamaged) {
		return err
	}
	return &exitError{exitCode(err), fmt.Errorf("%w; what ran before is in %s", err, path)}
}
