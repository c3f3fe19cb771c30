package model

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"quantscope/quant/topology"
)

// ErrNoMTP is the error of a model without multi-token-prediction layers.
var ErrNoMTP = errors.New("the checkpoint stores no multi-token-prediction layer")

// MTP is a multi-token-prediction module as DeepSeek-V3 and GLM-4 have it:
//
//	x = eh_proj [enorm(embedding of token i+1) ; hnorm(h_i)]
//
// where h_i is the main model's hidden state after the final norm (before it with Spec.RawMTP); then a
// decoder layer of its own over the module's own sequence, a norm and a head:
// logits for token i+2. DeepSeek-V4's has for every residual stream
//
//	x = e_proj enorm(embedding of token i+1) + h_proj hnorm(h_i)
//
// where h_i is that stream of the main model as it leaves its last layer, and a mixing
// of streams of its own before norm and head.
type MTP struct {
	spec   *Spec
	layer  *Layer
	kept   *kept
	r      *run
	s      *scratch
	entry  entry
	end    ending
	head   linear
	text   *Text // of Feed
	logits []float32

	embedded, x, normed []float32
	broken              []bool
	drafting            drafting
}

// NewMTP reads the first MTP layer of a source, its experts when they are needed.
// Release of the source ends it.
func NewMTP(ctx context.Context, spec *Spec, src Source, o Options) (*MTP, error) {
	if len(spec.MTP) == 0 {
		return nil, ErrNoMTP
	}
	r := newRun(spec, o, nil)
	m := &MTP{spec: spec, layer: &spec.MTP[0], kept: newKept(spec, src), r: r, s: r.worker(0, r.o.Threads), text: NewText(spec, 0)}
	rd := reader{ctx: ctx, spec: spec, src: src}
	var err error
	if m.entry, err = rd.entry(m.layer); err != nil {
		return nil, err
	}
	if m.end, err = rd.moduleEnding(m.layer); err != nil {
		return nil, err
	}
	head := m.layer.OwnHead()
	if !src.Has(head, "weight") {
		head = HeadPlace(src)
	}
	if m.head, err = rd.linear(head, spec.Vocab, spec.Hidden); err != nil {
		return nil, err
	}
	_, err = m.kept.layer(ctx, m.layer) // what cannot be read is told now
	return m, err
}

// Module is what stands round an MTP layer.
type Module uint8

// Modules.
const (
	// OwnModule is DeepSeek's: enorm, hnorm, eh_proj and shared_head.norm in the layer,
	// and perhaps a head. A module that goes on from its own states is given them as
	// they leave the layer.
	OwnModule Module = iota
	// SharedModule is Qwen's: pre_fc_norm_embedding, pre_fc_norm_hidden, fc and norm
	// beside its layers, the main model's head. Its own states are given on after the
	// norm (vLLM's qwen3_next_mtp).
	SharedModule
	// StreamsModule is DeepSeek-V4's: e_proj and h_proj of every residual stream in place
	// of eh_proj, and a mixing of streams of its own before norm and head.
	StreamsModule
)

// moduleAt is the place of a part of the module round an MTP layer, which is called as
// DeepSeek calls it.
func moduleAt(l *Layer, part string) Place {
	if l.Module == StreamsModule {
		return mtpExtra(l, strings.TrimPrefix(part, "shared_head."))
	}
	if l.Module == SharedModule {
		if name, ok := sharedModule[part]; ok {
			return Place{Kind: topology.MTPExtra, Layer: -1, Expert: -1, Projection: name}
		}
	}
	return mtpExtra(l, part)
}

// OwnHead is the place of an MTP layer's own head, where it has one.
func (l *Layer) OwnHead() Place { return moduleAt(l, "shared_head.head") }

// moduleEnding reads what stands between an MTP layer and its head.
func (rd reader) moduleEnding(l *Layer) (ending, error) {
	return rd.ending(l.Index, moduleAt(l, "shared_head.norm"), l.Norm)
}

var sharedModule = map[string]string{
	"enorm": "pre_fc_norm_embedding", "hnorm": "pre_fc_norm_hidden", "eh_proj": "fc", "shared_head.norm": "norm",
}

// mtpExtra is the place of what only an MTP layer has.
func mtpExtra(l *Layer, projection string) Place {
	return Place{Kind: topology.MTPExtra, Layer: l.Index, Expert: -1, Projection: projection}
}

// entry is what makes the hidden states that go into an MTP layer.
type entry struct {
	enorm, hnorm []float32
	proj         linear // of both, one behind the other
	e, h         linear // of each, where there are several streams
	embedding    Place
}

// entryTensors are what an MTP layer has beside a decoder layer's tensors.
func entryTensors(t *tensors) {
	h := t.spec.Hidden
	t.vector(moduleAt(t.l, "enorm"), "weight", h)
	t.vector(moduleAt(t.l, "hnorm"), "weight", h)
	if t.l.Module == StreamsModule {
		t.matrix(moduleAt(t.l, "e_proj"), h, h)
		t.matrix(moduleAt(t.l, "h_proj"), h, h).Times = t.spec.Streams
		t.mixes(t.l.Index, "hc_head", t.spec.Streams, 1)
	} else {
		t.matrix(moduleAt(t.l, "eh_proj"), h, 2*h)
	}
	t.vector(moduleAt(t.l, "shared_head.norm"), "weight", h)
}

