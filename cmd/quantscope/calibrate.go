package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"quantscope/analysis/calibrate"
	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/kernels"
	"quantscope/quant/demo"
	"quantscope/quant/export"
	"quantscope/quant/lockfile"
	"quantscope/quant/method"
)

// calibrateFlags are the flags of calibrate.
type calibrateFlags struct {
	out, imatrix, corpus, through, targets, mem string
	eval                                        []string
	chunk, chunks, threads                      int
	moments, json                               bool

	variant *method.Variant // of through
	bytes   int64           // of mem
}

func newCalibrate(std streams) *cobra.Command {
	var f calibrateFlags
	cmd := &cobra.Command{
		Use:   "calibrate CHECKPOINT --out FILE",
		Short: "Measure what goes into every linear map, and keep it in a file",
		Long: `calibrate takes a text through a model and measures, of the input of every linear map,
the second moment of each column and the Hessian XᵀX, over all tokens, and for an
expert's down projection over the tokens routed to it. It keeps them in a file, layer
by layer: when it is interrupted, the same command goes on at the layer that was under
way. quantize and measure take such a file in place of a text, and --imatrix writes the
second moments for llama.cpp. It tells how many tokens each expert was given, and
whether they can fill its Hessian. docs/calibration.md says what each figure means.`,
		Example: `  quantscope calibrate demo --out demo.calib
  quantscope calibrate ./Model --corpus calib.txt --chunk 2048 --chunks 128 --out model.calib
  quantscope calibrate model.gguf --corpus calib.txt --imatrix imatrix.gguf
  quantscope calibrate info model.calib`,
		Args: exactly(1, "calibrate takes one checkpoint: a folder, a file or demo; or info, convert, diagnose"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCalibrate(cmd.Context(), std, args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.out, "out", "", "file to write")
	fl.StringVar(&f.imatrix, "imatrix", "", "importance matrix to write for llama.cpp, such as imatrix.gguf; without --out nothing else is kept, and no Hessian measured")
	fl.StringVar(&f.corpus, "corpus", "", "text, JSON lines, file of ids or embedded corpus to measure on (default: the demo's calib, for the demo's tokenizer)")
	fl.IntVar(&f.chunk, "chunk", 0, "tokens of a chunk of a text (512)")
	fl.IntVar(&f.chunks, "chunks", 0, "at most so many chunks (0: all)")
	fl.StringArrayVar(&f.eval, "eval", nil, "what the result will be measured on, once for each: text that is in both is refused")
	fl.BoolVar(&f.moments, "moments", false, "measure second moments alone: enough for imatrix, not for gptq")
	fl.StringVar(&f.through, "through", "", "calibrated variant, such as int4-g128+gptq, through whose layers the text goes as they are quantized (default: the checkpoint's own)")
	fl.StringVar(&f.targets, "targets", "", "with --through: what it quantizes, and so what is measured: default, linear, all, or GLOB or re:REGEXP, separated by commas")
	fl.StringVar(&f.mem, "mem", "", "memory, such as 512MiB (default 2GiB)")
	fl.IntVar(&f.threads, "threads", runtime.GOMAXPROCS(0), "workers")
	fl.BoolVar(&f.json, "json", false, "print one JSON document on standard output")
	cmd.AddCommand(newCalibrateInfo(std), newCalibrateConvert(std), newDiagnose(std))
	return cmd
}

// check holds the flags against one another.
func (f *calibrateFlags) check() (err error) {
	switch {
	case f.out == "" && f.imatrix == "":
		return usage(errors.New("--out is wanted: the file to write; or --imatrix"))
	case filepath.Clean(f.out) == filepath.Clean(f.imatrix):
		return usage(fmt.Errorf("--out %s, --imatrix %s: they are two files", f.out, f.imatrix))
	case f.chunk < 0 || f.chunk == 1 || f.chunks < 0:
		return usage(fmt.Errorf("--chunk %d, --chunks %d: a chunk has 2 tokens or more, and there are 0 or more", f.chunk, f.chunks))
	case f.threads < 1:
		return usage(fmt.Errorf("--threads %d: at least one is needed", f.threads))
	case f.targets != "" && f.through == "":
		return usage(errors.New("--targets goes with --through: through the checkpoint's own weights the inputs of all linear maps are measured"))
	case f.moments && f.out == "":
		return usage(errors.New("--moments goes with --out; an importance matrix has nothing else"))
	}
	if f.through != "" {
		v, err := method.Parse(f.through)
		if err != nil {
			return usage(fmt.Errorf("--through: %w", err))
		}
		if !v.Calibrated() {
			return usage(fmt.Errorf("--through %s: is not calibrated, so that it can be measured behind as a checkpoint: quantize it with --out, and calibrate that", v.Name))
		}
		if v.NeedsHessian() && f.moments {
			return usage(fmt.Errorf("--through %s needs Hessians, so that --moments cannot be given", v.Name))
		}
		f.variant = &v
	}
	if f.mem != "" {
		if f.bytes, err = parseBytes(f.mem); err != nil {
			return usage(fmt.Errorf("--mem: %w", err))
		}
	}
	for _, path := range []string{f.out, f.imatrix} {
		if path != "" {
			if err := writable(path, false); err != nil {
				return noForce(path, err)
			}
		}
	}
	return nil
}

// noForce says of a file that is there what can be done about it.
func noForce(path string, err error) error {
	if _, there := os.Lstat(path); there == nil {
		return usage(fmt.Errorf("%s: is there already; calibrate info %s tells what it holds", path, path))
	}
	return err
}

// momentsSuffix ends the name of the file that an importance matrix is made from
// where nothing else is asked for.
const momentsSuffix = ".moments"

func runCalibrate(ctx context.Context, std streams, path string, f calibrateFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	if path != demo.Label {
		if err := present(path); err != nil {
			return err
		}
	}
	out := f.out
	if out == "" {
		out = f.imatrix + momentsSuffix
	}
	if f.bytes > 0 { // what the buffers hold is not to be doubled by garbage
		debug.SetMemoryLimit(f.bytes + programBytes)
	}
	ref, err := candidate.Open(ctx, path, candidate.Options{Set: kernels.Best(), Threads: f.threads})
	if err != nil {
		return calibrateError(err)
	}
	defer ref.Close()
	text, err := f.text(ctx, ref)
	if err != nil {
		return calibrateError(err)
	}
	p := &calibrateProgress{progress: newProgress(std), tokens: text.Tokens()}
	var notes []string
	if f.variant != nil {
		notes, err = f.behind(ctx, ref, text, out, p)
	} else {
		notes, err = f.own(ctx, ref, text, out, p)
	}
	p.end()
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return &exitError{exitInterrupted, fmt.Errorf("interrupted: %s of %s are kept in %s.parts; the same command goes on", counted(p.done, "unit", "units"), fmt.Sprint(p.units), out)}
		}
		return calibrateError(err)
	}
	return f.finish(ctx, std, out, notes)
}

