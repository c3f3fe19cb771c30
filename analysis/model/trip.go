package model

import (
	"context"
	"fmt"
	"slices"
)

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
	flow
	rms    []float64
	broken []bool // by sequence
}

// trip is one run of a pass.
type trip struct {
	*Pass
	ctx     context.Context
	tokens  []int32
	parties []*party
	ahead   *future[*body] // what is read while something is computed
}

// close waits for what is still being read.
func (p *trip) close() {
	for _, q := range p.parties {
		if q.state != nil {
			q.state.flow.drop(&p.lendings)
		}
	}
	if p.ahead != nil {
		p.ahead.wait()
	}
	for _, h := range p.lend {
		h.close()
	}
}

// begin reads the embeddings, of each origin once.
func (p *trip) begin() error {
	r := p.run
	for c, lend := range p.lend {
		q := &party{index: c, bf16: r.o.BF16 || c < len(r.o.BF16Of) && r.o.BF16Of[c], lend: lend}
		q.org, _ = lend.src.(Origins)
		q.follow(p.parties, len(r.spec.Layers))
		p.parties = append(p.parties, q)
		if q.leader != nil {
			q.state = q.leader.state
		} else {
			x := p.room()
			q.state = &state{flow: flow{x: x, layers: p.layersRoom()}, broken: make([]bool, len(r.seqs))}
			if err := p.enter(q); err != nil {
				return err
			}
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

// enter makes a party's embeddings.
func (p *trip) enter(q *party) error {
	r := p.run
	from := q.lend.get()
	defer q.lend.put(from)
	r.candidate = q.index
	if err := r.embed(p.ctx, from, p.tokens, q.bf16, q.state.x); err != nil {
		return err
	}
	e, err := reader{ctx: p.ctx, spec: r.spec, src: from}.entrance()
	if err != nil {
		return err
	}
	return r.embedLayers(p.ctx, from, &e, p.tokens, q.state.x, &q.state.flow)
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
func (p *trip) layers() error {
	spec := p.run.spec
	var steps []step
	for i := range spec.Layers {
		var of []step
		for _, q := range p.parties {
			if q.leader == nil || i >= q.until {
				of = append(of, step{layer: i, party: q})
			}
		}
		lent := plan(of, spec, &spec.Layers[i])
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

// part gives parties that differ from this layer on hidden states of their own;
// whoever follows them goes along. Leaders stand before those who follow.
func (p *trip) part(layer int) {
	for _, q := range p.parties {
		switch {
		case q.leader == nil || q.until < layer:
		case q.until == layer:
			s := q.leader.state
			q.state = &state{s.with(p.room()), slices.Clone(s.rms), slices.Clone(s.broken)}
			copy(q.state.x, s.x)
		default:
			q.state = q.leader.state
		}
	}
}

// tell calls the hooks of a layer that is done, for all parties.
func (p *trip) tell(layer int) {
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
func (p *trip) step(s step, next []step) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	q, r := s.party, p.run
	b, err := p.body(s)
	if err != nil {
		return fmt.Errorf("layer %d: %w", s.layer, err)
	}
	if len(next) > 0 && next[0].party.lend.forks() {
		p.ahead = async(func() (*body, error) { return p.read(next[0]) })
	}
	r.candidate, r.bf16 = q.index, q.bf16
	r.sharing = r.sharing[:0]
	for _, other := range p.parties {
		if other.state == q.state {
			r.sharing = append(r.sharing, other.index)
		}
	}
	x := &experts{lend: q.lend, rd: reader{ctx: p.ctx, spec: r.spec, lent: s.lent, of: q}}
	q.state.flow.begin(b.l, r.rows, &p.lendings)
	err = r.layer(p.ctx, b, &q.state.flow, x)
	q.state.flow.end(r.spec, b.l, &p.lendings)
	s.lent.done(q, append(x.kept, func() { q.lend.put(b.from) })...)
	if err != nil {
		return fmt.Errorf("layer %d: %w", s.layer, err)
	}
	return p.check(q, s.layer, "output")
}

// body is what a step needs beside experts: read ahead, or now.
func (p *trip) body(s step) (*body, error) {
	if p.ahead != nil {
		b, err := p.ahead.wait()
		p.ahead = nil
		return b, err
	}
	return p.read(s)
}

func (p *trip) read(s step) (*body, error) {
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
func (p *trip) check(q *party, layer int, what string) error {
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
