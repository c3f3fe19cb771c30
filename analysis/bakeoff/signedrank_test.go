package bakeoff

import (
	"math"
	"regexp"
	"testing"

	"pgregory.net/rapid"

	"quantscope/analysis/landscape"
	"quantscope/analysis/stats"
)

// TestExactP compares with scipy.stats.wilcoxon(d, method="exact") of scipy
// 1.17, which takes differences without ties.
func TestExactP(t *testing.T) {
	for _, c := range []struct {
		d    []float64
		want float64
	}{
		{[]float64{1, 2, 3, 4, 5}, 0.0625},
		{[]float64{-1, 2, 3, 4, 5, 6}, 0.0625},
		{[]float64{6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75}, 0.041259765625},
		{[]float64{1, -2, 3, -4, 5, -6, 7, -8, 9, -10}, 0.845703125},
	} {
		if got := signedRank(c.d); got.Method != exactMethod || math.Abs(got.P.V-c.want) > 1e-12 || math.Abs(got.Log10P.V-math.Log10(c.want)) > 1e-12 {
			t.Errorf("%v: %v by %s, want %v", c.d, got.P, got.Method, c.want)
		}
	}
}

// TestExactPCounts compares with trying all signs, ties and zeros included.
func TestExactPCounts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := rapid.SliceOfN(rapid.SampledFrom([]float64{-3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 4}), 1, 11).Draw(rt, "d")
		var size []float64
		for _, x := range d {
			if x != 0 {
				size = append(size, math.Abs(x))
			}
		}
		got := signedRank(d)
		if got.Zeros != len(d)-len(size) || got.N != len(size) {
			rt.Fatalf("%d zeros and %d others of %v", got.Zeros, got.N, d)
		}
		if len(size) < 3 {
			if got.P.Defined() || got.Log10P.Defined() || (len(size) == 0) != (got.P.Why == "every difference is 0") {
				rt.Fatal(got.P)
			}
			return
		}
		ranks := stats.Ranks(size)
		below := 0
		for signs := range 1 << len(size) {
			plus := 0.0
			for i, r := range ranks {
				if signs>>i&1 == 1 {
					plus += r
				}
			}
			if plus <= min(got.Plus, got.Minus) {
				below++
			}
		}
		if want := min(1, 2*float64(below)/math.Exp2(float64(len(size)))); math.Abs(got.P.V-want) > 1e-12 {
			rt.Fatalf("%v: p %v, counted %v", d, got.P.V, want)
		}
	})
}

// TestExactMeetsNormal: where the one takes over from the other they agree.
func TestExactMeetsNormal(t *testing.T) {
	for shift := -6.0; shift <= 6; shift++ {
		d := make([]float64, exactRanks)
		for i := range d {
			d[i] = float64(i) - 24.5 + 2*shift + 0.01*float64(i*i%7)
		}
		exact, normal := signedRank(d), stats.Wilcoxon(d, stats.Options{})
		if math.Abs(exact.P.V-normal.P) > 0.01 {
			t.Errorf("shift %v: %v exactly, %v by approximation", shift, exact.P.V, normal.P)
		}
		if more := signedRank(append(d, 0.1)); more.Method != normalMethod {
			t.Error(more.Method)
		}
	}
}

func TestP(t *testing.T) {
	for _, c := range []struct {
		d    []float64
		want string
	}{
		{nil, "–"},
		{[]float64{0, 0}, "–"},
		{[]float64{1, 2, 3}, "0.250"},
		{ramp(20), "1.9e-6"},
	} {
		if got := P(signedRank(c.d)); got != c.want {
			t.Errorf("%d differences: %s, want %s", len(c.d), got, c.want)
		}
	}
	// z is √(3n/4) or so, p e^(−z²/2): far below the least f64.
	if got := P(signedRank(ramp(40000))); !regexp.MustCompile(`^\d\.\de-65\d\d$`).MatchString(got) {
		t.Error(got)
	}
	if got := P(Test{P: landscape.Exact(9.99e-7), Log10P: landscape.Exact(math.Log10(9.99e-7))}); got != "1.0e-6" {
		t.Error(got)
	}
}

func ramp(n int) []float64 {
	d := make([]float64, n)
	for i := range d {
		d[i] = float64(i + 1)
	}
	return d
}