// finish writes the importance matrix, and prints what was measured.
func (f *calibrateFlags) finish(ctx context.Context, std streams, out string, notes []string) error {
	file, err := calibrate.OpenFile(ctx, out)
	if err != nil {
		return calibrateError(err)
	}
	defer file.Close()
	doc := calibrationOf(file)
	doc.Notes = append(doc.Notes, notes...)
	if f.imatrix != "" {
		unnamed, err := writeImatrix(ctx, file, f.imatrix, 0)
		if err != nil {
			return calibrateError(err)
		}
		doc.Imatrix, doc.Unnamed = f.imatrix, unnamed
	}
	if f.out == "" {
		doc.File = ""
		if err := os.Remove(out); err != nil {
			return environment(err)
		}
	}
	if f.json {
		return printJSON(std.out, doc)
	}
	return printCalibration(std.out, doc)
}

// text is what is measured on, held against what will be measured.
func (f *calibrateFlags) text(ctx context.Context, ref *candidate.Candidate) (*corpus.Corpus, error) {
	o := corpus.Options{Tokenizer: ref.Tokenizer, Vocab: ref.Arch.Vocab, Chunk: f.chunk, Chunks: f.chunks, Calib: true}
	name := f.corpus
	if name == "" {
		name = demo.Calibration
		t, err := corpus.DemoTokenizer()
		if err != nil {
			return nil, err
		}
		if ref.Tokenizer == nil || ref.Tokenizer.Behaviour() != t.Behaviour() {
			return nil, usage(fmt.Errorf("--corpus is wanted: a text to measure on; the embedded one is for the demo's tokenizer, and %s has another, or none", ref.Label))
		}
	}
	list, err := corpus.Load(ctx, name, o)
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		var names []string
		for _, c := range list {
			names = append(names, c.Name)
		}
		return nil, usage(fmt.Errorf("--corpus %s names %s: %s; give one", f.corpus, counted(len(list), "corpus", "corpora"), strings.Join(names, ", ")))
	}
	o.Calib, o.Chunks = false, 0
	for _, name := range f.eval {
		evals, err := corpus.Load(ctx, name, o)
		if err != nil {
			return nil, err
		}
		for _, e := range evals {
			r, err := corpus.Overlap(e, list[0])
			if err == nil {
				err = r.Err()
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return list[0], nil
}

// calibrateError gives an error its exit code.
func calibrateError(err error) error {
	var small *calibrate.MemoryError
	var other *calibrate.DifferError
	var coded *exitError
	var busy *lockfile.Busy
	switch {
	case errors.As(err, &coded):
		return err
	case errors.As(err, &busy):
		return environment(err)
	case errors.As(err, &small):
		return usage(fmt.Errorf("--mem is too little: %s are needed, of which %s", formatBytes(small.Need), largest(small.Parts)))
	case errors.As(err, &other):
		return usage(err)
	case errors.Is(err, fs.ErrExist):
		return environment(err)
	}
	return measureError(err)
}

// largest says what takes most memory.
func largest(parts []calibrate.Part) string {
	if len(parts) == 0 {
		return "nothing is known"
	}
	return parts[0].Name + " " + formatBytes(parts[0].Bytes)
}

// own measures through the checkpoint's own weights.
func (f *calibrateFlags) own(ctx context.Context, ref *candidate.Candidate, text *corpus.Corpus, out string, p *calibrateProgress) ([]string, error) {
	j, err := calibrate.PrepareMeasure(ctx, calibrate.MeasureSetup{
		Reference: ref, Corpus: text, Hessians: !f.moments && f.out != "", Set: kernels.Best(), Threads: f.threads, Mem: f.bytes, Program: version,
	})
	if err != nil {
		return nil, err
	}
	w, err := calibrate.CreateFile(out, j.Header(), j.Units(), text.Chunks)
	if err != nil {
		return nil, err
	}
	defer w.Close() // after Commit it does nothing
	p.begin(w, j.Units())
	if err := j.Run(ctx, w, p.sink()); err != nil {
		return nil, err
	}
	return j.Notes(), w.Commit(ctx)
}

// behind measures through the layers of a variant as they are quantized. Its codes
// lie in the folder of parts, so that it can be gone on with.
func (f *calibrateFlags) behind(ctx context.Context, ref *candidate.Candidate, text *corpus.Corpus, out string, p *calibrateProgress) (_ []string, err error) {
	s := calibrate.Setup{
		Reference: ref, Variant: *f.variant, Targets: f.targets, Globals: export.Shared, Corpus: text,
		Codes: calibrate.CodesBeside(out), Set: kernels.Best(), Threads: f.threads, Mem: f.bytes, Program: version,
	}
	if s.Targets == "" {
		s.Targets = "default"
	}
	if s.Matrices, _, err = candidate.SelectTargets(ref, f.targets); err != nil {
		return nil, err
	}
	j, err := calibrate.Prepare(ctx, s)
	if err != nil {
		return nil, err
	}
	units, err := j.Kept()
	if err != nil {
		return nil, err
	}
	w, err := calibrate.CreateFile(out, j.FileHeader(), units, text.Chunks)
	if err != nil {
		return nil, err
	}
	defer w.Close() // after Commit it does nothing
	p.begin(w, units)
	o, err := j.RunInto(ctx, w, p.sink())
	if err != nil {
		return nil, err
	}
	if err := o.Store.Close(); err != nil {
		return nil, err
	}
	notes := o.Warnings
	if n := len(o.Fallbacks); n > 0 {
		x := o.Fallbacks[0]
		notes = append(notes, fmt.Sprintf("%s as was asked for; the first, %s, is %s: %s", counted(n, "matrix was not quantized", "matrices were not quantized"), s.Matrices[x.Matrix].Name, x.Effective, x.Reason))
	}
	if err := o.Gate(); err != nil {
		notes = append(notes, o.Variant+": "+err.Error())
	}
	return notes, w.Commit(ctx)
}
