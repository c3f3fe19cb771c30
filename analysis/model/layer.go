package model

import (
	"context"
	"fmt"
)

// flow is a text between two layers: its hidden states, and what goes along with them.
type flow struct {
	x      []float32        // rows of Spec.Width
	layers []float32        // embeddings of layers' own: rows of Dim for each layer
	lent   map[int]*lending // by the layer that lends
}

// layer takes hidden states through one decoder layer, and leaves the squares of what
// comes out in r.squares.
func (r *run) layer(ctx context.Context, b *body, f *flow, e *experts) error {
	for _, rope := range b.l.mixer().ropes() {
		r.ropes.make(rope, r.seqs)
	}
	if err := r.checkCaches(b.l); err != nil {
		return err
	}
	r.flow = f
	h, w, m := r.spec.Hidden, r.spec.Width(), b.l.MoE
	r.squares = grow64(r.squares, r.rows)
	if n := r.spec.Streams; r.spec.Hyper != nil {
		r.mixes = grow(r.mixes, r.rows*n*(n+1))
	}
	if m != nil {
		r.normed, r.logits = grow(r.normed, r.rows*h), grow(r.logits, r.rows*m.Experts)
		r.choose(m)
	}
	if b.l.Beside != nil {
		r.besideOf = grow(r.besideOf, r.rows*h)
	}
	cost := r.costs(b.l)
	r.step.start(cost, b.l, r.rows)
	err := r.eachTile(cost.before, func(t *tile, s *scratch) error {
		rows, err := r.begin(ctx, s, t, f.x)
		if err != nil {
			return err
		}
		x, err := r.lead(s, b, MixerPart, t, rows)
		if err != nil {
			return err
		}
		s.normed = grow(s.normed, t.n*h)
		r.norm(s, b.l.Norm, s.normed, x, b.in, t.n)
		y, err := b.mixing.mix(r, s, b, t)
		if err != nil {
			return err
		}
		r.add(s, b, MixerPart, t, rows, y, b.postAttn)
		if x, err = r.lead(s, b, MLPPart, t, rows); err != nil {
			return err
		}
		if b.l.Beside != nil {
			if err := r.beside(s, b, t, x); err != nil {
				return err
			}
			return r.route(s, b, s.normed, t)
		}
		if m != nil {
			normed := r.normed[t.first*h:][:t.n*h]
			r.norm(s, b.l.Norm, normed, x, b.preMLP, t.n)
			return r.route(s, b, normed, t)
		}
		s.normed = grow(s.normed, t.n*h)
		r.norm(s, b.l.Norm, s.normed, x, b.preMLP, t.n)
		s.y = grow(s.y, t.n*h)
		if err := r.gated(s, b.l.MLP, &b.mlp, s.normed, t.n, s.y); err != nil || r.look {
			return err
		}
		return r.finish(s, b, rows, s.y, t)
	})
	if err != nil || m == nil {
		return err
	}
	if r.o.Routed != nil {
		r.o.Routed(r.candidate, b.l.Index, r.logits, r.choices)
	}
	if err := r.experts(ctx, b, e); err != nil {
		return err
	}
	return r.eachTile(cost.after, func(t *tile, s *scratch) error {
		shared, err := r.sharedExpert(s, b, t)
		if err != nil || r.look {
			return err
		}
		y := r.out[t.first*h:][:t.n*h]
		s.share(t.n, h, func(from, to int) {
			part := y[from*h : to*h]
			r.round(part)
			if b.l.Beside != nil {
				b.l.Norm.apply(r.o.Set, part, part, b.beside.post)
				r.round(part)
				r.o.Set.AddScaled(part, r.besideOf[(t.first+from)*h:(t.first+to)*h], 1)
				r.round(part)
			}
			if m.Shared > 0 {
				r.o.Set.AddScaled(part, shared[from*h:to*h], 1)
				r.round(part)
			}
		})
		return r.finish(s, b, f.x[t.first*w:][:t.n*w], y, t)
	})
}

