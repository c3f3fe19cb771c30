package candidate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"quantscope/analysis/model"
	"quantscope/quant/export"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// ErrNoPairs is wrapped by FusedScale's errors about candidates that the mistake does
// not touch.
var ErrNoPairs = errors.New("has no fused matrices with second-level scales that differ")

// firstOf is the place whose second-level scale a server takes for all of a fused
// matrix: gate for gate and up, q for q, k and v.
func firstOf(p model.Place) (model.Place, bool) {
	first := p
	switch p.Kind {
	case topology.MLP, topology.Expert, topology.SharedExpert:
		first.Projection = "gate"
		return first, p.Projection == "up"
	case topology.Attention:
		first.Projection = "q"
		return first, p.Projection == "k" || p.Projection == "v"
	}
	return p, false
}

// FusedScale is c as a server presents it that keeps one second-level scale, the
// first, of matrices that it fuses: up is decoded with gate's, k and v with q's, so
// that up becomes up·ws_gate/ws_up. It is a mistake that was made in the wild, and is
// here so that what should find it can be tested.
//
// Stored matrices have their own scales, in whichever convention they are stored.
// What is made on the fly is made as a tool does that takes a scale for each matrix:
// variants share them otherwise, just against this mistake. A candidate whose scales
// do not differ, or that has none, is ErrNoPairs.
func FusedScale(ctx context.Context, c *Candidate) (*Candidate, error) {
	refuse := func(err error) error { return fmt.Errorf("candidate: %s: %w", c.Label, err) }
	src, err := c.source()
	if err != nil {
		return nil, err
	}
	f := *c
	f.close = nil
	f.id, f.items = nil, c.items
	pairs := 0
	switch s := src.(type) {
	case *native:
		x := *s.x
		x.firsts = map[*layout.Module]float32{}
		for at, part := range x.modules {
			first, ok := firstOf(at)
			of, stored := x.modules[first]
			if !ok || !stored || of.m == part.m || !secondLevel(part.m) || !secondLevel(of.m) {
				continue
			}
			own, err := part.m.Global(ctx)
			if err != nil {
				return nil, err
			}
			v, err := of.m.Global(ctx)
			if err != nil {
				return nil, err
			}
			if x.firsts[part.m] = v; v != own {
				pairs++
			}
		}
		f.source = func() (model.Source, error) { return newNative(&x), nil }
	case *overlay:
		m := s.m.withFirsts()
		for p, j := range m.jobs {
			first, ok := m.firsts[p]
			if !ok {
				continue
			}
			of, err := m.global(ctx, s.raw, m.jobs[first])
			if err != nil {
				return nil, err
			}
			own, err := m.global(ctx, s.raw, j)
			if err != nil {
				return nil, err
			}
			if of != own {
				pairs++
			}
		}
		f.source = func() (model.Source, error) {
			src, err := c.source()
			if err != nil {
				return nil, err
			}
			o, ok := src.(*overlay)
			if !ok {
				return nil, refuse(ErrNoPairs)
			}
			o.m = m
			return o, nil
		}
	}
	if pairs == 0 {
		return nil, refuse(ErrNoPairs)
	}
	f.Effective = c.Effective + ", the first second-level scale for all of what is fused"
	made := func(w io.Writer) { fmt.Fprint(w, "the first scale") }
	f.Identity, f.Content = madeOf([]string{c.Identity}, made), madeOf([]string{c.Content}, made)
	return f.identified(), nil
}

// secondLevel says whether a module has a scale above those of its blocks.
func secondLevel(m *layout.Module) bool {
	return m.GlobalTensor() != nil && m.GlobalTensor() != m.ScaleTensor()
}

// firsts are which matrices take whose second-level scale, and scales that are
// known.
type firsts struct {
	mu    sync.Mutex
	known map[*job]float32
}

// withFirsts is what makes the same matrices with a second-level scale each, of which
// the first of what is fused is used for all of it.
func (m *made) withFirsts() *made {
	n := &made{set: m.set, threads: m.threads, jobs: map[model.Place]*job{}, layers: m.layers, budget: m.budget, firsts: map[model.Place]model.Place{}, scales: &firsts{known: map[*job]float32{}}}
	for p, j := range m.jobs {
		own := *j
		own.fused, own.kept = nil, nil
		n.jobs[p] = &own
	}
	for p, j := range n.jobs {
		first, ok := firstOf(p)
		if of := n.jobs[first]; ok && of != nil && of.v.Scheme == j.v.Scheme && export.SharesGlobal(j.v.Scheme) {
			n.firsts[p] = first
		}
	}
	return n
}

// global is the second-level scale that a matrix is decoded with; 0 for one that
// has none.
func (m *made) global(ctx context.Context, raw model.Source, j *job) (float32, error) {
	m.scales.mu.Lock()
	v, ok := m.scales.known[j]
	m.scales.mu.Unlock()
	if ok {
		return v, nil
	}
	c, err := m.code(ctx, raw, j, func(n int) []byte { return make([]byte, n) })
	if err != nil {
		return 0, err
	}
	m.scales.mu.Lock()
	defer m.scales.mu.Unlock()
	m.scales.known[j] = c.global
	return c.global, nil
}

// first is c with the second-level scale of the first matrix of what it is fused
// with, where that is asked for.
func (m *made) first(ctx context.Context, raw model.Source, p model.Place, c *coded) (*coded, error) {
	first, ok := m.firsts[p]
	if !ok {
		return c, nil
	}
	v, err := m.global(ctx, raw, m.jobs[first])
	if err != nil || v == c.global {
		return c, err
	}
	d := *c
	d.global = v
	return &d, nil
}
