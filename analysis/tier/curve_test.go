package tier

import (
	"context"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// together is a budget that all experts share.
func together(s *Shape, budget int64) []pool { return pools(s, &Policy{}, budget) }

// TestBestIsBest: where experts take as much, no fixed map of as many serves more, or,
// of the coldest, less.
func TestBestIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Shape{Layers: []int{1, 2}, Experts: rapid.IntRange(1, 5).Draw(t, "experts"), TopK: 1, Hot: []int64{10, 10}, Cold: []int64{5, 5}}
		counts := make([]int64, s.Total())
		for i := range counts {
			counts[i] = rapid.Int64Range(0, 20).Draw(t, "count")
		}
		slots := rapid.IntRange(0, s.Total()).Draw(t, "slots")
		hi := served(best(&s, counts, together(&s, int64(slots)*10), false), counts)
		lo := served(best(&s, counts, together(&s, int64(slots)*10), true), counts)
		any := served(anyOf(&s, together(&s, int64(slots)*10), rapid.Uint64().Draw(t, "seed")), counts)
		most, least := 0.0, 1.0
		for mask := range 1 << s.Total() {
			hot := make([]bool, s.Total())
			n := 0
			for i := range hot {
				if hot[i] = mask>>i&1 == 1; hot[i] {
					n++
				}
			}
			if n == slots {
				v := served(hot, counts)
				most, least = max(most, v), min(least, v)
			}
		}
		if hi != most || lo != least || any < least || any > most {
			t.Fatalf("best %v of %v, coldest %v of %v, any %v", hi, most, lo, least, any)
		}
	})
}

// TestCurve: it begins at nothing, ends at everything, never falls, is concave, and
// says at the budgets of fixed maps what those serve.
func TestCurve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := shapes(false).Draw(t, "shape")
		tr := traceOf(t, s, rapid.IntRange(1, 200).Draw(t, "tokens"))
		counts := tr.counts()
		c := newCurve(&s, counts, tr.Tokens, 1)
		n := len(c.Share)
		if n > curvePoints || c.Share[0] != 0 || c.Hits[0] != 0 || c.Share[n-1] != 1 || c.Hits[n-1] != 1 {
			t.Fatalf("%d points, from %v %v to %v %v", n, c.Share[0], c.Hits[0], c.Share[n-1], c.Hits[n-1])
		}
		slope := math.Inf(1)
		for i := 1; i < n; i++ {
			d := (c.Hits[i] - c.Hits[i-1]) / (c.Share[i] - c.Share[i-1])
			if d < 0 || d > slope*(1+1e-9) {
				t.Fatalf("point %d: slope %v after %v", i, d, slope)
			}
			slope = d
		}
		if s.Total() < curvePoints {
			k := rapid.IntRange(0, n-1).Draw(t, "point")
			if got := served(best(&s, counts, together(&s, int64(math.Round(c.Share[k]*float64(s.AllHot())))), false), counts); math.Abs(got-c.Hits[k]) > 1e-9 && even(s) {
				t.Fatalf("point %d says %v, the map of as many bytes serves %v", k, c.Hits[k], got)
			}
		}
	})
}

func even(s Shape) bool { return slices.Min(s.Hot) == slices.Max(s.Hot) }

// TestKnee: a steep law has a knee, an even one has none, however few tokens there are.
func TestKnee(t *testing.T) {
	s := Shape{Layers: []int{1, 2, 3, 4}, Experts: 64, TopK: 4, Hot: []int64{9, 9, 9, 9}, Cold: []int64{5, 5, 5, 5}}
	for _, tokens := range []int{30, 300, 5000} {
		for seed := range uint64(5) {
			for _, exponent := range []float64{0, 1} {
				tr, err := zipf{exponent: exponent, seed: seed, tokens: tokens}.trace("z", s.Layers, s.Experts, s.TopK)
				if err != nil {
					t.Fatal(err)
				}
				c := newCurve(&s, tr.counts(), tokens, seed)
				if exponent == 1 && (c.Knee < 0.1 || c.Knee > 0.6) {
					t.Errorf("%d tokens, seed %d: the knee is at %v (rise %.3f, noise %.3f)", tokens, seed, c.Knee, c.Rise, c.Noise)
				}
				// Noise is the largest of 20 even workloads: one in 21 is above it.
				if exponent == 0 && c.Rise > c.Noise*1.15 {
					t.Errorf("%d tokens, seed %d: even routing rises %.3f, noise is %.3f", tokens, seed, c.Rise, c.Noise)
				}
			}
		}
	}
	// Uniform counts are the diagonal.
	if c := newCurve(&s, slices.Repeat([]int64{100}, s.Total()), 1600, 1); c.Rise > 1e-12 || c.Knee != -1 {
		t.Errorf("a diagonal rises %v, with a knee at %v", c.Rise, c.Knee)
	}
}

// TestFollows: where ranks drift, the manager serves more than a map that was right at
// first, and its hits are near the best of each stretch; hysteresis lowers churn.
func TestFollows(t *testing.T) {
	s := Shape{Layers: []int{1, 2, 3}, Experts: 32, TopK: 4, Hot: []int64{9, 9, 9}, Cold: []int64{5, 5, 5}}
	tr, err := zipf{exponent: 1.5, seed: 2, tokens: 12000, drift: 3000}.trace("z", s.Layers, s.Experts, s.TopK)
	if err != nil {
		t.Fatal(err)
	}
	run := func(h float64) *Result {
		p := DefaultPolicy()
		p.Hysteresis = h
		setup, err := setupOf(s, p, "25%")
		if err != nil {
			t.Fatal(err)
		}
		setup.Workload = tr.Ref()
		var w []*Window
		end, err := Run(context.Background(), setup, tr, Options{}, all(&w))
		if err != nil {
			t.Fatal(err)
		}
		return end.Results[0]
	}
	head := &Trace{Layers: tr.Layers, Experts: tr.Experts, TopK: tr.TopK, Tokens: 3000, Choices: tr.Choices[:3000*12]}
	first := served(best(&s, head.counts(), together(&s, s.AllHot()/4), false), tr.counts())
	free, calm := run(0), run(0.5)
	if free.Hits <= first || calm.Hits <= first {
		t.Errorf("the manager serves %.3f and %.3f, the map of the first stretch %.3f", free.Hits, calm.Hits, first)
	}
	if calm.Churn*4 > free.Churn*3 || calm.Hits < free.Hits-0.02 {
		t.Errorf("with hysteresis: churn %d of %d, hits %.3f of %.3f", calm.Churn, free.Churn, calm.Hits, free.Hits)
	}
	if len(calm.ByPhase) != 4 || len(calm.Controls) != 3 || calm.Controls[0].Hits != calm.Best || calm.Controls[1].Hits > calm.Hits || calm.Controls[2].Hits > calm.Controls[1].Hits {
		t.Errorf("%v by phase, controls %+v", calm.ByPhase, calm.Controls)
	}
}
