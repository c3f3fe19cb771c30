package candidate

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"quantscope/analysis/model"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// mixture is a candidate with some of its tensors taken from another one. Its
// sources share it.
type mixture struct {
	own, other *Candidate
	takes      func(param) bool // what is the other's
	head       bool             // the head is the other's, wherever that has it
	layers     map[int][]param  // what the pass reads of each layer, -1 being what stands before them
}

// mixed is a source of a mixture: a is the candidate's own, b the other's.
type mixed struct {
	a, b traced
	m    *mixture
}

func (m *mixture) source() (model.Source, error) {
	a, err := m.own.traced()
	if err != nil {
		return nil, err
	}
	b, err := m.other.traced()
	if err != nil {
		return nil, err
	}
	return &mixed{a, b, m}, nil
}

// of finds whose a tensor is, and where that has it.
func (x *mixed) of(p model.Place, name string) (traced, model.Place) {
	switch {
	case x.m.head && p == headAt:
		return x.b, model.HeadPlace(x.b)
	case x.m.takes(param{p, name}):
		return x.b, p
	}
	return x.a, p
}

// Weight implements model.Source.
func (x *mixed) Weight(ctx context.Context, p model.Place) (model.Weight, error) {
	src, at := x.of(p, "weight")
	return src.Weight(ctx, at)
}

// Vector implements model.Source.
func (x *mixed) Vector(ctx context.Context, p model.Place, name string) ([]float32, error) {
	src, at := x.of(p, name)
	return src.Vector(ctx, at, name)
}

// Rows implements model.Source.
func (x *mixed) Rows(ctx context.Context, p model.Place, rows []int32, dst []float32) error {
	src, at := x.of(p, "weight")
	return src.Rows(ctx, at, rows, dst)
}

// Has implements model.Source.
func (x *mixed) Has(p model.Place, name string) bool {
	src, at := x.of(p, name)
	return src.Has(at, name)
}

// Release implements model.Source.
func (x *mixed) Release() {
	x.a.Release()
	x.b.Release()
}

// LayerOrigin implements model.Origins. A layer that is all of one of the two is
// that one's, and so is one whose tensors all come from where that one's do.
func (x *mixed) LayerOrigin(layer int) any {
	same := func(s traced) bool {
		for _, p := range x.m.layers[layer] {
			if o := x.origin(p); o == nil || o != originOf(s, p) {
				return false
			}
		}
		return true
	}
	switch {
	case same(x.a):
		return x.a.LayerOrigin(layer)
	case same(x.b):
		return x.b.LayerOrigin(layer)
	}
	return layerOrigin{x.m, layer}
}

func (x *mixed) origin(p param) any {
	src, at := x.of(p.Place, p.name)
	return originOf(src, param{at, p.name})
}

func originOf(s traced, p param) any {
	if p.name == "weight" && p.Kind != topology.Norm {
		return s.WeightOrigin(p.Place)
	}
	return s.vectorOrigin(p.Place, p.name)
}

// WeightOrigin implements model.Origins.
func (x *mixed) WeightOrigin(p model.Place) any { return x.origin(param{p, "weight"}) }

func (x *mixed) vectorOrigin(p model.Place, name string) any {
	src, at := x.of(p, name)
	return src.vectorOrigin(at, name)
}

// newMixture is own with what takes says, and with the head if head is set, from
// other.
func newMixture(own, other *Candidate, label string, head bool, takes func(param) bool) *Candidate {
	m := &mixture{own: own, other: other, takes: takes, head: head, layers: map[int][]param{}}
	c := &Candidate{
		Label: label, Spec: own.Spec, Path: own.Path, Kind: Mixed, Topology: own.Topology, Arch: own.Arch,
		Tokenizer: own.Tokenizer, TokenizerErr: own.TokenizerErr, TokenizerID: own.TokenizerID, Identity: own.Identity,
		Fallbacks: own.Fallbacks, Findings: own.Findings,
		source: m.source, calib: append(slices.Clip(own.calib), other.calib...),
	}
	c.Content = madeOf([]string{own.Content, other.Content}, func(w io.Writer) {
		fmt.Fprintf(w, "%t\n", head)
		for _, it := range own.inventory() {
			if takes(it.param) {
				fmt.Fprintf(w, "%v %q\n", it.Place, it.name)
			}
		}
	})
	arch := *own.Arch
	if head {
		arch.Tied = false
	}
	c.Arch = &arch
	var items []item
	theirs := map[param]item{}
	for _, it := range other.inventory() {
		theirs[it.param] = it
	}
	for _, it := range own.inventory() {
		if it.Layer >= 0 || model.Embeds(it.Place) {
			m.layers[it.Layer] = append(m.layers[it.Layer], it.param)
		}
		if head && it.Kind == topology.Head {
			continue
		}
		if t, ok := theirs[it.param]; ok && takes(it.param) {
			it = t
		}
		items = append(items, it)
	}
	if head {
		it, ok := theirs[param{headAt, "weight"}]
		if !ok {
			it = theirs[param{embeddingAt, "weight"}]
		}
		if it.param = (param{headAt, "weight"}); it.params > 0 {
			items = append(items, it)
		}
	}
	c.setInventory(items)
	return c.identified()
}

