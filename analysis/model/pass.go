package model

import (
	"context"
	"fmt"

	"quantscope/kernels"
)

// Options of a pass.
type Options struct {
	Set     kernels.Set
	Threads int    // 0: all processors
	BF16    bool   // activations are rounded to bf16 where a bf16 run would store them
	BF16Of  []bool // the same for single sources, by their index; shorter is false
	Wave    int64  // bytes of experts' weights that are read at a time; 0: 256 MiB

	// Input, where it is set, is called with inputs of every linear map: n rows of
	// its columns, all rows once, in order and in one call or several. It is called
	// from one goroutine, in the same order for any number of threads; x is only
	// lent. Layers that a candidate shares with one before it are left out.
	Input func(candidate int, p Place, x []float32, n int)
	// Routed, where it is set, is called with the logits and choices of each router
	// for all rows, which are only lent. Shared layers are left out.
	Routed func(candidate, layer int, logits []float32, choices []Choice)
	// Layer, where it is set, is called with the hidden states after each layer of
	// a candidate, 0 being the embeddings; x is only lent.
	Layer func(candidate, after int, x []float32)
	// Done, where it is set, is told of every layer of a candidate that is done.
	Done func(candidate, layer int)
	// NonFinite, where it is set, is asked whether the pass goes on (nil) when
	// hidden states of a candidate are not finite: once for each candidate and
	// chunk, with the first position, after the layer (-1: the embeddings). What is
	// not finite stays so, and no other position or candidate is touched by it.
	// Where it is not set the pass stops with e.
	NonFinite func(candidate, layer int, e *NonFiniteError) error
}

// defaultWave is a good part of a server's memory for one core's share, and some
// ten experts of the largest models.
const defaultWave = 256 << 20

// Hidden are the final hidden states of a candidate, before the final norm: rows
// of Spec.Hidden, chunk after chunk. Candidates that do not differ before the
// head have the same memory: it is not to be changed.
type Hidden struct {
	X    []float32
	Rows int
	// RMS is the root mean square of the hidden states: of the embeddings, then
	// after each layer. Rows that are not finite are left out.
	RMS []float64
}

// Run takes chunks of tokens through the decoder layers of every source, layer
// by layer. Each chunk is a text of its own. Layers that begin with the same
// hidden states and have the same weights by their Origins are computed once.
//
// Of each source one layer is in memory at a time, and of its routed experts one
// wave. A Source that is a Forker is read ahead by one layer or wave; weights of
// one origin are then read once for all sources. Errors name the layer.
func Run(ctx context.Context, spec *Spec, sources []Source, chunks [][]int32, o Options) ([]Hidden, error) {
	seqs, tokens, err := spec.lay(chunks)
	if err != nil {
		return nil, err
	}
	p := &pass{ctx: ctx, run: newRun(spec, o, seqs), tokens: tokens}
	defer p.close()
	if err := p.begin(sources); err != nil {
		return nil, err
	}
	if err := p.layers(); err != nil {
		return nil, err
	}
	out := make([]Hidden, len(p.parties))
	for c, party := range p.parties {
		out[c] = Hidden{X: party.state.x, Rows: len(tokens), RMS: party.state.rms}
	}
	return out, nil
}

// lay puts chunks one after the other.
func (s *Spec) lay(chunks [][]int32) (seqs []sequence, tokens []int32, err error) {
	for i, c := range chunks {
		for j, id := range c {
			if id < 0 || int(id) >= s.Vocab {
				return nil, nil, fmt.Errorf("model: token %d at position %d of chunk %d is outside the vocabulary of %d", id, j, i, s.Vocab)
			}
		}
		if len(c) == 0 {
			continue
		}
		seqs = append(seqs, sequence{first: len(tokens), n: len(c), chunk: i})
		tokens = append(tokens, c...)
	}
	return seqs, tokens, nil
}

// party is a source in a pass.
type party struct {
	index int
	bf16  bool
	lend  *handles
	org   Origins // nil where it has none
	state *state

	leader *party // what it is the same as, up to the layer until
	until  int
}

// state are the hidden states of one party, or of several that are the same.
type state struct {
	x      []float32
	rms    []float64
	broken []bool // by sequence
}

func (s *state) clone() *state {
	return &state{append([]float32(nil), s.x...), append([]float64(nil), s.rms...), append([]bool(nil), s.broken...)}
}

// pass takes all parties through all layers.
type pass struct {
	ctx     context.Context
	run     *run
	tokens  []int32
	parties []*party
	ahead   *future[*body] // what is read while something is computed
}

// close waits for what is still being read.
func (p *pass) close() {
	if p.ahead != nil {
		p.ahead.wait()
	}
	for _, party := range p.parties {
		party.lend.close()
	}
}

