package stats

import (
	"math"
	"testing"
)

// Few values with many ties, by scipy.stats.kruskal.
func TestKruskalWallisOfTies(t *testing.T) {
	k := KruskalWallis([]float64{1, 1, 2, 1, 2, 2, 3}, []int{0, 0, 0, 1, 1, 1, 1})
	if math.Abs(k.Statistic-1.3125) > 1e-12 || math.Abs(k.P-0.25194251515680494) > 1e-12 {
		t.Errorf("H %v, p %v", k.Statistic, k.P)
	}
}

// The law may be furthest from the sample above it or below, by scipy.stats.kstest.
func TestKSUniformOnBothSides(t *testing.T) {
	for _, c := range []struct {
		p  []float64
		at float64
	}{{[]float64{0.9, 0.8, 0.95}, 0.8}, {[]float64{0.1, 0.2, 0.05}, 0.2}} {
		if k := KSUniform(c.p); math.Abs(k.D-0.8) > 1e-12 || math.Abs(k.P-0.016) > 1e-12 || k.Location != c.at {
			t.Errorf("%v: %+v", c.p, k)
		}
	}
}

// At probability ½ the outcome on the other side is as likely and counts, whatever
// rounding says of the two.
func TestBinomTestIsSymmetric(t *testing.T) {
	for n := 1; n <= 300; n++ {
		for k := 0; 2*k < n; k++ {
			want := min(1, 2*binomialAtMost(k, n, 0.5))
			if got := BinomTest(k, n, 0.5); math.Abs(got-want) > 1e-9*want {
				t.Fatalf("%d of %d: %v, want %v", k, n, got, want)
			}
		}
	}
}
