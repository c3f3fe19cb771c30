package bakeoff

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The interval of a change at 95 % holds the true one in 95 of 100 samples or
// nearly so, of few pairs too: over 1,000 repeats 0.925 is 3.6 deviations below.
func TestIntervalsCover(t *testing.T) {
	rel2, err := MetricByName("rel2")
	if err != nil {
		t.Fatal(err)
	}
	cos, err := MetricByName("cos")
	if err != nil {
		t.Fatal(err)
	}
	const repeats = 1000
	for _, n := range []int{3, 5, 10, 40} {
		var relative, difference float64
		for i := range repeats {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(n)))
			a, b := make([]float64, n), make([]float64, n)
			for k := range a {
				a[k] = 0.009 * math.Exp(0.02*rng.NormFloat64())
				b[k] = 0.98 * a[k] * math.Exp(0.01*rng.NormFloat64())
			}
			if v := meanChange(rel2, a, b); v.Low <= 0.98*math.Exp(0.01*0.01/2)-1 && 0.98*math.Exp(0.01*0.01/2)-1 <= v.High {
				relative++
			}
			for k := range a {
				a[k], b[k] = 0.995, 0.996+0.001*rng.NormFloat64()
			}
			if v := meanChange(cos, a, b); v.Low <= 0.001 && 0.001 <= v.High {
				difference++
			}
		}
		t.Logf("%d pairs: %.1f %% and %.1f %%", n, 100*relative/repeats, 100*difference/repeats)
		if low := 0.925 * repeats; relative < low || difference < low {
			t.Errorf("%d pairs: %.0f and %.0f of %d intervals hold the truth", n, relative, difference, repeats)
		}
	}
}
