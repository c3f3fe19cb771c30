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
	spec                *Spec
	layer               *Layer
	src                 Source
	r                   *run
	s                   *scratch
	enorm, hnorm, snorm []float32
	proj, head          linear
	embedding           Place
	cache               *layerCache
	logits              []float32
	n                   int
}

// NewMTP reads the first MTP layer of a source.
func NewMTP(ctx context.Context, spec *Spec, src Source, o Options) (*MTP, error) {
	if len(spec.MTP) == 0 {
		return nil, ErrNoMTP
	}
	r := newRun(spec, o, nil)
	m := &MTP{spec: spec, layer: &spec.MTP[0], src: src, r: r, s: r.worker(0, r.o.Threads), cache: &layerCache{}}
	rd := reader{ctx: ctx, spec: spec, src: src}
	at := func(projection string) Place {
		return Place{Kind: topology.MTPExtra, Layer: m.layer.Index, Expert: -1, Projection: projection}
	}
	var err error
	for _, v := range []struct {
		name string
		to   *[]float32
	}{{"enorm", &m.enorm}, {"hnorm", &m.hnorm}, {"shared_head.norm", &m.snorm}} {
		if *v.to, err = rd.vector(at(v.name), "weight", spec.Hidden); err != nil {
			return nil, err
		}
	}
	if m.proj, err = rd.linear(at("eh_proj"), spec.Hidden, 2*spec.Hidden); err != nil {
		return nil, err
	}
	head := at("shared_head.head")
	if !src.Has(head, "weight") {
		head = HeadPlace(src)
	}
	if m.head, err = rd.linear(head, spec.Vocab, spec.Hidden); err != nil {
		return nil, err
	}
	m.embedding = Place{Kind: topology.Embedding, Layer: m.layer.Index, Expert: -1}
	if !src.Has(m.embedding, "weight") {
		m.embedding.Layer = -1
	}
	return m, nil
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
	if err := m.src.Rows(ctx, m.embedding, next, embedded); err != nil {
		return nil, err
	}
	set := m.r.o.Set
	m.layer.Norm.apply(set, embedded, embedded, m.enorm)
	both := make([]float32, 2*n*h)
	for t := range n {
		copy(both[2*t*h:], embedded[t*h:(t+1)*h])
		m.layer.Norm.apply(set, both[(2*t+1)*h:(2*t+2)*h], normed[t*h:(t+1)*h], m.hnorm)
	}
	m.r.round(both)
	m.s.threads = m.r.o.Threads
	x, err := m.r.linear(m.s, m.proj, both, n, nil)
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
