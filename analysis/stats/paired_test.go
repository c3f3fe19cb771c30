package stats

import (
	"math"
	"testing"
)

func TestPaired(t *testing.T) {
	pairs := [][2]float64{{1, 0.5}, {2, 2}, {4, 5}, {3, 2}, {math.NaN(), 1}, {1, math.Inf(1)}}
	for _, c := range []struct{ worse, wins, ties, losses int }{{1, 2, 1, 1}, {-1, 1, 1, 2}, {0, 0, 0, 0}} {
		var p Paired
		for _, ab := range pairs {
			p.Add(ab[0], ab[1], c.worse)
		}
		if p.N != 4 || p.LeftOut != 2 || p.Wins != c.wins || p.Ties != c.ties || p.Losses != c.losses {
			t.Errorf("worse %d: %+v", c.worse, p)
		}
		if got := p.Change(); got != -0.05 {
			t.Errorf("change %v, want -0.05", got)
		}
	}
}

func TestPairedWithoutPairs(t *testing.T) {
	var p Paired
	p.Add(math.NaN(), 1, 1)
	if got := p.Change(); !math.IsNaN(got) || p.N != 0 || p.LeftOut != 1 {
		t.Errorf("change of nothing is %v", got)
	}
}

func TestRelativeChange(t *testing.T) {
	for _, c := range [][3]float64{{2, 1, -0.5}, {-2, -1, 0.5}, {0, 0, 0}, {3, 3, 0}, {0, 1, math.NaN()}, {math.Inf(1), math.Inf(1), math.NaN()}} {
		if got := RelativeChange(c[0], c[1]); got != c[2] && !(math.IsNaN(got) && math.IsNaN(c[2])) {
			t.Errorf("%v → %v is %v, want %v", c[0], c[1], got, c[2])
		}
	}
}

// Figures of scipy.stats.ttest_1samp, and of numpy for the ratio.
func TestMeanChange(t *testing.T) {
	a, b := []float64{1, 2, 4, 8, 5}, []float64{1.1, 1.9, 4.6, 9, 5.5}
	nan := math.NaN()
	for _, c := range []struct {
		name     string
		a, b     []float64
		relative bool
		want     [3]float64
	}{
		{"difference", a, b, false, [3]float64{0.42, -0.11693892910591963, 0.9569389291059195}},
		{"relative", a, b, true, [3]float64{0.105, 0.04394384785856296, 0.166056152141437}},
		{"one pair", a[:1], b[:1], true, [3]float64{0.1, nan, nan}},
		{"no pair", nil, nil, true, [3]float64{nan, nan, nan}},
		{"unequal", a, b[:2], true, [3]float64{nan, nan, nan}},
		{"nothing to be relative to", []float64{-1, 1}, []float64{1, 2}, true, [3]float64{nan, nan, nan}},
		{"all 0", make([]float64, 3), make([]float64, 3), true, [3]float64{0, 0, 0}},
		{"out of range", []float64{1e-320, 1e-320}, []float64{1, 1}, true, [3]float64{math.Inf(1), nan, nan}},
	} {
		change, low, high := MeanChange(c.a, c.b, c.relative, 0.95)
		for i, got := range []float64{change, low, high} {
			if want := c.want[i]; !(math.Abs(got-want) <= 1e-14 || got == want || math.IsNaN(got) && math.IsNaN(want)) {
				t.Errorf("%s: figure %d is %v, want %v", c.name, i, got, want)
			}
		}
	}
}
