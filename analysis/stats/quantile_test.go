package stats

import (
	"math"
	"slices"
	"testing"
)

func TestQuantileEqualsNumpy(t *testing.T) {
	g := load(t)
	if len(g.Percentiles) != 5 {
		t.Fatalf("%d entries, want 5", len(g.Percentiles))
	}
	for _, e := range g.Percentiles {
		sorted := slices.Sorted(slices.Values(g.array(t, e.A)))
		for i, q := range e.Q {
			if got := Quantile(sorted, q/100); !near(got, e.Linear[i], 1e-12) {
				t.Errorf("%s: quantile %v is %v, want %v", e.A, q/100, got, e.Linear[i])
			}
		}
	}
}

func TestQuantileRefuses(t *testing.T) {
	for _, q := range []float64{-0.1, 1.1, math.NaN()} {
		if got := Quantile([]float64{1, 2}, q); !math.IsNaN(got) {
			t.Errorf("quantile %v is %v", q, got)
		}
	}
	if got := Quantile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("of nothing: %v", got)
	}
}

// TestLogNormalTail compares with log(erfc(z/√2)/2) computed to 40 digits
// (mpmath 1.3).
func TestLogNormalTail(t *testing.T) {
	for z, want := range map[float64]float64{
		0:         -0.69314718055994530942,
		1:         -1.8410216450092635058,
		-3:        -0.0013508099647481937988,
		8:         -35.013437159914549896,
		20:        -203.91715537109726394,
		28:        -396.2524145116310384,
		28.3:      -404.70804507499742933,
		30:        -454.32124395634319711,
		37:        -689.0305855768905936,
		38.5:      -745.69527029041108133,
		100:       -5005.5242086942050886,
		1000:      -500007.82669481218431,
		12345.678: -76207892.97984185962,
	} {
		if got := LogNormalTail(z); !near(got, want, 1e-13) {
			t.Errorf("log P(Z > %v) is %v, want %v", z, got, want)
		}
	}
	if got := LogNormalTail(math.Inf(1)); !math.IsInf(got, -1) {
		t.Errorf("at +Inf: %v", got)
	}
	if got := LogNormalTail(math.Inf(-1)); got != 0 {
		t.Errorf("at -Inf: %v", got)
	}
	if got := LogNormalTail(math.NaN()); !math.IsNaN(got) {
		t.Errorf("at NaN: %v", got)
	}
}
