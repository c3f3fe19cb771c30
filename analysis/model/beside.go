package model

import (
	"math"

	"quantscope/quant/topology"
)

// Beside is an MLP beside the experts of a layer. Each of the two reads the hidden
// states by a norm of its own, and has one behind it:
//
//	y = PostMLP(mlp(Layer.PreMLP(x))) + Post(experts(Pre(x)))
//
// and x += Layer.PostMLP(y).
type Beside struct{ PostMLP, Pre, Post string }

// besideNorms are the norms of an MLP beside experts, as they were read.
type besideNorms struct{ postMLP, pre, post []float32 }

// ExpertsInput is the place that stands for what all experts of a layer read where that
// is not what its router reads.
func ExpertsInput(layer int) Place {
	return Place{Kind: topology.Expert, Layer: layer, Expert: -1, Projection: "gate"}
}

// beside computes the MLP beside the experts of a tile, x being its hidden states, and
// makes what the experts and the router read: r.normed and s.normed.
func (r *run) beside(s *scratch, b *body, t *tile, x []float32) error {
	h, n := r.spec.Hidden, b.l.Norm
	s.normed = grow(s.normed, t.n*h)
	r.norm(s, n, s.normed, x, b.preMLP, t.n)
	y := r.besideOf[t.first*h:][:t.n*h]
	if err := r.gated(s, b.l.MLP, &b.mlp, s.normed, t.n, y); err != nil {
		return err
	}
	if !r.look {
		r.norm(s, n, y, y, b.beside.postMLP, t.n)
	}
	normed := r.normed[t.first*h:][:t.n*h]
	r.norm(s, n, normed, x, b.beside.pre, t.n)
	r.hook(ExpertsInput(b.l.Index), normed, t.n)
	r.routed(s, b, t, x)
	return nil
}

// routed writes what a router with a norm of its own reads to s.normed.
func (r *run) routed(s *scratch, b *body, t *tile, x []float32) {
	h, root := r.spec.Hidden, float32(1/math.Sqrt(float64(r.spec.Hidden)))
	s.normed = grow(s.normed, t.n*h)
	s.share(t.n, h, func(from, to int) {
		for k := from; k < to; k++ {
			row, y := x[k*h:][:h], s.normed[k*h:][:h]
			copy(y, row)
			r.o.Set.Scale(y, float32(1/math.Sqrt(r.o.Set.SumSquares(row)/float64(h)+b.l.Norm.Eps)))
			r.round(y)
			r.o.Set.MulScaled(y, y, b.scale, 1, false)
			r.round(y)
			r.o.Set.Scale(y, root)
			r.round(y)
		}
	})
}

// besideBytes are those of each row that stay until the experts are done.
func (l *Layer) besideBytes(s *Spec) int64 {
	if l.Beside == nil {
		return 0
	}
	return 4 * int64(s.Hidden)
}
