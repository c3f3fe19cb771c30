package bias

import (
	"errors"
	"fmt"
	"reflect"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/model"
	"quantscope/analysis/yardstick"
	"quantscope/kernels"
)

// ErrShape is wrapped by the error about a candidate whose layers are not those of the
// reference, so that there is nothing to hold its stream against.
var ErrShape = errors.New("layers differ")

// draws are how many times signs are drawn for a null, seed begins them. A result must
// not change with the machine, so neither is an option.
const (
	draws = 16
	seed  = 20
)

// NewSetup says what a run will look at: candidates in the order given, and behind them
// the floor, the reference's own weights under the other activations. Nothing is
// computed. The checks are those of a measurement, see yardstick.NewSetup, and the
// layers of all must be of the same shapes.
func NewSetup(ref *candidate.Candidate, candidates []*candidate.Candidate, corpora []*corpus.Corpus, o Options) (*Setup, error) {
	if len(candidates) == 0 {
		return nil, errors.New("bias: no candidate to look at")
	}
	for _, c := range append([]*candidate.Candidate{ref}, candidates...) {
		if c.Arch == nil {
			return nil, fmt.Errorf("bias: %s has no architecture that is known", c.Label)
		}
		if err := sameLayers(ref, c); err != nil {
			return nil, err
		}
	}
	y, err := yardstick.NewSetup(ref, candidates, corpora, yardstick.Options{
		Set: o.kernels(), BF16: o.BF16, Program: o.Program, NoFloor: o.NoFloor,
	})
	if err != nil {
		return nil, err
	}
	s := &Setup{
		Reference: y.Reference, Candidates: y.Candidates, Corpora: y.Corpora, Vocab: y.VocabRef,
		Hidden: ref.Arch.Hidden, Layers: len(ref.Arch.Layers), Draws: draws, Seed: seed,
		Activations: y.Activations, KernelSet: y.KernelSet, Program: y.Program, Notes: y.Notes,
	}
	for i := range ref.Arch.Layers {
		if l := &ref.Arch.Layers[i]; l.MoE != nil {
			s.MoE = append(s.MoE, l.Index)
		}
	}
	for _, c := range s.Corpora {
		var n int64
		for _, ids := range c.IDs {
			n += int64(len(ids))
		}
		s.Chunks, s.Tokens, s.Positions = append(s.Chunks, len(c.IDs)), append(s.Tokens, n), s.Positions+n
	}
	return s, nil
}

// sameLayers is an error where a candidate's layers are others than the reference's.
func sameLayers(ref, c *candidate.Candidate) error {
	a, b := ref.Arch, c.Arch
	if a == b || a.Hidden == b.Hidden && a.Width() == b.Width() && a.EmbedScale == b.EmbedScale && reflect.DeepEqual(a.Hyper, b.Hyper) && reflect.DeepEqual(a.Layers, b.Layers) {
		return nil
	}
	return fmt.Errorf("%s and %s: %w: %d of %d channels against %d of %d", ref.Label, c.Label, ErrShape, len(a.Layers), a.Hidden, len(b.Layers), b.Hidden)
}

// kernels is the set to compute with.
func (o *Options) kernels() kernels.Set {
	if o.Set.Name == "" {
		return kernels.Best()
	}
	return o.Set
}

// party is the reference (0) or a candidate of the setup (from 1 on) while it is
// looked at.
type party struct {
	label string
	own   *candidate.Candidate
	spec  *model.Spec
	src   model.Source
	bf16  bool
}

// parties opens a source of each.
func parties(s *Setup, ref *candidate.Candidate, candidates []*candidate.Candidate, o Options) ([]*party, error) {
	all := append([]*candidate.Candidate{ref}, candidates...)
	if n := len(s.Candidates); n > 0 && s.Candidates[n-1].Floor {
		all = append(all, ref)
	}
	if len(all) != 1+len(s.Candidates) {
		return nil, fmt.Errorf("bias: %d candidates, and the setup is of %d", len(candidates), len(s.Candidates))
	}
	out := make([]*party, len(all))
	for i, c := range all {
		src, err := c.Source()
		if err != nil {
			return nil, err
		}
		out[i] = &party{c.Label, c, c.Arch, src, o.BF16}
		if i > 0 {
			p := &s.Candidates[i-1]
			out[i].label = p.Label
			if p.Floor {
				out[i].bf16 = !o.BF16
			}
		}
	}
	return out, nil
}
