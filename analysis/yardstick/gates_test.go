package yardstick

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/candidate"
)

// gate is the gate of a name on a candidate.
func gate(t *testing.T, r *Report, name string, of int) Gate {
	t.Helper()
	for _, g := range r.Gates {
		if g.Name == name && g.Of == of {
			return g
		}
	}
	t.Fatalf("no gate %s of %d in %+v", name, of, r.Gates)
	return Gate{}
}

// copyRows gives candidate to the figures of candidate from.
func copyRows(chunks []*Chunk, from, to int) {
	for _, c := range chunks {
		c.Rows[to] = slices.Clone(c.Rows[from])
	}
}

func TestTieWithTheBaseline(t *testing.T) {
	s, chunks := made(rand.New(rand.NewPCG(1, 2)), 2, 3, 20, 3)
	s.Candidates[1].Baseline = 0
	if g := gate(t, analyze(t, s, chunks), "fidelity", 1); !g.Passed {
		t.Errorf("two that differ: %+v", g)
	}
	copyRows(chunks, 0, 1)
	r := analyze(t, s, chunks)
	g := gate(t, r, "fidelity", 1)
	if g.Passed || !strings.Contains(g.Message, "B equals its baseline A") || !strings.Contains(g.Message, "[0, 0]") {
		t.Errorf("%+v", g)
	}
	p := r.Pairs[0]
	if p.A != 0 || p.B != 1 || !p.Equal || p.DKL != 0 || p.Low != 0 || p.High != 0 || p.DNLL != 0 || p.P != 1 {
		t.Errorf("%+v", p)
	}
	// One bit of one row is no tie.
	row := &chunks[3].Rows[1][7]
	row.Reverse = math.Nextafter(row.Reverse, 9)
	if g := gate(t, analyze(t, s, chunks), "fidelity", 1); !g.Passed {
		t.Errorf("one bit differs: %+v", g)
	}
}

func TestFloorGate(t *testing.T) {
	s, chunks := made(rand.New(rand.NewPCG(1, 3)), 2, 3, 20, 5)
	s.Candidates[0].Floor = true // B is about twice, C three times the floor
	for _, c := range chunks {
		for i := range c.Rows[1] {
			c.Rows[1][i].KL /= 2
			c.Rows[3][i], c.Rows[4][i] = Row{NLL: c.Ref[i].NLL, Top: c.Ref[i].Top}, Row{NLL: c.Ref[i].NLL, Top: c.Ref[i].Top}
		}
	}
	r := analyze(t, s, chunks)
	if g := gate(t, r, "floor", 1); !g.Passed || !strings.Contains(g.Message, "not told apart") {
		t.Errorf("%+v", g)
	}
	if g := gate(t, r, "floor", 2); !g.Passed || !strings.Contains(g.Message, "times the floor") {
		t.Errorf("%+v", g)
	}
	r.Complete(&Sanity{Deterministic: true, Grows: true, Norms: []float64{1, 2}, Same: []int{3}}, nil)
	if g := gate(t, r, "floor", 3); !g.Passed || !strings.Contains(g.Message, "value for value") {
		t.Errorf("the same weights: %+v", g)
	}
	if g := gate(t, r, "floor", 4); g.Passed || !strings.Contains(g.Message, "not used") {
		t.Errorf("other weights: %+v", g)
	}
	if gate(t, r, "magnitude", -1).Passed || !gate(t, r, "determinism", -1).Passed {
		t.Error("a control that moved nothing passed")
	}
}

func TestCeiling(t *testing.T) {
	s, chunks := made(rand.New(rand.NewPCG(1, 4)), 1, 3, 20, 2)
	r := analyze(t, s, chunks)
	a, b := r.Results[0].All.KL, r.Results[1].All.KL
	s.Ceiling = (a + b) / 2
	r = analyze(t, s, chunks)
	if !gate(t, r, "kl-ceiling", 0).Passed || gate(t, r, "kl-ceiling", 1).Passed {
		t.Errorf("%+v", r.Gates)
	}
	// The mean is over what is finite, which is not all that was asked for.
	chunks[0].Rows[0][3].KL = math.Inf(1)
	if g := gate(t, analyze(t, s, chunks), "kl-ceiling", 0); g.Passed {
		t.Errorf("with an infinite one: %+v", g)
	}
	chunks[0].Rows[0][3] = Row{KL: math.NaN(), Reverse: math.NaN(), NLL: math.NaN(), Top: -1}
	if g := gate(t, analyze(t, s, chunks), "kl-ceiling", 0); g.Passed {
		t.Errorf("with one that is no number: %+v", g)
	}
}

