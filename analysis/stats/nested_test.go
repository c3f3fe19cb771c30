package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// The mean squares are those of scipy.stats.f_oneway's table, the interval follows
// from them by hand.
func TestNestedMean(t *testing.T) {
	a := [][]float64{{1, 2, 3, 4}, {2, 4, 4, 6}, {5, 7, 6, 6}}
	n := NestedMean(a, 0.95)
	// Means 2.5, 4, 6, grand 25/6: between 4·(25/9 + 1/36 + 121/36)/2, within (5+8+2)/9.
	between, within := 4*(100.0/36+1.0/36+121.0/36)/2, 15.0/9
	half := StudentQuantile(0.975, 2) * math.Sqrt(between/12)
	for _, c := range [][2]float64{{n.Mean, 50.0 / 12}, {n.Between, between}, {n.Within, within}, {n.Low, 50.0/12 - half}, {n.High, 50.0/12 + half}} {
		if math.Abs(c[0]-c[1]) > 1e-12 {
			t.Errorf("%+v: %v, want %v", n, c[0], c[1])
		}
	}
	if n.N != 12 || n.Groups != 3 || n.DF != 2 {
		t.Errorf("%+v", n)
	}
	// Groups that are more alike than values by themselves would make them: all values
	// count.
	n = NestedMean([][]float64{{1, 2, 3, 4}, {4, 3, 2, 1}, {2, 1, 4, 3}}, 0.95)
	if want := StudentQuantile(0.975, 9) * math.Sqrt(5.0/3/12); n.DF != 9 || n.Between != 0 || math.Abs(n.High-2.5-want) > 1e-12 {
		t.Errorf("%+v, want ± %v", n, want)
	}
	// Alike, but less so than that: the spread within, at the few degrees of freedom.
	n = NestedMean([][]float64{{1, 2, 3, 4}, {1, 2, 3, 5}, {2, 3, 4, 5.5}}, 0.95)
	if want := StudentQuantile(0.975, 2) * math.Sqrt(n.Within/12); n.DF != 2 || !(n.Between < n.Within && n.Between > n.Within/2) || math.Abs(n.High-n.Mean-want) > 1e-12 {
		t.Errorf("%+v, want ± %v", n, want)
	}
	if n := NestedMean([][]float64{{2}, nil, {4}, {9}}, 0.95); n.Groups != 3 || n.DF != 2 || n.Mean != 5 || !math.IsNaN(n.Within) || math.Abs(n.High-5-StudentQuantile(0.975, 2)*math.Sqrt(13.0/3)) > 1e-12 {
		t.Errorf("one value each: %+v", n)
	}
	for _, odd := range [][][]float64{nil, {{1, 2, 3}}, {{1, math.NaN()}, {2}}, {{1, math.Inf(1)}, {2}}} {
		if n := NestedMean(odd, 0.95); !math.IsNaN(n.Low) || !math.IsNaN(n.High) {
			t.Errorf("%v: %+v", odd, n)
		}
	}
	if n := NestedMean([][]float64{{3, 3}, {3, 3}}, 0.95); n.Low != 3 || n.High != 3 {
		t.Errorf("no spread: %+v", n)
	}
}

// The interval covers the true mean as often as it says, whatever share of the variance
// is between groups. (With nestedPool 1 it is 93.4 % of three groups in the
// middle, and with all values' degrees of freedom always 83 %.)
func TestNestedCoverage(t *testing.T) {
	const trials = 8000
	for _, groups := range []int{3, 6} {
		for _, ratio := range []float64{0, 1.0 / 8, 3.0 / 8, 1, 4} { // variance between over that within
			t.Run(fmt.Sprint(groups, " groups, ", ratio), func(t *testing.T) {
				r := rand.New(rand.NewPCG(5, uint64(groups)))
				covered := 0
				for range trials {
					values := make([][]float64, groups)
					for g := range values {
						shift := math.Sqrt(ratio) * r.NormFloat64()
						for range 8 {
							values[g] = append(values[g], 1+shift+r.NormFloat64())
						}
					}
					if n := NestedMean(values, 0.95); n.Low <= 1 && 1 <= n.High {
						covered++
					}
				}
				share := float64(covered) / trials
				t.Logf("covers %.4f", share)
				if se := math.Sqrt(0.95 * 0.05 / trials); share < 0.95-3*se || share > 0.995 {
					t.Errorf("covers %.4f, want 0.95 or a little more", share)
				}
			})
		}
	}
}
