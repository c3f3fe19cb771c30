package yardstick

import (
	"context"
	"math"
	"reflect"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/topology"
)

// Rows that are kept are evenly spaced over all that came, however they came.
func TestInputsAreSampledEvenly(t *testing.T) {
	for _, rows := range []int{1, 10, 11, 1000, 1023} {
		var want []float32
		for _, call := range []int{1, 37, 5000} {
			g := &inputs{most: 10, of: map[model.Place]*sample{}}
			for at := 0; at < rows; at += call {
				n := min(call, rows-at)
				x := make([]float32, 0, 2*n)
				for i := range n {
					x = append(x, float32(at+i), -1)
				}
				g.take(model.Place{}, x, n)
			}
			got := g.of[model.Place{}].rows
			if want == nil {
				want = got
			}
			if len(got) != len(want) || len(got) > 20 || len(got) < min(2*rows, 10) {
				t.Fatalf("%d rows in calls of %d: %d are kept", rows, call, len(got)/2)
			}
			step := float32(g.of[model.Place{}].step)
			for i := range len(got) / 2 {
				if got[2*i] != float32(i)*step || got[2*i+1] != -1 {
					t.Fatalf("%d rows in calls of %d: row %d is %g", rows, call, i, got[2*i])
				}
			}
		}
	}
}

// scaled is a source with one matrix times 1.25.
type scaled struct {
	model.Source
	at model.Place
}

func (s *scaled) Weight(ctx context.Context, p model.Place) (model.Weight, error) {
	w, err := s.Source.Weight(ctx, p)
	if err != nil || p != s.at {
		return w, err
	}
	x := make([]float32, w.Rows*w.Cols)
	if err := kernels.Best().ExpandRows(x, w.Operand, 0); err != nil {
		return w, err
	}
	for i := range x {
		x[i] *= 1.25
	}
	w.Operand = kernels.DenseOperand(kernels.Dense{Rows: w.Rows, Cols: w.Cols, Stride: w.Cols, Data: x})
	return w, nil
}

func TestProbeOfAScaledMatrix(t *testing.T) {
	ref := reference(t)
	at := model.Place{Kind: topology.Attention, Layer: 3, Expert: -1, Projection: "v"}
	c := wrapped(ref, "scaled", func(src model.Source) model.Source { return &scaled{src, at} })
	r, err := Measure(context.Background(), ref, []*candidate.Candidate{c}, texts(t, 1, 64, "prose", "math"), Options{Probe: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Probes) != 1 {
		t.Fatalf("%+v", r.Probes)
	}
	p := r.Probes[0]
	if p.Layer != 3 || p.Name != "layer 3 attention v" || p.Tensors != 1 || p.Rows != 128 || math.Abs(p.Output-0.25) > 1e-6 || math.Abs(p.Weight-0.25) > 1e-12 {
		t.Errorf("%+v", p)
	}
}

func TestProbeAgreement(t *testing.T) {
	probes := []Probe{{Weight: 1, Output: 2}, {Weight: 2, Output: 3}, {Weight: 3, Output: 9}, {Weight: 0, Output: 0}, {Candidate: 1, Weight: 9, Output: 1}}
	if c := ProbeAgreement(probes, 0); math.Abs(c.R-1) > 1e-12 || c.N != 3 {
		t.Errorf("%+v", c)
	}
}

// How much memory there is decides no figure of a probe.
func TestProbeInLittleMemory(t *testing.T) {
	ref := reference(t)
	var all [2][]Probe
	for i, mem := range []int64{0, 24 << 20} {
		r, err := Measure(t.Context(), ref, []*candidate.Candidate{variant(t, ref, "nvfp4")}, texts(t, 2, 384, "prose", "code", "chat"), Options{Mem: mem, Threads: 2, Probe: true, NoFloor: true})
		if err != nil {
			t.Fatal(err)
		}
		all[i] = r.Probes
	}
	if len(all[0]) == 0 || !reflect.DeepEqual(all[0], all[1]) {
		t.Errorf("%+v, not %+v", all[1], all[0])
	}
}