// sharedExpert is what the shared expert makes of a tile; in a look nothing.
func (r *run) sharedExpert(s *scratch, b *body, t *tile) (_ []float32, err error) {
	m, h := b.l.MoE, r.spec.Hidden
	if m.Shared == 0 {
		return nil, nil
	}
	normed := r.normed[t.first*h:][:t.n*h]
	s.y = grow(s.y, t.n*h)
	if err := r.gated(s, m.shared(), &b.shared, normed, t.n, s.y); err != nil || !m.SharedGate {
		return s.y, err
	}
	if s.open, err = r.linear(s, b.sharedGate, normed, t.n, s.open); err != nil || r.look {
		return nil, err
	}
	s.share(t.n, h, func(from, to int) {
		for k := from; k < to; k++ {
			row := s.y[k*h:][:h]
			r.o.Set.Scale(row, sigmoid(s.open[k]))
			r.round(row)
		}
	})
	return s.y, nil
}

// eachTile does a part of a layer that takes so many multiply-adds a row.
func (r *run) eachTile(cost int64, task func(t *tile, s *scratch) error) error {
	return r.each(len(r.tiles), r.parallel, func(i int, s *scratch) error {
		t := &r.tiles[i]
		if err := task(t, s); err != nil {
			return err
		}
		r.did(s, cost*int64(t.n))
		return nil
	})
}

// finish adds the MLP's output to the tile's rows, and what else the layer ends with,
// and measures them.
func (r *run) finish(s *scratch, b *body, rows, y []float32, t *tile) error {
	r.add(s, b, MLPPart, t, rows, y, b.postMLP)
	if b.l.perLayer(r.spec) {
		if err := r.addLayers(s, b, t, rows); err != nil {
			return err
		}
	}
	h := r.spec.Width()
	s.share(t.n, h, func(from, to int) {
		if b.scalar != nil {
			r.o.Set.Scale(rows[from*h:to*h], b.scalar[0])
			r.round(rows[from*h : to*h])
		}
		for k := from; k < to; k++ {
			r.squares[t.first+k] = r.o.Set.SumSquares(rows[k*h:][:h])
		}
	})
	return nil
}

// wideBytes bounds the activations inside a gated MLP: gate and up of as many
// rows as fit, but not fewer than the products need to be quick.
const (
	wideBytes = 16 << 20
	fewRows   = 128
)

func gatedRows(inner int) int { return max(wideBytes/8/max(inner, 1), fewRows) }

// gated writes a gated MLP of n rows of x to y; in a look it ends before down.
func (r *run) gated(s *scratch, f FeedForward, g *gated, x []float32, n int, y []float32) (err error) {
	h := r.spec.Hidden
	r.hook(g.gate.at, x, n)
	r.hook(g.up.at, x, n)
	if r.look && !r.wants(g.down.at) {
		return nil
	}
	for at, some := 0, 0; at < n; at += some {
		some = min(gatedRows(f.Inner), n-at)
		part := x[at*h:][:some*h]
		if s.gate, err = r.apply(s, g.gate, part, some, s.gate); err != nil {
			return err
		}
		if s.up, err = r.apply(s, g.up, part, some, s.up); err != nil {
			return err
		}
		s.share(some, f.Inner, func(from, to int) {
			gate := s.gate[from*f.Inner : to*f.Inner]
			f.apply(r.o.Set, gate, s.up[from*f.Inner:to*f.Inner])
			r.round(gate)
		})
		r.hook(g.down.at, s.gate, some)
		if r.look {
			continue
		}
		if _, err = r.apply(s, g.down, s.gate, some, y[at*h:(at+some)*h]); err != nil {
			return err
		}
	}
	return nil
}

// checkCaches refuses memories of another number of tokens than were taken: those of
// a decoding that was stopped within a layer.
func (r *run) checkCaches(l *Layer) error {
	for i := range r.seqs {
		if c := r.seqs[i].cache; c != nil && c.tokens() != r.seqs[i].past {
			return fmt.Errorf("model: the cache of layer %d holds %d tokens in place of %d", l.Index, c.tokens(), r.seqs[i].past)
		}
	}
	return nil
}

func grow64(b []float64, n int) []float64 {
	if cap(b) < n {
		return make([]float64, n)
	}
	return b[:n]
}
