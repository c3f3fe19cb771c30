package model

import (
	"sync/atomic"

	"quantscope/quant/topology"
)

// stepped counts how much of a layer is done, by the multiply-adds of its linear
// maps, and tells it in rows.
type stepped struct {
	tell func(rows int)
	of   int64
	done atomic.Int64
}

// costs are the multiply-adds that a row takes in each part of a layer.
type costs struct {
	before int64 // attention, and the MLP of a dense layer
	expert int64 // each of its experts
	after  int64 // the shared expert
}

// costs are those of a layer; nobody asks where no steps are told.
func (r *run) costs(l *Layer) (c costs) {
	if l.MoE != nil {
		c.expert = 3 * int64(r.spec.Hidden) * int64(l.MoE.Inner)
	}
	if r.step == nil {
		return c
	}
	for _, t := range l.Tensors(r.spec) {
		n := int64(t.Rows) * int64(t.Cols)
		switch {
		case t.Table || t.Mixes || t.At.Kind == topology.Expert || t.At.Kind == topology.MTPExtra || t.At.Kind == topology.Router:
		case t.At.Kind == topology.SharedExpert:
			c.after += n
		default:
			c.before += n
		}
	}
	return c
}

// start begins to count a layer of so many rows.
func (p *stepped) start(c costs, l *Layer, rows int) {
	if p == nil {
		return
	}
	p.of = c.before
	if l.MoE != nil {
		p.of += c.expert*int64(l.MoE.TopK) + c.after
	}
	p.of *= int64(rows)
	p.done.Store(0)
}

// did notes work that a goroutine has done. Only one of those that work beside each
// other tells, so that whoever is told is never told twice at once.
func (r *run) did(s *scratch, work int64) {
	p := r.step
	if p == nil {
		return
	}
	done := p.done.Add(work)
	if s == r.scratch[0] && p.of > 0 {
		p.tell(int(float64(r.rows) * min(float64(done)/float64(p.of), 1)))
	}
}