func TestNoTwoGatesOfOneName(t *testing.T) {
	s, chunks := made(rand.New(rand.NewPCG(1, 4)), 1, 3, 20, 3)
	s.Candidates[1].Baseline, s.Candidates[2].Floor, s.Ceiling, s.Candidates[0].Tokenizer = 0, true, 1, "its rules are written otherwise"
	r := analyze(t, s, chunks)
	r.Complete(&Sanity{Norms: []float64{1, 2}}, nil)
	seen := map[Gate]bool{}
	for _, g := range r.Gates {
		g.Passed, g.Message = false, ""
		if seen[g] {
			t.Errorf("twice: %+v", g)
		}
		seen[g] = true
	}
	if len(seen) != 11 {
		t.Errorf("%d gates: %+v", len(seen), r.Gates)
	}
}

func TestAttribution(t *testing.T) {
	s, chunks := made(rand.New(rand.NewPCG(1, 5)), 2, 6, 40, 5)
	for i, part := range []string{"", "experts", "attention", "", ""} {
		s.Candidates[i].Part = part
	}
	s.Candidates[1].Of, s.Candidates[2].Of, s.Candidates[3].Of = 0, 0, 0
	s.Candidates[3].Derived = "keep x"
	for _, c := range chunks {
		for i, w := range c.Rows[0] {
			c.Rows[1][i].KL, c.Rows[2][i].KL, c.Rows[3][i].KL = w.KL*0.75, w.KL*0.25, w.KL*0.5
		}
	}
	r := analyze(t, s, chunks)
	if len(r.Attributed) != 2 {
		t.Fatalf("%+v", r.Attributed)
	}
	keep, parts := r.Attributed[0], r.Attributed[1]
	if !slices.Equal(parts.Rows, []int{1, 2}) || math.Abs(parts.Sum-parts.Whole) > 1e-12 || math.Abs(parts.Low-1) > 1e-9 || math.Abs(parts.High-1) > 1e-9 {
		t.Errorf("%+v", parts)
	}
	if math.Abs(keep.Sum-keep.Whole/2) > 1e-12 || !strings.Contains(keep.Message, "keep x has 50.0 %") {
		t.Errorf("%+v", keep)
	}
	// Parts that act together.
	for _, c := range chunks {
		for i, w := range c.Rows[0] {
			c.Rows[1][i].KL = w.KL * (0.4 + 0.1*float64(i%2))
		}
	}
	parts = analyze(t, s, chunks).Attributed[1]
	if !strings.Contains(parts.Message, "do not add up") || !strings.Contains(parts.Message, "too little") || parts.High >= 1 {
		t.Errorf("%+v", parts)
	}
	// A position without a finite figure of a part is in neither sum.
	whole := parts.Whole * float64(len(chunks)*len(chunks[0].Ref))
	chunks[2].Rows[2][7].KL = math.Inf(1)
	some := analyze(t, s, chunks).Attributed[1]
	want := (whole - chunks[2].Rows[0][7].KL) / float64(len(chunks)*len(chunks[0].Ref)-1)
	if !finite(some.Sum) || math.Abs(some.Whole-want) > 1e-12 {
		t.Errorf("%+v, want a whole of %g", some, want)
	}
	// Derived rows are no candidates of their own: they are compared with their origin only.
	for _, p := range analyze(t, s, chunks).Pairs {
		if s.Candidates[p.B].Of >= 0 && p.A != 0 || s.Candidates[p.A].Of >= 0 {
			t.Errorf("%+v", p)
		}
	}
}

func TestPartsOfTheDemo(t *testing.T) {
	ref := reference(t)
	cands, rows, err := AddParts(ref, []*candidate.Candidate{variant(t, ref, "nvfp4@linear")}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(cands) != 5 || len(rows) != 4 {
		t.Fatalf("%d candidates, rows %+v", len(cands), rows)
	}
	r, err := Measure(context.Background(), ref, cands, texts(t, 2, 96, "prose", "chat"), Options{Derived: rows})
	if err != nil {
		t.Fatal(err)
	}
	a := r.Attributed[0]
	if len(a.Rows) != 4 || !(a.Sum > 0.5*a.Whole && a.Sum < 2*a.Whole) || !(a.Low < a.High) {
		t.Errorf("%+v", a)
	}
	for _, i := range a.Rows {
		if k := r.Results[i].All.KL; !(k > 0 && k < a.Whole) {
			t.Errorf("%s: %g of %g", r.Setup.Candidates[i].Label, k, a.Whole)
		}
	}
}

func TestComparePairRefuses(t *testing.T) {
	s, chunks := made(rand.New(rand.NewPCG(1, 4)), 1, 1, 20, 2)
	if _, err := ComparePair(context.Background(), s, chunks, 0, 2, 1); err == nil {
		t.Error("candidate 2 of 2 was compared")
	}
	p, err := ComparePair(context.Background(), s, chunks, 0, 1, 1)
	if err != nil || !math.IsNaN(p.Low) || p.Why == "" || math.IsNaN(p.DKL) {
		t.Errorf("one chunk: %+v, %v", p, err)
	}
}
