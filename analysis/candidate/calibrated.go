package candidate

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"quantscope/analysis/corpus"
	"quantscope/kernels"
	"quantscope/quant/codes"
	"quantscope/quant/export"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/quant/recode"
	"quantscope/quant/topology"
)

// newCalibrated is a calibrated variant, whose codes were made before or are made now.
func newCalibrated(ctx context.Context, ref *Candidate, v method.Variant, targets string, o Options) (*Candidate, error) {
	if recode.Recodes(v) && !ref.stock().Empty() {
		return nil, fmt.Errorf("%w: %w", ErrSpec, recode.Check(v))
	}
	if o.Calibrate == nil {
		return nil, fmt.Errorf("%w %s: is calibrated, and nothing is here that calibrates; name the folder of its codes", ErrSpec, v.Name)
	}
	if targets == targetsDefault {
		targets = ""
	}
	store, err := o.Calibrate(ctx, ref, v, targets)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.Name, err)
	}
	c, err := ofCodes(ctx, ref, store, o)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	c.Path = ref.Path
	return c, nil
}

// SelectTargets are the matrices that a variant of a candidate quantizes, of those
// that the forward pass reads; targets as in specs, behind the @. What was asked for
// and cannot be quantized is told with the reason.
func SelectTargets(ref *Candidate, targets string) ([]topology.Matrix, []recipe.Excluded, error) {
	if ref.Topology == nil || ref.Arch == nil {
		return nil, nil, fmt.Errorf("%w: the reference %s has no topology to choose targets from", ErrSpec, ref.Label)
	}
	selected, excluded, err := selectTargets(ref.Topology, strings.TrimSpace(targets), nil)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrSpec, err)
	}
	var out []topology.Matrix
	for i := range selected {
		if reads(selected[i].Role, ref.Arch) {
			out = append(out, selected[i])
		}
	}
	if len(out) == 0 {
		return nil, nil, fmt.Errorf("%w: %w: none of %d matrices is one that the forward pass reads", ErrSpec, recipe.ErrNothing, len(selected))
	}
	return out, excluded, nil
}

// atTargets is how a spec says targets as sessions and folders of codes have them.
func atTargets(t string) string {
	if t = strings.TrimSpace(t); t == "" || t == targetsDefault || strings.HasPrefix(t, targetsDefault+":") {
		return ""
	}
	return "@" + t
}

// baseline is the spec of what differs from the codes in nothing but that nothing
// was calibrated, with what a spec cannot say in words behind it.
func (s *storedCodes) baseline(ref *Candidate, m *codes.Manifest) string {
	at := atTargets(m.Targets)
	spec := s.variant.Baseline().Name + at
	if !s.targeted(ref, strings.TrimPrefix(at, "@")) {
		spec += fmt.Sprintf(" on the %d matrices of the codes", len(s.base))
	}
	if k := kernels.Conventions(s.variant.Scheme); len(k) > 0 && s.variant.Spec.Convention != k[0] {
		spec += ", " + s.variant.Spec.Convention.String()
	}
	if s.globals == export.PerTensor && export.SharesGlobal(s.variant.Scheme) {
		spec += ", a global scale for each matrix"
	}
	return spec
}

// targeted says whether targets select just the matrices that there are codes of,
// among those that the pass reads.
func (s *storedCodes) targeted(ref *Candidate, targets string) bool {
	selected, _, err := selectTargets(ref.Topology, targets, nil)
	if err != nil {
		return false
	}
	count := func(list []topology.Matrix) map[string]bool {
		names := map[string]bool{}
		for i := range list {
			if reads(list[i].Role, ref.Arch) {
				names[list[i].Name] = true
			}
		}
		return names
	}
	want := count(selected)
	var have []topology.Matrix
	for i := range s.base {
		have = append(have, s.base[i].m)
	}
	got := count(have)
	for name := range want {
		if !got[name] {
			return false
		}
	}
	return len(want) == len(got)
}

// BaselineOf is the candidate that a calibrated one is held against: the same
// matrices of the reference by the same variant without what it was calibrated
// for. Its spec is c.Baseline.
func BaselineOf(ref, c *Candidate, o Options) (*Candidate, error) {
	if c.base == nil {
		return nil, fmt.Errorf("%w: %s is not calibrated and has no baseline of its own", ErrSpec, c.Label)
	}
	b, err := makeOf(ref, c.base, c.globals, o)
	if err != nil {
		return nil, err
	}
	b.Kind, b.Label, b.Spec, b.Effective, b.Added = Variant, c.Baseline, c.Baseline, c.Baseline, true
	return b, nil
}

// Presents says whether a candidate is what a spec without a label asks for: as a
// baseline is named by who is held against it.
func (c *Candidate) Presents(spec string) bool {
	return c.Spec == spec || c.Label == spec || strings.HasSuffix(c.Spec, "="+spec) ||
		c.Kind == Variant && c.Effective == spec // nvfp4+rtn, or targets that all have
}

// CalibrationTexts are those that the candidate, or what it is mixed of, was
// calibrated on.
func (c *Candidate) CalibrationTexts() ([]*corpus.Corpus, error) {
	var out []*corpus.Corpus
	for _, store := range c.calib {
		m := store.Manifest()
		chunks, err := store.Chunks()
		if err != nil {
			return nil, err
		}
		if len(chunks) == 0 {
			continue
		}
		k := &corpus.Corpus{Name: m.Corpus.Name, Source: m.Corpus.Source, Chunks: chunks, Tokenizer: m.Corpus.Tokenizer, Begin: -1, Calib: true}
		if sum, err := hex.DecodeString(m.Corpus.SHA256); err == nil && len(sum) == len(k.SHA256) {
			copy(k.SHA256[:], sum)
		}
		out = append(out, k)
	}
	return out, nil
}

// calibratedOn is the text of a calibration in a line.
func calibratedOn(m *codes.Manifest) string {
	k := &m.Corpus
	how := "layer by layer, through what is quantized"
	if m.Inputs != "" && m.Inputs != "sequential" {
		how = fmt.Sprintf("by saved moments %.12s", m.Inputs)
	}
	if k.SHA256 == "" {
		return how
	}
	return fmt.Sprintf("%s (%s): %d tokens in %d chunks, sha256 %.12s, %s", k.Name, k.Source, k.Tokens, k.Chunks, k.SHA256, how)
}
