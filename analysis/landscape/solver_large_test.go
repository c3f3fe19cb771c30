package landscape

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A search that is cut short still states a bound that holds.
func TestSolverGapHolds(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	open := [2]int{}
	for n := range 350 {
		tb := instance(rng, 20+rng.IntN(40), n%7)
		s, err := NewSolverWith(tb, SolverOptions{Work: 1 + n%40})
		if err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 { // long enough, and with room for little
			s.options.Work, s.keep = 0, 2
		}
		least, most := s.Range()
		budget := least + rng.Int64N(most-least+1)
		a, err := s.Solve(budget)
		if err != nil {
			t.Fatal(err)
		}
		check(t, tb, &a, n)
		want := byTable(tb, budget)
		if !(a.Bound <= want+1e-12) || a.Error < want-1e-12 || a.Error > a.Bound*(1+a.Gap)+1e-12 && a.Bound > 0 {
			t.Errorf("instance %d: %v to %v (gap %v); the least is %v", n, a.Bound, a.Error, a.Gap, want)
		}
		if a.Exact && math.Abs(a.Error-want) > 1e-12 {
			t.Errorf("instance %d: %v is called exact; the least is %v", n, a.Error, want)
		}
		if !a.Exact {
			open[n%2]++
		}
	}
	if open[0] < 10 || open[1] < 10 {
		t.Errorf("only %d of 350 searches were cut short, so this test shows little", open)
	}
}

// On large tables the answer is within its gap of what is best, which on these
// can still be found by dynamic programming.
func TestSolverOnLarge(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 52))
	for _, kind := range []int{0, 1, 2, 6} {
		tb := instance(rng, 600, kind)
		s, err := NewSolver(tb, nil)
		if err != nil {
			t.Fatal(err)
		}
		least, most := s.Range()
		budget := least + (most-least)/3
		a, err := s.Solve(budget)
		if err != nil {
			t.Fatal(err)
		}
		check(t, tb, &a, kind)
		if want := byTable(tb, budget); a.Bound > want+1e-12 || a.Error < want-1e-12 || a.Gap > 1e-3 || a.Exact && math.Abs(a.Error-want) > 1e-12 {
			t.Errorf("kind %d: %v to %v (gap %v, exact %t); the least is %v", kind, a.Bound, a.Error, a.Gap, a.Exact, want)
		}
	}
}

// Of the size that is promised the gap stays small at every budget, and where
// variants have one size the answer is exact.
func TestSolverOfPromisedSize(t *testing.T) {
	for _, mixed := range []bool{false, true} {
		tb := large(mixed)
		s, err := NewSolver(tb, nil)
		if err != nil {
			t.Fatal(err)
		}
		least, most := s.Range()
		last := math.Inf(1)
		for _, f := range []float64{0, 0.003, 0.05, 0.4, 0.95, 1} {
			a, err := s.Solve(least + int64(f*float64(most-least)))
			if err != nil {
				t.Fatal(err)
			}
			check(t, tb, &a, 0)
			if a.Gap > 1e-3 || !mixed && !a.Exact || a.Slack > 1e-9*a.Value && f < 1 {
				t.Errorf("mixed %t at %v: gap %v, exact %t, slack %v", mixed, f, a.Gap, a.Exact, a.Slack)
			}
			if a.Bound > last {
				t.Errorf("mixed %t at %v: more bytes, and a bound of %v above the error %v of fewer", mixed, f, a.Bound, last)
			}
			last = a.Error
		}
	}
}

// Selection gives what sorting gives.
func TestKth(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 42))
	for range 300 {
		values := make([]int64, 1+rng.IntN(40))
		for i := range values {
			values[i] = rng.Int64N(12)
		}
		k := rng.IntN(len(values))
		sorted := slices.Sorted(slices.Values(values))
		if got := kth(slices.Clone(values), k); got != sorted[k] {
			t.Fatalf("%v: number %d is %d, want %d", values, k, got, sorted[k])
		}
	}
}
