package model

import (
	"context"
	"fmt"
)

// layer adds one decoder layer to the hidden states x, and leaves the squares of
// what comes out in r.squares.
func (r *run) layer(ctx context.Context, b *body, x []float32, e *experts) error {
	r.ropes.make(&b.l.Attn.Rope, r.seqs)
	if err := r.checkCaches(b.l); err != nil {
		return err
	}
	h, m := r.spec.Hidden, b.l.MoE
	r.squares = grow64(r.squares, r.rows)
	if m != nil {
		r.normed, r.logits = grow(r.normed, r.rows*h), grow(r.logits, r.rows*m.Experts)
		r.choose(m)
	}
	cost := costsOf(h, b.l)
	r.step.start(cost, b.l, r.rows)
	err := r.eachTile(cost.before, func(t *tile, s *scratch) error {
		rows, err := r.begin(ctx, s, t, x)
		if err != nil {
			return err
		}
		y, err := r.attention(s, b, t, rows)
		if err != nil {
			return err
		}
		r.add(s, b, AttentionPart, rows, y, b.postAttn, t.n)
		if m != nil {
			normed := r.normed[t.first*h:][:t.n*h]
			r.norm(s, b.l.Norm, normed, rows, b.preMLP, t.n)
			return r.route(s, b, normed, t)
		}
		s.normed = grow(s.normed, t.n*h)
		r.norm(s, b.l.Norm, s.normed, rows, b.preMLP, t.n)
		s.y = grow(s.y, t.n*h)
		if err := r.gated(s, b.l.MLP, &b.mlp, s.normed, t.n, s.y); err != nil || r.look {
			return err
		}
		r.finish(s, b, rows, s.y, t)
		return nil
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
		if r.look {
			if m.Shared > 0 {
				return r.gated(s, FeedForward{m.Shared, m.Act}, &b.shared, r.normed[t.first*h:][:t.n*h], t.n, nil)
			}
			return nil
		}
		y := r.out[t.first*h:][:t.n*h]
		if m.Shared > 0 {
			s.y = grow(s.y, t.n*h)
			if err := r.gated(s, FeedForward{m.Shared, m.Act}, &b.shared, r.normed[t.first*h:][:t.n*h], t.n, s.y); err != nil {
				return err
			}
		}
		s.share(t.n, h, func(from, to int) {
			part := y[from*h : to*h]
			r.round(part)
			if m.Shared > 0 {
				r.o.Set.AddScaled(part, s.y[from*h:to*h], 1)
				r.round(part)
			}
		})
		r.finish(s, b, x[t.first*h:][:t.n*h], y, t)
		return nil
	})
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

// finish adds the MLP's output to the tile's rows and measures them.
func (r *run) finish(s *scratch, b *body, rows, y []float32, t *tile) {
	r.add(s, b, MLPPart, rows, y, b.postMLP, t.n)
	h := r.spec.Hidden
	s.share(t.n, h, func(from, to int) {
		for k := from; k < to; k++ {
			r.squares[t.first+k] = r.o.Set.SumSquares(rows[k*h:][:h])
		}
	})
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
			f.Act.apply(r.o.Set, gate, s.up[from*f.Inner:to*f.Inner])
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

// checkCaches refuses keys of another number of tokens than were taken: those of
// a decoding that was stopped within a layer.
func (r *run) checkCaches(l *Layer) error {
	for i := range r.seqs {
		c := r.seqs[i].cache
		if c == nil {
			continue
		}
		if want := r.seqs[i].past * l.Attn.KVHeads * l.Attn.Dim; len(c.k) != want {
			return fmt.Errorf("model: the cache of layer %d holds %d values in place of %d", l.Index, len(c.k), want)
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
