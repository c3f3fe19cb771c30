package views

import (
	"testing"

	"quantscope/kernels"
)

// The axis reaches the deepest block of any variant, in steps of a tenth, and
// never less than 0.3, so that it stays while a run goes on.
func TestUsedDepths(t *testing.T) {
	bins := func(deepest int) []float64 {
		v := make([]float64, kernels.DepthBins)
		if deepest >= 0 {
			v[deepest] = 1
		}
		return v
	}
	for _, c := range []struct {
		a, b int // deepest bins
		n    int
		hi   float64
	}{{-1, -1, 6, 0.3}, {0, 3, 6, 0.3}, {5, -1, 6, 0.3}, {6, 2, 8, 0.4}, {2, 9, 10, 0.5}, {19, 0, 20, 1}} {
		series, hi := usedDepths([]Series{{"a", 0, bins(c.a)}, {"b", 1, bins(c.b)}})
		if len(series[0].Values) != c.n || len(series[1].Values) != c.n || hi != c.hi {
			t.Errorf("deepest %d and %d: %d bins up to %v, want %d and %v", c.a, c.b, len(series[0].Values), hi, c.n, c.hi)
		}
	}
}
