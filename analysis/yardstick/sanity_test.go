package yardstick

import (
	"context"
	"strings"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/topology"
)

// A candidate whose weights differ and whose scores do not was never used.
func TestWeightsThatAreNotUsed(t *testing.T) {
	ref := reference(t)
	calls := 0
	idle := wrapped(ref, "idle", func(src model.Source) model.Source { return &lateSource{Source: src, calls: &calls} })
	r, err := Measure(context.Background(), ref, []*candidate.Candidate{idle}, texts(t, 2, 48, "prose"), Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	var found bool
	for _, g := range r.Gates {
		if g.Name == "floor" && g.Of == 0 {
			found = true
			if g.Passed || !strings.Contains(g.Message, "were not used") {
				t.Errorf("%+v", g)
			}
		}
	}
	if !found || r.Results[0].All.Max != 0 {
		t.Errorf("gates %+v", r.Gates)
	}
}

// lateSource has another weight in its head once the scores are made.
type lateSource struct {
	model.Source
	calls *int
}

func (s *lateSource) Weight(ctx context.Context, p model.Place) (model.Weight, error) {
	w, err := s.Source.Weight(ctx, p)
	if err != nil || p.Kind != topology.Head && p.Kind != topology.Embedding {
		return w, err
	}
	if *s.calls++; *s.calls == 1 { // the pass itself
		return w, nil
	}
	x := make([]float32, w.Rows*w.Cols)
	if err := kernels.Best().ExpandRows(x, w.Operand, 0); err != nil {
		return w, err
	}
	x[0]++
	w.Operand = kernels.DenseOperand(kernels.Dense{Rows: w.Rows, Cols: w.Cols, Stride: w.Cols, Data: x})
	return w, nil
}

// emptied is a source whose layers add nothing to the residual stream.
type emptied struct{ model.Source }

func (s *emptied) Weight(ctx context.Context, p model.Place) (model.Weight, error) {
	w, err := s.Source.Weight(ctx, p)
	if p.Projection == "o" || p.Projection == "down" {
		w.Operand = kernels.DenseOperand(kernels.Dense{Rows: w.Rows, Cols: w.Cols, Stride: w.Cols, Data: make([]float32, w.Rows*w.Cols)})
	}
	return w, err
}

// A reference whose layers do nothing agrees with itself, and the gate of
// magnitude says what is wrong.
func TestLayersThatDoNothing(t *testing.T) {
	ref := wrapped(reference(t), "emptied", func(src model.Source) model.Source { return &emptied{src} })
	r, err := Measure(context.Background(), ref, nil, texts(t, 1, 48, "prose"), Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r.Sane == nil || r.Sane.Grows || r.Sane.Moved || gate(t, r, "magnitude", -1).Passed || !gate(t, r, "determinism", -1).Passed {
		t.Errorf("%+v", r.Sane)
	}
}
