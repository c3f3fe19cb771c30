package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/local"
	"quantscope/analysis/gates/suite"
	"quantscope/kernels"
	"quantscope/sessions"
)

// gatesFlags are the flags of gates.
type gatesFlags struct {
	candidates, servers, probes, calib        []string
	suite, model, keyEnv, texts               string
	session, mem, targets, codes, junit       string
	activations                               string
	passes, top, speculate, slots, threads    int
	maxLen, show, chunks                      int
	timeout                                   time.Duration
	failOn                                    []string
	noPlacebo, noBaseline, prefixCache, force bool
	json, draftsSaid                          bool
	reading                                   readingFlags
}

func newGates(std streams) *cobra.Command {
	var f gatesFlags
	cmd := &cobra.Command{
		Use:   "gates [CHECKPOINT] --candidate SPEC … --server URL …",
		Short: "Ask candidates and servers the same questions, and doubt the answers",
		Long: `gates asks every arm the probes of a suite and says n of m, with intervals: tool calls,
needles, arithmetic, replacement characters in ten scripts, loops, coherence over turns. An
arm is a candidate in process or a server of the OpenAI kind. The first arm is the baseline
(CHECKPOINT, where one is named), and it is measured again at the end: what it differs from
itself bounds what counts as a difference. Checks of the measurement itself come first.

SPEC is a variant made on the fly (nvfp4+mse), a recipe, a session's export, a folder or
file of safetensors, or a GGUF file; URL is a server's address. LABEL=… gives an arm a name.
The key of servers is read from the environment alone. What was answered is kept in a
session, and the same command with --session goes on where it was. docs/suites.md says
what a suite is, docs/gates.md what each figure and each check means.`,
		Example: `  quantscope gates demo --candidate nvfp4,nvfp4+mse_ge1
  quantscope gates --server http://127.0.0.1:8000 --suite quick --junit gates.xml
  quantscope gates ./Model --candidate ./Model-NVFP4 --server served=http://gpu:8000 --fail-on regression,check
  quantscope gates suites demo`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(errors.New("gates takes one checkpoint: a folder, a file or demo; what is held against it is --candidate and --server"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			checkpoint := ""
			if len(args) == 1 {
				checkpoint = args[0]
			}
			f.draftsSaid = cmd.Flags().Changed("speculate")
			return runGates(cmd.Context(), std, checkpoint, f)
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.candidates, "candidate", nil, "what to ask in process, once for each: a variant, several variants separated by commas, a recipe, a session, a folder or a file")
	fl.StringArrayVar(&f.servers, "server", nil, "what to ask over HTTP, once for each: the base URL of a server of the OpenAI kind")
	fl.StringVar(&f.suite, "suite", "", "suite: "+strings.Join(suite.Names(), ", ")+" or a YAML file (default: demo for the demo's tokenizer, else default)")
	fl.StringArrayVar(&f.probes, "probe", nil, "only probes with these IDs: GLOB or re:REGEXP, separated by commas or named again")
	fl.IntVar(&f.passes, "passes", 0, "how often each case is asked (0: as the suite says)")
	fl.StringVar(&f.model, "model", "", "model to ask servers for (default: the one that they serve)")
	fl.StringVar(&f.keyEnv, "key-env", "", "environment variable that holds the servers' key (default: QUANTSCOPE_API_KEY, then OPENAI_API_KEY)")
	fl.StringVar(&f.texts, "corpus", "", "text to ask log probabilities for too: perplexity and a lower bound of KL through the arms' top tokens")
	fl.IntVar(&f.chunks, "chunks", 8, "at most so many chunks of --corpus")
	fl.IntVar(&f.top, "top", 20, "how many of the likeliest tokens to ask for at each position of --corpus")
	fl.BoolVar(&f.noPlacebo, "no-placebo", false, "do not measure the baseline again at the end; differences are then not bounded by its own")
	fl.BoolVar(&f.noBaseline, "no-baseline", false, "CHECKPOINT is only what variants are made from; the first candidate or server is the baseline")
	fl.IntVar(&f.speculate, "speculate", 0, "tokens that arms in process draft a step with the multi-token-prediction layer (where it is not said and the suite measures acceptance: 1 where the model has one)")
	fl.BoolVar(&f.prefixCache, "prefix-cache", false, "arms in process keep the beginnings of prompts that they have seen")
	fl.IntVar(&f.slots, "slots", 0, "answers at the same time of an arm in process (0: 8)")
	fl.IntVar(&f.maxLen, "max-model-len", 0, "tokens of prompt and answer of arms in process (0: as their config says)")
	fl.StringVar(&f.activations, "activations", "f32", "arithmetic of activations in process: f32 or bf16")
	fl.DurationVar(&f.timeout, "timeout", 5*time.Minute, "most that one answer may take")
	fl.StringVar(&f.targets, "targets", "", "what variants quantize: default, linear, all, or GLOB or re:REGEXP, separated by commas")
	fl.StringArrayVar(&f.calib, "calib", nil, "what calibrated variants are calibrated on (default: the demo's, for its tokenizer)")
	fl.StringVar(&f.codes, "codes", "", "folder that keeps the codes of calibrated variants (default: in the user's cache folder)")
	f.reading.bind(cmd)
	fl.StringSliceVar(&f.failOn, "fail-on", []string{"need", "regression", "check", "error"}, "what shuts the gates (exit code 1): need, regression, check, error, or none")
	fl.StringVar(&f.junit, "junit", "", "file to write the results to as JUnit XML")
	fl.BoolVar(&f.force, "force", false, "overwrite the file of --junit")
	fl.IntVar(&f.show, "show", 3, "how many failing answers of each arm to show (0: none)")
	fl.StringVar(&f.session, "session", "", "session file to create or to add to (default: a new one in the state folder)")
	fl.StringVar(&f.mem, "mem", "", "memory for weights and caches of arms in process, such as 512MiB (default 2GiB)")
	fl.IntVar(&f.threads, "threads", runtime.GOMAXPROCS(0), "workers")
	fl.BoolVar(&f.json, "json", false, "print one JSON document on standard output")
	cmd.AddCommand(newGatesSuites(std))
	return cmd
}

// request checks the flags. What they name is opened later.
func (f *gatesFlags) request(checkpoint string) (sessions.GatesRequest, error) {
	r := sessions.GatesRequest{
		Checkpoint: checkpoint, Model: f.model, KeyEnv: f.keyEnv, Suite: f.suite, Probes: strings.Join(f.probes, ","), Passes: f.passes,
		Texts: f.texts, TextChunks: f.chunks, Top: f.top, NoPlacebo: f.noPlacebo, NoBaseline: f.noBaseline, Targets: f.targets, Codes: f.codes, Calib: f.calib,
		Local:    local.Options{Threads: f.threads, Speculate: f.speculate, PrefixCache: f.prefixCache, Slots: f.slots, MaxTokens: f.maxLen},
		NoDrafts: f.draftsSaid && f.speculate == 0,
		Timeout:  f.timeout, Threads: f.threads, Program: version, KernelSet: kernels.Best(), Servers: f.servers,
	}
	for _, c := range f.candidates {
		r.Candidates = append(r.Candidates, splitVariants(c)...)
	}
	arms := len(r.Candidates) + len(r.Servers)
	if checkpoint != "" && !f.noBaseline {
		arms++
	}
	switch {
	case arms == 0:
		return r, usage(errors.New("there is nobody to ask: name a checkpoint, --candidate or --server"))
	case checkpoint == "" && f.noBaseline:
		return r, usage(errors.New("--no-baseline goes with a checkpoint"))
	case checkpoint == "" && len(r.Candidates) > 0:
		return r, usage(fmt.Errorf("--candidate %s: name the checkpoint that candidates are made from or held against, as in gates demo --candidate nvfp4", r.Candidates[0]))
	case len(r.Servers) == 0 && (f.model != "" || f.keyEnv != ""):
		return r, usage(errors.New("--model and --key-env go with --server"))
	case f.passes < 0 || f.passes > 1000:
		return r, usage(fmt.Errorf("--passes %d: want 0 to 1000", f.passes))
	case f.chunks < 1:
		return r, usage(fmt.Errorf("--chunks %d: want 1 or more", f.chunks))
	case f.top < 1 || f.top > 1000:
		return r, usage(fmt.Errorf("--top %d: want 1 to 1000", f.top))
	case f.speculate < 0 || f.speculate > 8:
		return r, usage(fmt.Errorf("--speculate %d: want 0 to 8", f.speculate))
	case f.slots < 0 || f.slots > 256:
		return r, usage(fmt.Errorf("--slots %d: want 0 to 256", f.slots))
	case f.maxLen < 0:
		return r, usage(fmt.Errorf("--max-model-len %d: want 0 or more", f.maxLen))
	case f.timeout <= 0:
		return r, usage(fmt.Errorf("--timeout %s: want more than 0", f.timeout))
	case f.threads < 1:
		return r, usage(fmt.Errorf("--threads %d: at least one is needed", f.threads))
	case f.show < 0:
		return r, usage(fmt.Errorf("--show %d: want 0 or more", f.show))
	case f.force && f.junit == "":
		return r, usage(errors.New("--force goes with --junit"))
	}
	if _, err := f.shutBy(); err != nil {
		return r, err
	}
	var err error
	if r.Local.BF16, err = bf16Activations(f.activations); err != nil {
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

// shutBy are the kinds of failures that end the command with exit code 1.
func (f *gatesFlags) shutBy() ([]gates.FailKind, error) {
	var kinds []gates.FailKind
	for _, name := range f.failOn {
		name = strings.TrimSpace(name)
		switch {
		case name == "none" && len(f.failOn) == 1:
		case slices.Contains(gates.FailKinds(), gates.FailKind(name)):
			kinds = append(kinds, gates.FailKind(name))
		default:
			return nil, usage(fmt.Errorf("--fail-on %q: want need, regression, check, error, or none alone", name))
		}
	}
	return kinds, nil
}

// runGates runs the gates and prints what the session then holds.
func runGates(ctx context.Context, std streams, checkpoint string, f gatesFlags) error {
	r, err := f.request(checkpoint)
	if err != nil {
		return err
	}
	if checkpoint != "" && checkpoint != "demo" {
		if err := present(checkpoint); err != nil {
			return err
		}
	}
	if f.junit != "" {
		if err := writable(f.junit, f.force, f.session, f.suite, f.texts, checkpoint); err != nil {
			return err
		}
	}
	if r.MemBytes > 0 { // what the buffers hold is not to be doubled by garbage
		debug.SetMemoryLimit(r.MemBytes + programBytes)
	}
	p := &gatesProgress{progress: newProgress(std)}
	r.Progress, r.Warn = p.tell, p.warn
	var rep *gates.Report
	r.Report = func(done *gates.Report) { rep = done }
	g, err := sessions.PrepareGates(ctx, f.session, r)
	if err != nil {
		return gatesError(err)
	}
	runErr := g.Run(ctx)
	p.end()
	if err := g.Close(); err != nil && runErr == nil {
		runErr = err
	}
	run, err := lastGates(g.Path)
	switch {
	case errors.Is(runErr, context.Canceled):
		return gatesInterrupted(g.Path, run)
	case runErr != nil:
		return gatesKept(g.Path, run, gatesError(runErr))
	case err != nil:
		return err
	}
	if rep == nil {
		rep = run.Analyze()
	}
	if err := f.say(std.out, rep, gatesOf(g.Path, rep, run, f.show)); err != nil {
		return err
	}
	return f.verdict(rep)
}

// say writes what came of it to the file and prints it: each also where the other
// cannot be.
func (f *gatesFlags) say(out io.Writer, rep *gates.Report, doc *gatesDocument) error {
	var junit error
	if f.junit != "" {
		junit = writeJUnit(f.junit, doc)
	}
	var err error
	if f.json {
		err = printJSON(out, doc)
	} else {
		err = printGates(out, rep, doc)
	}
	if err != nil {
		return err
	}
	return junit
}

// lastGates is the newest run of gates that a session holds.
func lastGates(path string) (*sessions.GateRun, error) {
	st, err := savedState(path)
	if err != nil {
		return nil, err
	}
	if len(st.Gates) == 0 {
		return nil, fmt.Errorf("%s: holds no run of gates", path)
	}
	return st.Gates[len(st.Gates)-1], nil
}

// verdict turns what shuts the gates into an error.
func (f *gatesFlags) verdict(rep *gates.Report) error {
	kinds, err := f.shutBy()
	if err != nil {
		return err
	}
	var first *gates.Fail
	n := 0
	for i := range rep.Fails {
		if slices.Contains(kinds, rep.Fails[i].Kind) {
			if first == nil {
				first = &rep.Fails[i]
			}
			n++
		}
	}
	switch {
	case n == 0:
		return nil
	case n == 1:
		return checkFailed(fmt.Errorf("gates: %s", first.Message))
	}
	return checkFailed(fmt.Errorf("gates: %s (and %d more)", first.Message, n-1))
}

// gatesError gives errors of opening and asking their exit codes: a server that is
// not as it should be is of the environment, a suite that cannot be read is bad
// input.
func gatesError(err error) error {
	var asked *chat.Error
	switch {
	case errors.As(err, &asked) && asked.Kind != chat.Refused && asked.Kind != chat.Internal:
		return environment(err)
	case errors.Is(err, suite.ErrSuite):
		return badInput(err)
	}
	return measureError(err)
}

// gatesInterrupted says how to go on.
func gatesInterrupted(path string, run *sessions.GateRun) error {
	return &exitError{exitInterrupted, fmt.Errorf("interrupted: %sthe same command with --session %s goes on", answered(run), path)}
}

// gatesKept adds to an error what was answered before it.
func gatesKept(path string, run *sessions.GateRun, err error) error {
	if run == nil || len(run.Results) == 0 || errors.Is(err, sessions.ErrDamaged) {
		return err
	}
	return &exitError{exitCode(err), fmt.Errorf("%w; %sthe same command with --session %s goes on", err, answered(run), path)}
}

func answered(run *sessions.GateRun) string {
	if run == nil {
		return ""
	}
	return fmt.Sprintf("%d of %d answers are kept; ", len(run.Results), run.Setup.Answers())
}