// Keep is c with the tensors that match pattern (as recipe.ParseTarget reads it;
// several are separated by commas) taken from ref. A pattern that matches nothing
// is a *recipe.NoMatchError.
func Keep(ref, c *Candidate, pattern string) (*Candidate, error) {
	if err := Compatible(ref, c); err != nil {
		return nil, err
	}
	if ref.Topology == nil {
		return nil, fmt.Errorf("%w: %s has no topology to keep tensors of", ErrSpec, ref.Label)
	}
	matchers, err := recipe.ParseTargets(pattern)
	if err != nil {
		return nil, fmt.Errorf("%w: keep: %w", ErrSpec, err)
	}
	kept := map[param]bool{}
	for _, m := range matchers {
		if !keepMatches(ref, m, kept) {
			return nil, fmt.Errorf("%w: keep: %w", ErrSpec, &recipe.NoMatchError{Pattern: m.String(), Nearest: near(ref, m.String())})
		}
	}
	mix := newMixture(c, ref, c.Label+" keep "+pattern, false, func(p param) bool { return kept[p] })
	mix.Effective = c.Effective + " keep " + pattern
	return mix, nil
}

// keepMatches adds what a pattern matches of what the pass reads: a name of a
// matrix, of its tensor, of its module, or of another tensor. The matrices of a
// fused tensor go with it.
func keepMatches(ref *Candidate, m recipe.Matcher, kept map[param]bool) (any bool) {
	for _, it := range ref.inventory() {
		if matches(m, it.tensor, it.name) {
			kept[it.param], any = true, true
		}
	}
	return any
}

// near lists tensors whose names a pattern is a part of: patterns are held against
// whole names, which is easily forgotten.
func near(ref *Candidate, pattern string) []string {
	const most = 3
	var out []string
	part := strings.Trim(pattern, "*")
	for _, it := range ref.inventory() {
		if part != "" && strings.Contains(it.tensor, part) && len(out) < most {
			out = append(out, it.tensor)
		}
	}
	return out
}

func matches(m recipe.Matcher, tensor, name string) bool {
	if m.Match(tensor) || m.Match(strings.TrimSuffix(tensor, "."+name)) {
		return true
	}
	if i := strings.IndexByte(tensor, '['); i > 0 { // a part of a fused tensor
		return m.Match(tensor[:i]) || m.Match(strings.TrimSuffix(tensor[:i], "."+name))
	}
	return false
}

// WithHead is c with head's final norm and head.
func WithHead(c, head *Candidate) (*Candidate, error) {
	if err := Compatible(c, head); err != nil {
		return nil, err
	}
	mix := newMixture(c, head, c.Label+" head "+head.Label, true, finalNorm)
	mix.Effective = c.Effective + ", head of " + head.Label
	return mix, nil
}

// WithBody is c with the embedding and decoder layers of body, and its own final
// norm and head.
func WithBody(c, body *Candidate) (*Candidate, error) {
	if err := Compatible(c, body); err != nil {
		return nil, err
	}
	mix := newMixture(body, c, c.Label+" body "+body.Label, true, finalNorm)
	mix.Spec, mix.Path, mix.Identity = c.Spec, c.Path, c.Identity
	mix.Tokenizer, mix.TokenizerErr, mix.TokenizerID = c.Tokenizer, c.TokenizerErr, c.TokenizerID
	mix.Fallbacks, mix.Findings = c.Fallbacks, c.Findings
	mix.Effective = c.Effective + ", body of " + body.Label
	return mix, nil
}

func finalNorm(p param) bool { return p.Place == finalNormAt }
