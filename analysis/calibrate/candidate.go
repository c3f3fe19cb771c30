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
	"slices"

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
		if store := s.found(); store != nil {
			return store, nil
		}
		return o.make(ctx, s)
	}
}

// setup is what is calibrated for a candidate.
func (o *ForOptions) setup(ctx context.Context, ref *candidate.Candidate, v method.Variant, targets string) (Setup, error) {
	s := Setup{
		Reference: ref, Variant: v, Targets: cmp.Or(targets, "default"), Globals: export.Shared, Corpus: o.Corpus, Only: o.Only, Damp: o.Damp,
		Set: o.Set, Threads: o.Threads, Mem: o.Mem, Program: o.Program,
	}
	if s.Set.Name == "" {
		s.Set = kernels.Best()
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
	dir := o.Dir
	if dir == "" {
		if dir, err = os.UserCacheDir(); err != nil {
			return s, fmt.Errorf("there is no folder to keep its codes in: %w", err)
		}
		dir = filepath.Join(dir, "quantscope", "codes")
	}
	s.Codes = filepath.Join(dir, s.key())
	return s, nil
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

// key is the name of a folder: the variant for people, and a digest of what decides
// the codes.
func (s *Setup) key() string {
	names := make([]string, len(s.Matrices))
	for i := range names {
		names[i] = s.Matrices[i].Name
	}
	text, err := json.Marshal([]any{
		s.Reference.Identity, s.Variant.Name, s.Variant.Spec.Convention.String(), s.Globals.String(), s.Targets, names, s.Only, s.damp(),
		hex.EncodeToString(s.Corpus.SHA256[:]), lengthsOf(s.Corpus.Chunks),
	})
	if err != nil { // of strings and numbers there is no error
		text = fmt.Append(nil, err)
	}
	sum := sha256.Sum256(text)
	return s.Variant.Name + "-" + hex.EncodeToString(sum[:12])
}

func (s *Setup) damp() float64 { return cmp.Or(s.Damp, 0.01) }

func lengthsOf(chunks [][]int32) []int {
	out := make([]int, len(chunks))
	for i := range chunks {
		out[i] = len(chunks[i])
	}
	return out
}

// found opens the codes that were made before; nil where they are not there, not
// whole or another's, which making them then says.
func (s *Setup) found() *codes.Store {
	if !codes.IsStore(s.Codes) {
		return nil
	}
	store, err := codes.Open(s.Codes)
	if err != nil {
		return nil
	}
	m := store.Manifest()
	same := store.Whole() && m.Source == s.Reference.Identity && m.Variant == s.Variant.Name && m.Convention == s.Variant.Spec.Convention.String() &&
		m.GlobalScale == s.Globals.String() && m.Damp == s.damp() && m.Inputs == "sequential" &&
		m.Corpus.SHA256 == hex.EncodeToString(s.Corpus.SHA256[:]) && slices.Equal(m.Only, s.Only) && len(m.Matrices) == len(s.Matrices)
	for i := range s.Matrices {
		same = same && m.Matrices[i] == s.Matrices[i].Name
	}
	if !same {
		_ = store.Close() // it was only looked at
		return nil
	}
	return store
}

// make calibrates.
func (o *ForOptions) make(ctx context.Context, s Setup) (*codes.Store, error) {
	j, err := Prepare(ctx, s)
	if err != nil {
		return nil, err
	}
	sink := Sink{Pause: o.Pause}
	if o.Progress != nil {
		sink.Progress = func(p Progress) { o.Progress(s.Variant.Name, p) }
	}
	out, err := j.Run(ctx, sink)
	if err != nil {
		return nil, err
	}
	if err := out.Store.Close(); err != nil {
		return nil, err
	}
	if o.Warn != nil {
		for _, w := range out.Warnings {
			o.Warn(s.Variant.Name + ": " + w)
		}
		if err := out.Gate(); err != nil { // the measurement's own gate decides
			o.Warn(s.Variant.Name + ": " + err.Error())
		}
	}
	return codes.Open(s.Codes)
}
