package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quantscope/analysis/calibrate"
	"quantscope/analysis/candidate"
	"quantscope/analysis/model"
	"quantscope/analysis/yardstick"
	"quantscope/kernels"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/sessions"
)

// measureFlags are the flags of measure.
type measureFlags struct {
	candidates, corpora, calib                     []string
	keep, headFrom, bodyFrom, targets, activations string
	session, cache, mem                            string
	threads, chunk, chunks, calibChunks, worst     int
	codes                                          string
	reading                                        readingFlags
	seed                                           uint64
	ceiling                                        float64
	attribute, half, probe, noFloor, asStored      bool
	klBase, writeBase                              string
	json, allowFallback, force                     bool
}

func newMeasure(std streams) *cobra.Command {
	var f measureFlags
	cmd := &cobra.Command{
		Use:   "measure REFERENCE --candidate SPEC …",
		Short: "Measure how far candidates' predictions are from the reference's",
		Long: `measure takes corpora through the reference and all candidates in one forward pass
and compares their predictions over the whole vocabulary, position by position: KL
divergence both ways, first choices, perplexity, by corpus, confidence and class of
token, with intervals, beside the floor of the ruler itself. docs/measure.md says what
each figure means.

SPEC is a variant made on the fly (nvfp4+mse, int4-g128@linear), a recipe file, a
session's export, a folder or file of safetensors in any layout that is known, a
GGUF file, or a folder of codes; LABEL=SPEC gives it a name. A calibrated variant
(int4-g128+gptq) is calibrated first, on --calib, and its baseline is measured beside
it. What is measured is kept in a session, and the same command goes on where it was.`,
		Example: `  quantscope measure demo --candidate nvfp4,nvfp4+mse_ge1 --session kl.qscope
  quantscope measure ./Model --candidate ./Model-NVFP4 --candidate Q4=./model-Q4_K_M.gguf --corpus text.txt
  quantscope measure demo --candidate int4-g128+gptq,int4-g128+range+gptq
  quantscope measure demo --candidate nvfp4@all --keep lm_head.weight --attribute`,
		Args: exactly(1, "measure takes one reference: a folder, a file or demo"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runMeasure(cmd.Context(), std, args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.candidates, "candidate", nil, "what to measure, once for each: a variant, several variants separated by commas, a recipe, a session, a folder or a file")
	fl.StringArrayVar(&f.corpora, "corpus", nil, "text, JSON lines, file of ids or embedded corpus to measure on, once for each (default: the demo's five, for the demo's tokenizer)")
	fl.StringArrayVar(&f.calib, "calib", nil, "what candidates were calibrated on, and what calibrated variants are: text that is in a corpus too is refused (default: the demo's, for its tokenizer)")
	fl.IntVar(&f.calibChunks, "calib-chunks", 0, "at most so many chunks of --calib (0: all)")
	fl.StringVar(&f.codes, "codes", "", "folder that keeps the codes of calibrated variants (default: in the user's cache folder)")
	fl.StringVar(&f.keep, "keep", "", "of each candidate also a row with these tensors from the reference: GLOB or re:REGEXP, separated by commas")
	fl.StringVar(&f.headFrom, "head-from", "", "of each candidate also a row with the final norm and head of this SPEC")
	fl.StringVar(&f.bodyFrom, "body-from", "", "of each candidate also a row with the embedding and layers of this SPEC")
	fl.BoolVar(&f.attribute, "attribute", false, "of each candidate also rows with one part of it alone, and whether they add up")
	fl.StringVar(&f.targets, "targets", "", "what variants quantize: default, linear, all, or GLOB or re:REGEXP, separated by commas")
	fl.StringVar(&f.activations, "activations", "f32", "arithmetic of activations: f32 or bf16")
	fl.BoolVar(&f.half, "half", false, "score the second half of each chunk only, as llama.cpp does")
	fl.BoolVar(&f.probe, "probe", false, "measure the output error of each linear map on real inputs")
	fl.BoolVar(&f.noFloor, "no-floor", false, "leave out the ruler's floor")
	fl.BoolVar(&f.asStored, "as-stored", false, "do not undo orders of rows that differ from the reference's")
	f.reading.bind(cmd)
	fl.Float64Var(&f.ceiling, "ceiling", 0, "largest mean KL, in nats, that passes; above it the exit code is 1 (0: none)")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of the bootstrap")
	fl.IntVar(&f.chunk, "chunk", 0, "tokens of a chunk of a text (512)")
	fl.IntVar(&f.chunks, "chunks", 0, "at most so many chunks of each corpus (0: all)")
	fl.IntVar(&f.worst, "worst", 5, "how many of the worst positions to show, with their text")
	fl.StringVar(&f.session, "session", "", "session file to create or to add to (default: a new one in the state folder)")
	fl.StringVar(&f.cache, "cache", "", "folder of the reference's hidden states, or none (default: in the user's cache folder)")
	fl.StringVar(&f.klBase, "kl-base", "", "file of log probabilities by llama-perplexity or --write-kl-base: the reference, and its texts the corpus")
	fl.StringVar(&f.writeBase, "write-kl-base", "", "file to write the reference's log probabilities to, for llama-perplexity")
	fl.BoolVar(&f.force, "force", false, "overwrite the file of --write-kl-base")
	fl.StringVar(&f.mem, "mem", "", "memory for weights, hidden states and logits, such as 512MiB (default 2GiB)")
	fl.IntVar(&f.threads, "threads", runtime.GOMAXPROCS(0), "workers")
	fl.BoolVar(&f.json, "json", false, "print one JSON document on standard output")
	fl.BoolVar(&f.allowFallback, "allow-fallback", false, "do not fail when something other than the requested method ran")
	return cmd
}

// request checks the flags. What they name is opened later.
func (f *measureFlags) request(reference string) (sessions.MeasureRequest, error) {
	r := sessions.MeasureRequest{
		Checkpoint: reference, Corpora: f.corpora, Calib: f.calib, CalibMost: f.calibChunks, Codes: f.codes, Keep: f.keep, HeadFrom: f.headFrom, BodyFrom: f.bodyFrom,
		Attribute: f.attribute, AsStored: f.asStored, Targets: f.targets, Half: f.half, Probe: f.probe, NoFloor: f.noFloor,
		Base: f.klBase, BaseOut: f.writeBase, Ceiling: f.ceiling, Seed: f.seed, Chunk: f.chunk, Chunks: f.chunks, Threads: f.threads, Program: version, KernelSet: kernels.Best(),
	}
	for _, c := range f.candidates {
		r.Candidates = append(r.Candidates, splitVariants(c)...)
	}
	switch {
	case len(r.Candidates) == 0:
		return r, usage(errors.New("--candidate names what to measure, such as nvfp4+mse or a folder"))
	case f.threads < 1:
		return r, usage(fmt.Errorf("--threads %d: at least one is needed", f.threads))
	case f.worst < 0 || f.worst > 64:
		return r, usage(fmt.Errorf("--worst %d: want 0 to 64", f.worst))
	case !(f.ceiling >= 0) || math.IsInf(f.ceiling, 1):
		return r, usage(fmt.Errorf("--ceiling %g: want 0 or more nats", f.ceiling))
	case f.klBase != "" && f.writeBase != "":
		return r, usage(errors.New("--kl-base is the reference, so that --write-kl-base would write it again"))
	case f.klBase != "" && len(f.corpora) > 0:
		return r, usage(errors.New("--kl-base brings its own texts, so that --corpus cannot be given"))
	case f.force && f.writeBase == "":
		return r, usage(errors.New("--force goes with --write-kl-base"))
	case f.chunk < 0 || f.chunks < 0 || f.calibChunks < 0:
		return r, usage(fmt.Errorf("--chunk %d, --chunks %d, --calib-chunks %d: want 0 or more", f.chunk, f.chunks, f.calibChunks))
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
	switch f.cache {
	case "none":
	case "":
		r.Cache = hiddenCache()
	default:
		r.Cache = f.cache
	}
	return r, nil
}

// splitVariants takes nvfp4,nvfp4+mse@linear apart. What does not begin with a
// variant, or is there as a file, is one; behind an @ only a variant begins another,
// since patterns of targets are separated by commas too.
func splitVariants(spec string) []string {
	if _, err := os.Lstat(spec); err == nil {
		return []string{spec}
	}
	var parts []string
	for p := range strings.SplitSeq(spec, ",") {
		p = strings.TrimSpace(p)
		name, _, _ := strings.Cut(p, "@")
		_, err := method.Parse(name)
		n := len(parts)
		switch {
		case err != nil && n == 0:
			return []string{spec}
		case err != nil && strings.Contains(parts[n-1], "@"):
			parts[n-1] += "," + p
		default:
			parts = append(parts, p)
		}
	}
	return parts
}

// runMeasure measures, and prints what the session then holds.
func runMeasure(ctx context.Context, std streams, reference string, f measureFlags) error {
	r, err := f.request(reference)
	if err != nil {
		return err
	}
	if reference != "demo" {
		if err := present(reference); err != nil {
			return err
		}
	}
	if f.klBase != "" {
		if err := present(f.klBase); err != nil {
			return err
		}
	}
	if f.writeBase != "" {
		if err := writable(f.writeBase, f.force, append(f.corpora, f.session, f.klBase, reference)...); err != nil {
			return err
		}
	}
	if r.MemBytes > 0 { // what the buffers hold is not to be doubled by garbage
		debug.SetMemoryLimit(r.MemBytes + programBytes)
	}
	p := &measureProgress{progress: newProgress(std)}
	r.Progress = p.tell
	r.Warn = func(s string) { p.warn(s) }
	var rep *yardstick.Report
	r.Report = func(done *yardstick.Report) { rep = done }
	m, err := sessions.PrepareMeasure(ctx, f.session, r)
	if err != nil {
		return measureError(err)
	}
	st, runErr := followMeasure(ctx, m, p)
	if err := m.Close(); err != nil && runErr == nil {
		runErr = err
	}
	switch {
	case errors.Is(runErr, context.Canceled):
		if kept, err := savedState(m.Path); err == nil {
			st = kept
		}
		return measureInterrupted(m.Path, st)
	case runErr != nil:
		return measureError(runErr)
	}
	if st, err = savedState(m.Path); err != nil { // every chunk, however many a screen would have seen
		return err
	}
	doc := measureOf(m.Path, rep, chunkTexts(st, rep.Setup), f.worst)
	if f.json {
		err = printJSON(std.out, doc)
	} else {
		err = printMeasure(std.out, rep, doc)
	}
	if err != nil {
		return err
	}
	return measureVerdict(rep, f.allowFallback)
}

// writable says what stands against a file at path, before anything is computed for
// it: also with force it is no session, and none of the files that are used.
func writable(path string, force bool, used ...string) error {
	for _, name := range used {
		if name != "" && sameFile(path, name) {
			return usage(fmt.Errorf("%s: is used already, as %s; what is written needs a file of its own", path, name))
		}
	}
	switch info, err := os.Lstat(path); {
	case err == nil && !force:
		return usage(fmt.Errorf("%s: is there already; --force overwrites it", path))
	case err == nil && !info.Mode().IsRegular():
		return environment(fmt.Errorf("%s: is not a regular file (%s)", path, info.Mode().Type()))
	case err == nil:
		if is, err := sessions.IsSession(path); err == nil && is {
			return usage(fmt.Errorf("%s: is a session, which nothing is written over", path))
		}
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return environment(fmt.Errorf("%s: there is no folder %s to write it to", path, filepath.Dir(path)))
	}
	return nil
}

// sameFile says whether two paths lead to one file, which need not be there yet.
func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	if errX == nil && errY == nil {
		return os.SameFile(x, y)
	}
	a, errX = filepath.Abs(a)
	b, errY = filepath.Abs(b)
	return errX == nil && errY == nil && a == b
}

// followMeasure runs the measurement and shows how it goes.
func followMeasure(ctx context.Context, m *sessions.PreparedMeasure, p *measureProgress) (*sessions.State, error) {
	st := m.Feed.Snapshot()
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	// The measurement hears of ctx by itself; what it scored last is still shown.
	next, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	batches := make(chan sessions.Batch)
	go func() {
		defer close(batches)
		for {
			b, err := m.Feed.Next(next, 100*time.Millisecond)
			if err != nil {
				return
			}
			batches <- b
		}
	}()
	for {
		select {
		case b, ok := <-batches:
			if ok {
				st.Apply(b)
				p.show(st, b)
				continue
			}
			return st, <-ended
		case err := <-ended:
			stop()
			for b := range batches {
				st.Apply(b)
			}
			p.finish(st)
			return st, err
		}
	}
}

// measureInterrupted says how to go on.
func measureInterrupted(path string, st *sessions.State) error {
	scored := ""
	if n := len(st.Yards); n > 0 {
		done, of := st.Yards[n-1].Positions()
		scored = fmt.Sprintf("%d of %d positions are scored and kept; ", done, of)
	}
	return &exitError{exitInterrupted, fmt.Errorf("interrupted: %sthe same command with --session %s goes on", scored, path)}
}

// measureError gives errors of opening and measuring their exit codes: what is asked
// for in a way that is not known is usage, and what the files hold is bad input.
func measureError(err error) error {
	var no *recipe.NoMatchError
	var small *model.MemoryError
	var calibrating *calibrate.MemoryError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &calibrating):
		return usage(fmt.Errorf("--mem is too little: calibrating takes %s", formatBytes(calibrating.Need)))
	case errors.As(err, &small):
		return usage(fmt.Errorf("--mem is too little: one chunk takes %s", formatBytes(small.Need)))
	case errors.Is(err, sessions.ErrNoCorpus), errors.Is(err, sessions.ErrCorpus), errors.Is(err, sessions.ErrLabel), errors.Is(err, calibrate.ErrNoText), errors.As(err, &no), errors.Is(err, candidate.ErrSpec):
		return usage(err)
	}
	if exitCode(err) != exitUsage {
		return err
	}
	return badInput(err)
}

// measureVerdict turns gates and fallbacks into an error.
func measureVerdict(rep *yardstick.Report, allowFallback bool) error {
	for _, g := range rep.Gates {
		if !g.Passed {
			return checkFailed(fmt.Errorf("gate %s: %s", g.Name, g.Message))
		}
	}
	if allowFallback {
		return nil
	}
	return fallbackVerdict(rep.Setup.Candidates)
}
