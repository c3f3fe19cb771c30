package calibrate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/kernels"
	"quantscope/quant/codes"
	"quantscope/quant/demo"
	"quantscope/quant/export"
	"quantscope/quant/method"
)

// ErrNoText is wrapped where a calibrated variant is asked for and there is no
// text to calibrate it on.
var ErrNoText = errors.New("needs a text to be calibrated on")

// ForOptions say how ForCandidate calibrates.
type ForOptions struct {
	Corpus  *corpus.Corpus // nil: the embedded one for calibration, where the tokenizer is the demo's
	Only    []string       // see Setup
	Damp    float64        // see Setup
	Dir     string         // that keeps folders of codes; "": quantscope/codes in the user's cache folder
	Set     kernels.Set    // the zero value is kernels.Best()
	Threads int
	Mem     int64
	Program string

	Progress func(variant string, p Progress) // may be nil
	Pause    func(context.Context) error      // see Sink; may be nil
	Outcome  func(*Outcome)                   // told what a run came to, of codes that were made before too; its store is closed; may be nil
	Warn     func(string)                     // told of what is odd and ends nothing; may be nil
}

// ForCandidate is what candidate.Options.Calibrate asks for. The codes of a variant
// are made once: they lie in a folder that is named for all that decides them, and
// are found there the next time. What was interrupted is gone on with.
func ForCandidate(o ForOptions) func(context.Context, *candidate.Candidate, method.Variant, string) (*codes.Store, error) {
	return func(ctx context.Context, ref *candidate.Candidate, v method.Variant, targets string) (*codes.Store, error) {
		s, err := o.setup(ctx, ref, v, targets)
		if err != nil {
			return nil, err
		}
		j, err := Prepare(ctx, s)
		if err != nil {
			return nil, err
		}
		m := j.Manifest()
		if j.s.Codes, err = o.folder(&m); err != nil {
			return nil, err
		}
		if o.Outcome == nil { // else the run reads what is there, and says what it came to
			if store := found(j.s.Codes, &m); store != nil {
				return store, nil
			}
		}
		return o.make(ctx, j)
	}
}

// setup is what is calibrated for a candidate.
func (o *ForOptions) setup(ctx context.Context, ref *candidate.Candidate, v method.Variant, targets string) (Setup, error) {
	s := Setup{
		Reference: ref, Variant: v, Targets: cmp.Or(targets, "default"), Globals: export.Shared, Corpus: o.Corpus, Only: o.Only, Damp: o.Damp,
		Set: o.Set, Threads: o.Threads, Mem: o.Mem, Program: o.Program,
	}
	var err error
	if s.Matrices, _, err = candidate.SelectTargets(ref, targets); err != nil {
		return s, err
	}
	if s.Corpus == nil {
		if s.Corpus, err = embeddedText(ctx, ref); err != nil {
			return s, err
		}
	}
	return s, nil
}

// folder is where the codes of a manifest lie: named for the variant, for people, and
// for all that decides them.
func (o *ForOptions) folder(m *codes.Manifest) (string, error) {
	dir := o.Dir
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("there is no folder to keep its codes in: %w", err)
		}
		dir = filepath.Join(cache, "quantscope", "codes")
	}
	plain := *m
	plain.Program, plain.Corpus.Name, plain.Corpus.Source = "", "", "" // decide nothing
	text, err := json.Marshal(plain)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return filepath.Join(dir, m.Variant+"-"+hex.EncodeToString(sum[:12])), nil
}

// embeddedText is the demo's text for calibration, for whoever has its tokenizer.
func embeddedText(ctx context.Context, ref *candidate.Candidate) (*corpus.Corpus, error) {
	list, err := corpus.Load(ctx, demo.Calibration, corpus.Options{Tokenizer: ref.Tokenizer, Calib: true})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil || len(list) != 1:
		return nil, fmt.Errorf("%w: none is named (--calib FILE), and the embedded one is of the demo's tokenizer, which %s has not", ErrNoText, ref.Label)
	}
	return list[0], nil
}

// found opens the codes of a manifest that were made before; nil where they are not
// there, not whole or another's, which making them then says.
func found(dir string, m *codes.Manifest) *codes.Store {
	if !codes.IsStore(dir) {
		return nil
	}
	store, err := codes.Open(dir)
	if err != nil {
		return nil
	}
	old := store.Manifest()
	if !store.Whole() || old.Differs(dir, m) != nil {
		_ = store.Close() // it was only looked at
		return nil
	}
	return store
}

// make calibrates.
func (o *ForOptions) make(ctx context.Context, j *Job) (*codes.Store, error) {
	name := j.s.Variant.Name
	sink := Sink{Pause: o.Pause}
	if o.Progress != nil {
		sink.Progress = func(p Progress) { o.Progress(name, p) }
	}
	out, err := j.Run(ctx, sink)
	if err != nil {
		return nil, err
	}
	if err := out.Store.Close(); err != nil {
		return nil, err
	}
	if o.Outcome != nil {
		o.Outcome(out)
	}
	if o.Warn != nil {
		for _, w := range out.Warnings {
			o.Warn(name + ": " + w)
		}
		if err := out.Gate(); err != nil { // the measurement's own gate decides
			o.Warn(name + ": " + err.Error())
		}
	}
	return codes.Open(j.s.Codes)
}