// begin reads the embeddings, of each origin once.
func (p *pass) begin(sources []Source) error {
	r := p.run
	for c, src := range sources {
		q := &party{index: c, bf16: r.o.BF16 || c < len(r.o.BF16Of) && r.o.BF16Of[c], lend: newHandles(src)}
		q.org, _ = src.(Origins)
		q.follow(p.parties, len(r.spec.Layers))
		p.parties = append(p.parties, q)
		if q.leader != nil {
			q.state = q.leader.state
		} else {
			x, err := r.embed(p.ctx, src, p.tokens, q.bf16)
			if err != nil {
				return err
			}
			q.state = &state{x: x, broken: make([]bool, len(r.seqs))}
			r.measure(x)
			if err := p.check(q, -1, "embedding"); err != nil {
				return err
			}
		}
		if r.o.Layer != nil {
			r.o.Layer(c, 0, q.state.x)
		}
	}
	return nil
}

// follow finds the party before it that it is the same as for the most layers.
func (q *party) follow(before []*party, layers int) {
	if q.org == nil {
		return
	}
	same := func(o *party, layer int) bool {
		a := q.org.LayerOrigin(layer)
		return a != nil && a == o.org.LayerOrigin(layer)
	}
	for _, o := range before {
		if o.org == nil || o.bf16 != q.bf16 || !same(o, -1) {
			continue
		}
		n := 0
		for n < layers && same(o, n) {
			n++
		}
		if q.leader == nil || n > q.until {
			q.leader, q.until = o, n
		}
	}
}

// layers computes them all.
func (p *pass) layers() error {
	spec := p.run.spec
	var steps []step
	for i := range spec.Layers {
		var of []step
		for _, q := range p.parties {
			if q.leader == nil || i >= q.until {
				of = append(of, step{layer: i, party: q})
			}
		}
		lent := plan(of, &spec.Layers[i])
		for k := range of {
			of[k].lent = lent
		}
		steps = append(steps, of...)
	}
	layer := -1
	for k, s := range steps {
		if s.layer != layer {
			layer = s.layer
			p.part(layer)
		}
		if err := p.step(s, steps[k+1:]); err != nil {
			return err
		}
		last := k+1 == len(steps) || steps[k+1].layer != layer
		if last {
			p.tell(layer)
		}
	}
	return nil
}

// part gives parties that differ from this layer on hidden states of their own.
func (p *pass) part(layer int) {
	for _, q := range p.parties {
		if q.leader != nil && q.until == layer {
			q.state = q.leader.state.clone()
		}
	}
}

// tell calls the hooks of a layer that is done, for all parties.
func (p *pass) tell(layer int) {
	for _, q := range p.parties {
		if p.run.o.Layer != nil {
			p.run.o.Layer(q.index, layer+1, q.state.x)
		}
		if p.run.o.Done != nil {
			p.run.o.Done(q.index, layer)
		}
	}
}

// step is one layer of one party.
type step struct {
	layer int
	party *party
	lent  *registry
}

// step computes one, and begins to read for the next.
func (p *pass) step(s step, next []step) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	q, r := s.party, p.run
	b, err := p.body(s)
	if err != nil {
		return fmt.Errorf("layer %d: %w", s.layer, err)
	}
	if len(next) > 0 && next[0].party.lend.forks() {
		p.ahead = begin(func() (*body, error) { return p.read(next[0]) })
	}
	r.candidate, r.bf16 = q.index, q.bf16
	x := &experts{lend: q.lend, rd: reader{ctx: p.ctx, spec: r.spec, lent: s.lent, of: q}}
	err = r.layer(p.ctx, b, q.state.x, x)
	s.lent.done(q, append(x.kept, func() { q.lend.put(b.from) })...)
	if err != nil {
		return fmt.Errorf("layer %d: %w", s.layer, err)
	}
	return p.check(q, s.layer, "output")
}

// body is what a step needs beside experts: read ahead, or now.
func (p *pass) body(s step) (*body, error) {
	if p.ahead != nil {
		b, err := p.ahead.wait()
		p.ahead = nil
		return b, err
	}
	return p.read(s)
}

func (p *pass) read(s step) (*body, error) {
	from := s.party.lend.get()
	b, err := reader{p.ctx, p.run.spec, from, s.lent, s.party}.body(&p.run.spec.Layers[s.layer])
	if err != nil {
		s.party.lend.put(from)
		return nil, err
	}
	b.from = from
	return b, nil
}

// check looks at what r.measure found in the hidden states of a party.
func (p *pass) check(q *party, layer int, what string) error {
	st, r := q.state, p.run
	st.rms = append(st.rms, r.rms())
	return r.finite(st.x, st.broken, layer, what, func(e *NonFiniteError) error {
		if r.o.NonFinite == nil {
			return e
		}
		for _, other := range p.parties {
			if other.state != st {
				continue
			}
			if err := r.o.NonFinite(other.index, layer, e); err != nil {
				return err
			}
		}
		return nil
	})
}
