package model

import (
	"context"
	"errors"
	"fmt"

	"quantscope/quant/topology"
)

// ErrNoMTP is the error of a model without multi-token-prediction layers.
var ErrNoMTP = errors.New("the checkpoint stores no multi-token-prediction layer")

// MTP is a multi-token-prediction module as DeepSeek-V3 and GLM-4 have it:
//
//	x = eh_proj [enorm(embedding of token i+1) ; hnorm(h_i)]
//
// where h_i is the main model's hidden state after the final norm; then a
// decoder layer of its own over the module's own sequence, a norm and a head:
// logits for token i+2.
type MTP struct {
	spec   *Spec
	layer  *Layer
	src    Source
	r      *run
	s      *scratch
	entry  entry
	snorm  []float32
	head   linear
	cache  *layerCache
	logits []float32
	n      int
}

// NewMTP reads the first MTP layer of a source.
func NewMTP(ctx context.Context, spec *Spec, src Source, o Options) (*MTP, error) {
	if len(spec.MTP) == 0 {
		return nil, ErrNoMTP
	}
	r := newRun(spec, o, nil)
	m := &MTP{spec: spec, layer: &spec.MTP[0], src: src, r: r, s: r.worker(0, r.o.Threads), cache: &layerCache{}}
	rd := reader{ctx: ctx, spec: spec, src: src}
	var err error
	if m.entry, err = rd.entry(m.layer); err != nil {
		return nil, err
	}
	if m.snorm, err = rd.vector(mtpExtra(m.layer, "shared_head.norm"), "weight", spec.Hidden); err != nil {
		return nil, err
	}
	head := mtpExtra(m.layer, "shared_head.head")
	if !src.Has(head, "weight") {
		head = HeadPlace(src)
	}
	if m.head, err = rd.linear(head, spec.Vocab, spec.Hidden); err != nil {
		return nil, err
	}
	return m, nil
}

// mtpExtra is the place of what only an MTP layer has.
func mtpExtra(l *Layer, projection string) Place {
	return Place{Kind: topology.MTPExtra, Layer: l.Index, Expert: -1, Projection: projection}
}

// entry is what makes the hidden states that go into an MTP layer.
type entry struct {
	enorm, hnorm []float32
	proj         linear
	embedding    Place
}

// entry reads that of an MTP layer.
func (rd reader) entry(l *Layer) (e entry, err error) {
	h := rd.spec.Hidden
	if e.enorm, err = rd.vector(mtpExtra(l, "enorm"), "weight", h); err != nil {
		return e, err
	}
	if e.hnorm, err = rd.vector(mtpExtra(l, "hnorm"), "weight", h); err != nil {
		return e, err
	}
	if e.proj, err = rd.linear(mtpExtra(l, "eh_proj"), h, 2*h); err != nil {
		return e, err
	}
	e.embedding = Place{Kind: topology.Embedding, Layer: l.Index, Expert: -1}
	if !rd.src.Has(e.embedding, "weight") {
		e.embedding.Layer = -1
	}
	return e, nil
}

// enter writes what goes into an MTP layer to x: of the hidden states before it
// and of the embedded tokens that follow, which it uses up.
func (r *run) enter(s *scratch, l *Layer, e *entry, embedded, before, x []float32) ([]float32, error) {
	h, set := r.spec.Hidden, r.o.Set
	n := len(embedded) / h
	l.Norm.apply(set, embedded, embedded, e.enorm)
	s.both = grow(s.both, 2*n*h)
	for t := range n {
		copy(s.both[2*t*h:], embedded[t*h:(t+1)*h])
		l.Norm.apply(set, s.both[(2*t+1)*h:(2*t+2)*h], before[t*h:(t+1)*h], e.hnorm)
	}
	r.round(s.both)
	return r.linear(s, e.proj, s.both, n, x)
}

// Len is how many positions the module has seen.
func (m *MTP) Len() int { return m.n }

// Cut forgets all but the first n positions.
func (m *MTP) Cut(n int) {
	n = min(max(n, 0), m.n)
	m.cache.cut(&m.layer.Attn, n)
	m.n = n
}

// Feed takes the main model's normed hidden states of consecutive positions and
// the token after each, and returns logits, a row a position, that predict the
// token after that. They are valid until the next call.
func (m *MTP) Feed(ctx context.Context, normed []float32, next []int32) ([]float32, error) {
	h, n := m.spec.Hidden, len(next)
	if len(normed) != n*h {
		return nil, fmt.Errorf("model: %d hidden values for %d tokens", len(normed), n)
	}
	embedded := make([]float32, n*h)
	if err := m.src.Rows(ctx, m.entry.embedding, next, embedded); err != nil {
		return nil, err
	}
	m.s.threads = m.r.o.Threads
	x, err := m.r.enter(m.s, m.layer, &m.entry, embedded, normed, nil)
	if err != nil {
		return nil, err
	}
	m.r.lay([]sequence{{n: n, past: m.n, cache: m.cache}})
	if err := m.r.single(ctx, m.src, m.layer, x); err != nil {
		return nil, err
	}
	m.n += n
	if m.r.o.Layer != nil {
		m.r.o.Layer(0, m.layer.Index+1, x)
	}
	m.s.threads = m.r.o.Threads
	m.r.norm(m.s, m.layer.Norm, x, x, m.snorm, n)
	m.logits, err = m.r.linear(m.s, m.head, x, n, m.logits)
	return m.logits, err
}
