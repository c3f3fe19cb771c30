package landscape

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"quantscope/quant/topology"
)

// large is a table of 37,152 matrices in 61 layers under four variants and the
// source. Errors are like those of real runs: variants of one scheme differ by
// a few percent a tensor, layers by a few more. mixed gives the schemes
// different sizes, else all variants take the same bytes.
func large(mixed bool) *Table {
	const layers, experts = 61, 203
	rng := rand.New(rand.NewPCG(11, 12))
	names, level, bpw := []string{"nvfp4", "nvfp4+mse", "nvfp4+mse_ge1", "nvfp4+4over6"}, []float64{0.0090, 0.0068, 0.0071, 0.0073}, []float64{4.5, 4.5, 4.5, 4.5}
	if mixed {
		names, level, bpw = []string{"int4-g128", "nvfp4+mse", "fp8", "mxfp4"}, []float64{0.0120, 0.0068, 0.0007, 0.0130}, []float64{4.25, 4.5, 8, 4.25}
	}
	t := &Table{}
	for i := range 37152 {
		r := topology.Role{Kind: topology.Expert, Layer: i / (3 * experts), Expert: i / 3 % experts, Projection: []string{"gate", "up", "down"}[i%3], Param: "weight"}
		it := Item{ID: i, Name: fmt.Sprintf("model.layers.%d.mlp.experts.%d.%s_proj.weight", r.Layer, r.Expert, r.Projection), Role: r,
			Rows: 2048, Cols: 7168, Amax: rng.Float64(), Std: 1, Kurtosis: 3}
		if i%3 == 2 {
			it.Rows, it.Cols = it.Cols, it.Rows
		}
		it.SourceBytes = 2 * it.Elements()
		t.Items = append(t.Items, it)
	}
	for a := range names {
		arm := Arm{Name: names[a], BitsPerWeight: bpw[a], Bytes: make([]int64, len(t.Items)), Samples: make([]Sample, len(t.Items))}
		for i := range t.Items {
			n := t.Items[i].Elements()
			arm.Bytes[i] = int64(float64(n)*bpw[a]/8) + 4
			e := level[a] * (1 + 0.03*math.Sin(float64(t.Items[i].Role.Layer))) * math.Exp(0.02*rng.NormFloat64())
			arm.Samples[i] = Sample{State: Measured, Rel2: e, RelL2: math.Sqrt(e), W2: float64(n), E2: e * float64(n)}
		}
		t.Arms = append(t.Arms, arm)
	}
	source := Arm{Name: "source", BitsPerWeight: 16, Samples: make([]Sample, len(t.Items))}
	for i := range t.Items {
		source.Bytes = append(source.Bytes, t.Items[i].SourceBytes)
		source.Samples[i] = Sample{State: Measured, Cos: 1}
	}
	t.Arms = append(t.Arms, source)
	return t
}

// A slider asks for one budget after the other.
func BenchmarkSolve(b *testing.B) {
	for _, c := range []struct {
		name  string
		mixed bool
		by    Granularity
	}{{"one-scheme", false, ByTensor}, {"four-schemes", true, ByTensor}, {"four-schemes-fused", true, ByFused}, {"four-schemes-layers", true, ByLayer}} {
		b.Run(c.name, func(b *testing.B) {
			s, err := NewSolverWith(large(c.mixed), SolverOptions{By: c.by})
			if err != nil {
				b.Fatal(err)
			}
			least, most := s.Range()
			gap, exact, n := 0.0, 0, 0
			for b.Loop() {
				n++
				a, err := s.Solve(least + int64(float64(most-least)*math.Mod(float64(n)*0.6180339887, 1)))
				if err != nil {
					b.Fatal(err)
				}
				gap = max(gap, a.Gap)
				if a.Exact {
					exact++
				}
			}
			b.ReportMetric(gap, "worst-gap")
			b.ReportMetric(float64(exact)/float64(n), "exact-share")
		})
	}
}

// What is done once for a table.
func BenchmarkNewSolver(b *testing.B) {
	t := large(true)
	for b.Loop() {
		if _, err := NewSolver(t, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// The controls of one answer, twenty random ones among them.
func BenchmarkSolveControls(b *testing.B) {
	s, err := NewSolver(large(true), nil)
	if err != nil {
		b.Fatal(err)
	}
	least, most := s.Range()
	a, err := s.Solve((least + most) / 2)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s.Controls(a, UsualRepeats, 1)
	}
}

// The curves of all lists and controls.
func BenchmarkPrice(b *testing.B) {
	t := large(true)
	for b.Loop() {
		if _, err := Price(context.Background(), t, PriceOptions{Base: 1, Protect: 4}); err != nil {
			b.Fatal(err)
		}
	}
}
