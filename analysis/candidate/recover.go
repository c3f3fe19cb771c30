package candidate

import (
	"context"
	"fmt"
	"io"
	"slices"

	"quantscope/analysis/model"
	"quantscope/kernels"
)

// Recover is c with the orders of rows that Compare finds undone, c itself where
// there are none or none can be. Findings say what was done. Closing it closes c.
func Recover(ctx context.Context, ref, c *Candidate) (*Candidate, error) {
	found, err := permutations(ctx, ref, c)
	if err != nil {
		return nil, err
	}
	r := &recovered{c: c, at: map[model.Place]rowsOf{}, layers: map[int]bool{}}
	out := *c
	out.Findings = append([]Finding(nil), c.Findings...)
	for i := range found {
		p := &found[i]
		f := p.finding()
		if p.order != nil {
			f.Message += "; undone here"
			n := len(p.order) / len(p.places)
			for k, at := range p.places {
				r.at[at] = rowsOf{p.places, n, p.order[k*n:][:n]}
				r.layers[at.Layer] = true
			}
		}
		out.Findings = append(out.Findings, f)
	}
	if len(found) == 0 {
		return c, nil
	}
	if len(r.at) > 0 {
		out.source, out.id = r.source, nil
		out.Content = madeOf([]string{c.Content}, r.describe)
	}
	return out.identified(), nil
}

// recovered is what was undone; its sources share it.
type recovered struct {
	c      *Candidate
	at     map[model.Place]rowsOf
	layers map[int]bool
}

// rowsOf says which rows a matrix is made of: order counts through places of each
// rows.
type rowsOf struct {
	places []model.Place
	each   int
	order  []int32
}

// describe writes what was undone.
func (r *recovered) describe(w io.Writer) {
	var lines []string
	for at, rows := range r.at {
		lines = append(lines, fmt.Sprintln(at, rows.places, rows.order))
	}
	slices.Sort(lines)
	fmt.Fprint(w, lines)
}

func (r *recovered) source() (model.Source, error) {
	s, err := r.c.traced()
	if err != nil {
		return nil, err
	}
	return &reordered{s, r, kernels.Best()}, nil
}

// reordered is a source with rows put back.
type reordered struct {
	traced
	r   *recovered
	set kernels.Set
}

// Weight implements model.Source.
func (s *reordered) Weight(ctx context.Context, p model.Place) (model.Weight, error) {
	rows, ok := s.r.at[p]
	if !ok {
		return s.traced.Weight(ctx, p)
	}
	var from []model.Weight
	for _, at := range rows.places {
		w, err := s.traced.Weight(ctx, at)
		if err != nil {
			return model.Weight{}, err
		}
		from = append(from, w)
	}
	n, cols := len(rows.order), from[0].Cols
	panel := func(dst []float32, row0, rowN, col0, colN int) error {
		for r := range rowN {
			at := int(rows.order[row0+r])
			if err := s.set.ExpandBlock(dst[r*colN:][:colN], from[at/rows.each].Operand, at%rows.each, 1, col0, colN); err != nil {
				return err
			}
		}
		return nil
	}
	return model.Weight{Rows: n, Cols: cols, Operand: kernels.PanelOperand(n, cols, panel)}, nil
}

// Vector implements model.Source. A bias goes with its rows.
func (s *reordered) Vector(ctx context.Context, p model.Place, name string) ([]float32, error) {
	rows, ok := s.r.at[p]
	if !ok || name != "bias" {
		return s.traced.Vector(ctx, p, name)
	}
	var all []float32
	for _, at := range rows.places {
		v, err := s.traced.Vector(ctx, at, name)
		if err != nil {
			return nil, err
		}
		all = append(all, v...)
	}
	out := make([]float32, len(rows.order))
	for i, r := range rows.order {
		if int(r) >= len(all) {
			return nil, kernels.ErrShape
		}
		out[i] = all[r]
	}
	return out, nil
}

// Rows implements model.Source.
func (s *reordered) Rows(ctx context.Context, p model.Place, rows []int32, dst []float32) error {
	of, ok := s.r.at[p]
	if !ok || len(of.places) != 1 {
		return s.traced.Rows(ctx, p, rows, dst)
	}
	moved := make([]int32, len(rows))
	for i, r := range rows {
		if r < 0 || int(r) >= len(of.order) {
			return kernels.ErrShape
		}
		moved[i] = of.order[r]
	}
	return s.traced.Rows(ctx, p, moved, dst)
}

// Fork implements model.Forker.
func (s *reordered) Fork() model.Source {
	f := forked(s.traced)
	if f == nil {
		return nil
	}
	return &reordered{f, s.r, s.set}
}

// LayerOrigin implements model.Origins.
func (s *reordered) LayerOrigin(layer int) any {
	if s.r.layers[layer] {
		return layerOrigin{s.r, layer}
	}
	return s.traced.LayerOrigin(layer)
}

// WeightOrigin implements model.Origins.
func (s *reordered) WeightOrigin(p model.Place) any {
	if _, ok := s.r.at[p]; ok {
		return placeOrigin{s.r, p, "weight"}
	}
	return s.traced.WeightOrigin(p)
}

func (s *reordered) vectorOrigin(p model.Place, name string) any {
	if _, ok := s.r.at[p]; ok && name == "bias" {
		return placeOrigin{s.r, p, name}
	}
	return s.traced.vectorOrigin(p, name)
}