// entry reads that of an MTP layer.
func (rd reader) entry(l *Layer) (e entry, err error) {
	h := rd.spec.Hidden
	if e.enorm, err = rd.vector(moduleAt(l, "enorm"), "weight", h); err != nil {
		return e, err
	}
	if e.hnorm, err = rd.vector(moduleAt(l, "hnorm"), "weight", h); err != nil {
		return e, err
	}
	if l.Module == StreamsModule {
		if e.e, err = rd.linear(moduleAt(l, "e_proj"), h, h); err == nil {
			e.h, err = rd.linear(moduleAt(l, "h_proj"), h, h)
		}
	} else {
		e.proj, err = rd.linear(moduleAt(l, "eh_proj"), h, 2*h)
	}
	if err != nil {
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
	if l.Module == StreamsModule {
		return r.enterStreams(s, l, e, embedded, before, x, n)
	}
	s.both = grow(s.both, 2*n*h)
	for t := range n {
		copy(s.both[2*t*h:], embedded[t*h:(t+1)*h])
		l.Norm.apply(set, s.both[(2*t+1)*h:(2*t+2)*h], before[t*h:(t+1)*h], e.hnorm)
	}
	r.round(s.both)
	return r.linear(s, e.proj, s.both, n, x)
}

// enterStreams is enter where there are several streams, each with the embedding.
func (r *run) enterStreams(s *scratch, l *Layer, e *entry, embedded, before, x []float32, n int) (_ []float32, err error) {
	h, k := r.spec.Hidden, r.spec.Streams
	r.round(embedded)
	if s.y, err = r.linear(s, e.e, embedded, n, s.y); err != nil {
		return nil, err
	}
	s.both = grow(s.both, n*k*h)
	l.Norm.apply(r.o.Set, s.both, before[:n*k*h], e.hnorm)
	r.round(s.both)
	if x, err = r.linear(s, e.h, s.both, n*k, x); err != nil {
		return nil, err
	}
	for i := range n * k {
		r.o.Set.AddScaled(x[i*h:(i+1)*h], s.y[i/k*h:][:h], 1)
	}
	r.round(x)
	return x, nil
}

// Len is how many positions the module has seen.
func (m *MTP) Len() int { return m.text.seen }

// Cut forgets all but the first n positions.
func (m *MTP) Cut(n int) { m.text.CutSeen(n) }

// Feed takes the main model's hidden states of consecutive positions, as Batch.Normed
// gives them, and the token after each, and returns logits, a row a position, that predict the
// token after that. They are valid until the next call.
func (m *MTP) Feed(ctx context.Context, normed []float32, next []int32) ([]float32, error) {
	n := len(next)
	if len(normed) != n*m.spec.Width() {
		return nil, fmt.Errorf("model: %d hidden values for %d tokens", len(normed), n)
	}
	x, err := m.see(ctx, []sequence{{n: n}}, []*Text{m.text}, normed, next, func(e *NonFiniteError) error { return e })
	if err != nil {
		return nil, err
	}
	m.logits, err = m.say(m.logits, x, n)
	return m.logits, err
}

// see takes consecutive positions of texts through the module's layer: rows of seqs
// are of the texts of the same index. What comes out is valid until the next call.
func (m *MTP) see(ctx context.Context, seqs []sequence, texts []*Text, normed []float32, next []int32, met func(*NonFiniteError) error) ([]float32, error) {
	h, n := m.spec.Hidden, len(next)
	if n == 0 {
		return nil, nil
	}
	m.embedded = grow(m.embedded, n*h)
	if err := m.kept.src.Rows(ctx, m.entry.embedding, next, m.embedded); err != nil {
		return nil, err
	}
	m.s.threads = m.r.o.Threads
	var err error
	if m.x, err = m.r.enter(m.s, m.layer, &m.entry, m.embedded, normed, m.x); err != nil {
		return nil, err
	}
	for i := range seqs {
		q, t := &seqs[i], texts[i]
		q.past, q.cache = t.seen, t.module
		q.cache.room(q.past+q.n, t.limit)
	}
	m.r.layFew(seqs)
	m.r.tokens = next
	m.broken = append(m.broken[:0], make([]bool, len(seqs))...)
	if err := m.r.decode(ctx, m.kept, m.layer, &flow{x: m.x}, m.broken, met); err != nil {
		return nil, err
	}
	for i, q := range seqs {
		texts[i].seen += q.n
	}
	if m.r.o.Layer != nil {
		m.r.o.Layer(0, m.layer.Index+1, m.x)
	}
	return m.x, nil
}

// say is the module's head over n rows of what came out of its layer.
func (m *MTP) say(dst, x []float32, n int) ([]float32, error) {
	m.s.threads = m.r.o.Threads
	m.normed = grow(m.normed, n*m.spec.Hidden)
	if err := m.r.ended(m.s, &m.end, m.normed, x, n); err != nil {
		return nil, err
	}
	return m.r.linear(m.s, m.head, m.normed, n, dst)
}
