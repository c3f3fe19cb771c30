package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"quantscope/analysis/bias"
	"quantscope/analysis/yardstick"
	"quantscope/kernels"
	"quantscope/sessions"
)

// biasFlags are the flags of bias.
type biasFlags struct {
	candidates, corpora, calib        []string
	targets, activations, codes, part string
	session, mem                      string
	threads, chunk, chunks            int
	noFloor, json, allowFallback      bool
	reading                           readingFlags
}

// biasParts are what --part takes, in the order of a layer.
var biasParts = []string{bias.Attention, bias.MLP, bias.Residual}

func newBias(std streams) *cobra.Command {
	var f biasFlags
	cmd := &cobra.Command{
		Use:   "bias CHECKPOINT --candidate SPEC …",
		Short: "Follow the sign of errors through the depth of a model",
		Long: `bias asks whether errors have a sign, and what becomes of it. It compares the weights of
every candidate with the checkpoint's, takes text through all of them in one pass and
compares, layer by layer, what attention and MLP add to the residual stream and the stream
itself; KL on the same positions stands beside it. Two candidates of equal error can differ
in all that: sentences at the end say what holds between them, whichever way it falls. The
floor is the checkpoint's own weights under the other arithmetic. docs/bias.md says what
each figure means.

SPEC is what measure takes: a variant (code2+sym, nvfp4@linear), a recipe, a session's
export, a folder or a file; LABEL=SPEC gives it a name. What is found is kept in a session.`,
		Example: `  quantscope bias demo --candidate code2,code2+sym
  quantscope bias demo --candidate code2+asym,code2+mirror --part mlp --session bias.qscope
  quantscope bias ./Model --candidate ./Model-NVFP4 --corpus text.txt --chunks 8 --json`,
		Args: exactly(1, "bias takes one checkpoint: a folder, a file or demo"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runBias(cmd.Context(), std, args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.candidates, "candidate", nil, "what to look at, once for each: a variant, several variants separated by commas, a recipe, a session, a folder or a file")
	fl.StringArrayVar(&f.corpora, "corpus", nil, "text, JSON lines, file of ids or embedded corpus to take through the layers, once for each (default: the demo's five, for the demo's tokenizer)")
	fl.StringArrayVar(&f.calib, "calib", nil, "what calibrated variants are calibrated on (default: the demo's, for its tokenizer)")
	fl.StringVar(&f.codes, "codes", "", "folder that keeps the codes of calibrated variants (default: in the user's cache folder)")
	fl.StringVar(&f.targets, "targets", "", "what variants quantize: default, linear, all, or GLOB or re:REGEXP, separated by commas")
	fl.StringVar(&f.activations, "activations", "f32", "arithmetic of activations: f32 or bf16")
	fl.BoolVar(&f.noFloor, "no-floor", false, "leave out the checkpoint's own weights under the other arithmetic")
	fl.StringVar(&f.part, "part", bias.Residual, "what the table by depth is of: residual (the stream), attention or mlp (what they add to it)")
	f.reading.bind(cmd)
	fl.IntVar(&f.chunk, "chunk", 0, "tokens of a chunk of a text (512)")
	fl.IntVar(&f.chunks, "chunks", 0, "at most so many chunks of each corpus (0: 4)")
	fl.StringVar(&f.session, "session", "", "session file to create or to add to (default: a new one in the state folder)")
	fl.StringVar(&f.mem, "mem", "", "memory for weights, hidden states and logits, such as 512MiB (default 2GiB)")
	fl.IntVar(&f.threads, "threads", runtime.GOMAXPROCS(0), "workers")
	fl.BoolVar(&f.json, "json", false, "print one JSON document on standard output")
	fl.BoolVar(&f.allowFallback, "allow-fallback", false, "do not fail when something other than the requested method ran")
	return cmd
}

// request checks the flags. What they name is opened later.
func (f *biasFlags) request(checkpoint string) (sessions.BiasRequest, error) {
	r := sessions.BiasRequest{
		Checkpoint: checkpoint, Corpora: f.corpora, Targets: f.targets, Chunk: f.chunk, Chunks: f.chunks, NoFloor: f.noFloor, Codes: f.codes, Calib: f.calib,
		Threads: f.threads, Program: version, KernelSet: kernels.Best(),
	}
	for _, c := range f.candidates {
		r.Candidates = append(r.Candidates, splitVariants(c)...)
	}
	switch {
	case len(r.Candidates) == 0:
		return r, usage(errors.New("--candidate names what to look at, such as code2+sym or a folder"))
	case f.threads < 1:
		return r, usage(fmt.Errorf("--threads %d: at least one is needed", f.threads))
	case f.chunk < 0 || f.chunks < 0:
		return r, usage(fmt.Errorf("--chunk %d, --chunks %d: want 0 or more", f.chunk, f.chunks))
	case !slices.Contains(biasParts, f.part):
		return r, usage(fmt.Errorf("--part %q is none of residual, attention, mlp", f.part))
	}
	var err error
	if r.BF16, err = bf16Activations(f.activations); err != nil {
		return r, err
	}
	if r.Layout, err = f.reading.options(); err != nil {
		return r, err
	}
	if f.mem != "" {
		if r.MemBytes, err = parseBytes(f.mem); err != nil {
			return r, usage(fmt.Errorf("--mem: %w", err))
		}
	}
	r.Cache = hiddenCache()
	return r, nil
}

// runBias looks, and prints what the session then holds.
func runBias(ctx context.Context, std streams, checkpoint string, f biasFlags) error {
	r, err := f.request(checkpoint)
	if err != nil {
		return err
	}
	if checkpoint != "demo" {
		if err := present(checkpoint); err != nil {
			return err
		}
	}
	if r.MemBytes > 0 { // what the buffers hold is not to be doubled by garbage
		debug.SetMemoryLimit(r.MemBytes + programBytes)
	}
	p := &biasProgress{progress: newProgress(std)}
	r.Progress, r.Warn = p.tell, p.warn
	b, err := sessions.PrepareBias(ctx, f.session, r)
	if err != nil {
		return biasError(err)
	}
	runErr := b.Run(ctx)
	p.end()
	if err := b.Close(); err != nil && runErr == nil {
		runErr = err
	}
	switch {
	case errors.Is(runErr, context.Canceled):
		return &exitError{exitInterrupted, fmt.Errorf("interrupted: what was found is kept in %s", b.Path)}
	case runErr != nil:
		return biasError(runErr)
	}
	run, err := lastBias(b.Path)
	if err != nil {
		return err
	}
	rep := run.Analyze()
	doc := biasOf(b.Path, rep)
	if f.json {
		err = printJSON(std.out, doc)
	} else {
		err = printBias(std.out, rep, doc, f.part)
	}
	if err != nil || f.allowFallback {
		return err
	}
	return fallbackVerdict(rep.Setup.Candidates)
}

// lastBias is the newest look at biases that a session holds.
func lastBias(path string) (*sessions.BiasRun, error) {
	st, err := savedState(path)
	if err != nil {
		return nil, err
	}
	if len(st.Biases) == 0 {
		return nil, fmt.Errorf("%s: holds no look at biases", path)
	}
	return st.Biases[len(st.Biases)-1], nil
}

// biasError gives errors of opening and looking their exit codes.
func biasError(err error) error {
	if errors.Is(err, bias.ErrShape) {
		return badInput(err)
	}
	return measureError(err)
}

// fallbackVerdict is an error where a candidate is not what was asked for.
func fallbackVerdict(candidates []yardstick.Party) error {
	for _, c := range candidates {
		if n := len(c.Fallbacks); n > 0 && c.Of < 0 && !c.Floor {
			x := c.Fallbacks[0]
			return checkFailed(fmt.Errorf("%s: %s as asked: %s is %s, not %s: %s; --allow-fallback accepts it",
				c.Label, counted(n, "tensor is not", "tensors are not"), x.Tensor, x.Effective, x.Requested, x.Reason))
		}
	}
	return nil
}
