package stats

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var (
	nan = math.NaN()
	inf = math.Inf(1)
)

// TestWithoutEvidence asks every test for what cannot be told: the reason is
// named, and no figure is invented.
func TestWithoutEvidence(t *testing.T) {
	allNaN := func(v ...float64) bool {
		return !slices.ContainsFunc(v, func(x float64) bool { return !math.IsNaN(x) })
	}
	for name, c := range map[string]struct {
		values []float64
		group  []int
		why    string
	}{
		"nothing":        {nil, nil, "no finite values"},
		"not finite":     {[]float64{nan, inf, -inf}, []int{0, 1, 1}, "no finite values"},
		"one group":      {[]float64{1, 2, 3}, []int{4, 4, 4}, "fewer than two groups"},
		"one group left": {[]float64{1, 2, nan}, []int{4, 4, 5}, "fewer than two groups"},
		"all alike":      {[]float64{0.1, 0.1, 0.1, 0.1}, []int{0, 0, 1, 1}, "no variance"},
		"lengths":        {[]float64{1, 2}, []int{0}, "values and groups differ in number"},
	} {
		a, k := OneWay(c.values, c.group), KruskalWallis(c.values, c.group)
		if a.Why != c.why || !allNaN(a.F, a.P, a.LogP, a.SSBetween, a.SSWithin, a.Eta2, a.Omega2, a.OmegaLow, a.OmegaHigh) {
			t.Errorf("%s: %+v, want %q", name, a, c.why)
		}
		if k.Why != c.why || !allNaN(k.Statistic, k.P, k.LogP) {
			t.Errorf("%s: %+v, want %q", name, k, c.why)
		}
	}
	for why, a := range map[string]ANOVA{
		"no group has two values":                OneWay([]float64{1, 2, 3}, []int{0, 1, 2}),
		"no variance within groups":              OneWay([]float64{0.1, 0.1, 0.1, 0.7, 0.7, 0.7}, []int{0, 0, 0, 1, 1, 1}),
		"squares of the values are out of range": OneWay([]float64{1e300, -1e300, 1e300, 3}, []int{0, 0, 1, 1}),
	} {
		if a.Why != why || !allNaN(a.F, a.P, a.Omega2) {
			t.Errorf("%+v, want %q", a, why)
		}
	}
	for name, c := range map[string]struct {
		a, b []float64
		why  string
	}{
		"nothing":    {nil, nil, "fewer than three pairs"},
		"two":        {[]float64{1, 2}, []float64{3, 4}, "fewer than three pairs"},
		"two finite": {[]float64{1, 2, nan, 5}, []float64{3, 4, 5, -inf}, "fewer than three pairs"},
		"one alike":  {[]float64{1, 2, 3}, []float64{0.1, 0.1, 0.1}, "no variance"},
		"lengths":    {[]float64{1, 2, 3}, []float64{1}, "the two sides differ in number"},
	} {
		for i, r := range []Correlation{Pearson(c.a, c.b), Spearman(c.a, c.b), KendallTauB(c.a, c.b)} {
			if r.Why != c.why || !allNaN(r.R, r.P, r.LogP, r.Low, r.High) {
				t.Errorf("%s, %d: %+v, want %q", name, i, r, c.why)
			}
		}
	}
	if k := KS2(nil, []float64{1}); k.Why == "" || !allNaN(k.D, k.P, k.PExact) {
		t.Errorf("an empty sample: %+v", k)
	}
	for _, p := range [][]float64{nil, {nan}, {0.5, 1.5}, {-0.1}} {
		if k := KSUniform(p); k.Why == "" || !allNaN(k.D, k.P) {
			t.Errorf("%v: %+v", p, k)
		}
	}
	if d := Wasserstein1([]float64{nan}, []float64{1}); !math.IsNaN(d) {
		t.Errorf("distance of nothing: %v", d)
	}
	low, high := Wilson(3, 2, 0.95)
	exactLow, exactHigh := ClopperPearson(0, 0, 0.95)
	tail, logTail := FTail(1, 0, 3)
	if !allNaN(low, high, exactLow, exactHigh, tail, logTail, BinomTest(3, 2, 0.5), BinomTest(1, 2, nan), HypergeomTail(1, 5, 3, 4),
		NoncentralFCDF(1, 2, 3, -1), NoncentralFCDF(nan, 2, 3, 1), kolmogorovTail(0, 0.5)) {
		t.Error("a figure of what does not exist")
	}
}

func TestBootstrapWithoutEvidence(t *testing.T) {
	zero := func([]int) float64 { return 0 }
	for name, b := range map[string]Bootstrap{
		"no items":      BootstrapCI(0, 1, 100, zero, 0.9),
		"one resample":  BootstrapCI(3, 1, 1, zero, 0.9),
		"too many":      BootstrapCI(3, 1, MaxResamples+1, zero, 0.9),
		"level":         BootstrapCI(3, 1, 10, zero, 1),
		"not finite":    BootstrapCI(3, 1, 10, func([]int) float64 { return inf }, 0.9),
		"lengths":       BootstrapPaired([]float64{1}, nil, [][]int{{0}, {0}}, 0.9),
		"no pairs":      BootstrapPaired(nil, nil, [][]int{{0}, {0}}, 0.9),
		"outside":       BootstrapPaired([]float64{1}, []float64{2}, [][]int{{0}, {1}}, 0.9),
		"empty":         BootstrapPaired([]float64{1}, []float64{2}, [][]int{{0}, {}}, 0.9),
		"pair with NaN": BootstrapPaired([]float64{nan}, []float64{2}, [][]int{{0}, {0}}, 0.9),
	} {
		if b.Why == "" || !math.IsNaN(b.Low) || !math.IsNaN(b.High) || !math.IsNaN(b.Estimate) {
			t.Errorf("%s: %+v", name, b)
		}
	}
}

// TestBootstrapCovers: the interval of a mean agrees with the one that the
// Gaussian law gives, the seed decides it, and a resample without a figure is counted.
func TestBootstrapCovers(t *testing.T) {
	values := make([]float64, 400)
	for i := range values {
		values[i] = math.Sin(float64(i) * 1.7)
	}
	mean := func(idx []int) float64 {
		var sum float64
		for _, i := range idx {
			sum += values[i]
		}
		return sum / float64(len(idx))
	}
	b := BootstrapCI(len(values), 7, 4000, mean, 0.95)
	m, variance, _, _ := Moments(values)
	reach := normal975 * math.Sqrt(variance/400)
	if b.Estimate != m && !near(b.Estimate, m, 1e-9) || !near(b.High-b.Low, 2*reach, 0.05) || !near(b.StandardError, reach/normal975, 0.05) {
		t.Errorf("%+v, want %v ± %v", b, m, reach)
	}
	if again := BootstrapCI(len(values), 7, 4000, mean, 0.95); again != b {
		t.Errorf("the same seed gives %+v and %+v", b, again)
	}
	if other := BootstrapCI(len(values), 8, 4000, mean, 0.95); other == b {
		t.Error("another seed gives the same resamples")
	}
	calls := 0
	some := BootstrapCI(5, 1, 10, func([]int) float64 {
		if calls++; calls == 3 {
			return nan
		}
		return float64(calls)
	}, 0.9)
	if some.Resamples != 9 || some.NotFinite != 1 {
		t.Errorf("%+v", some)
	}
}

// TestRanksLeaveOut: what is not finite has no rank and moves none.
func TestRanksLeaveOut(t *testing.T) {
	got := Ranks([]float64{3, nan, 1, 3, -inf, math.Copysign(0, -1), 0})
	want := []float64{4.5, nan, 3, 4.5, nan, 1.5, 1.5}
	for i := range want {
		if got[i] != want[i] && !(math.IsNaN(got[i]) && math.IsNaN(want[i])) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}

// TestAdjusted checks by hand what the golden entry does not hold: Holm, NaN, and order.
func TestAdjusted(t *testing.T) {
	p := []float64{0.04, nan, 0.01, 0.03}
	for name, c := range map[string][2][]float64{
		"BH":   {BH(p), {0.04, nan, 0.03, 0.04}},
		"Holm": {Holm(p), {0.06, nan, 0.03, 0.06}},
	} {
		for i, want := range c[1] {
			if got := c[0][i]; !near(got, want, 1e-15) && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Errorf("%s: %v, want %v", name, c[0], c[1])
				break
			}
		}
	}
}

// TestKendallCountsPairs compares with the definition, pair by pair.
func TestKendallCountsPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(3, 30).Draw(t, "n")
		draw := func(name string) []float64 {
			return rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 6), func(i int) float64 { return float64(i) }), n, n).Draw(t, name)
		}
		a, b := draw("a"), draw("b")
		var difference, untiedA, untiedB float64
		for i := range a {
			for j := range i {
				s := (a[i] - a[j]) * (b[i] - b[j])
				if s != 0 {
					difference += s / math.Abs(s)
				}
				if a[i] != a[j] {
					untiedA++
				}
				if b[i] != b[j] {
					untiedB++
				}
			}
		}
		got := KendallTauB(a, b)
		if untiedA == 0 || untiedB == 0 {
			if got.Why != "no variance" {
				t.Fatalf("%+v", got)
			}
			return
		}
		if want := difference / math.Sqrt(untiedA*untiedB); math.Abs(got.R-want) > 1e-12 {
			t.Fatalf("tau %v, want %v", got.R, want)
		}
	})
}

// TestVarianceDoesNotMove: units and a common offset change nothing of a test.
func TestVarianceDoesNotMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(6, 60).Draw(t, "n")
		values := make([]float64, n)
		group := make([]int, n)
		for i := range values {
			values[i] = float64(rapid.IntRange(-1000, 1000).Draw(t, "v"))
			group[i] = i % 3
		}
		moved := make([]float64, n)
		for i, v := range values {
			moved[i] = v*0x1p-40 + 5*0x1p-20
		}
		a, b := OneWay(values, group), OneWay(moved, group)
		if a.Why != b.Why || a.Why == "" && (!near(a.F, b.F, 1e-9) || !near(a.Omega2, b.Omega2, 1e-7) && math.Abs(a.Omega2-b.Omega2) > 1e-12) {
			t.Fatalf("%+v and %+v", a, b)
		}
		if a.Why == "" && !(a.OmegaLow <= a.OmegaHigh && a.OmegaHigh < 1) {
			t.Fatalf("%+v", a)
		}
		if k, l := KruskalWallis(values, group), KruskalWallis(moved, group); k.Why != l.Why || k.Why == "" && k.Statistic != l.Statistic {
			t.Fatalf("%+v and %+v", k, l)
		}
	})
}

// TestExactKSIsTheLaw: over all orders of two small samples the exact p value is
// the share of orders with a distance at least as large.
func TestExactKSIsTheLaw(t *testing.T) {
	const n, m = 4, 5
	count := map[float64]int{}
	p := map[float64]float64{}
	total := 0
	for set := range 1 << (n + m) {
		var a, b []float64
		for i := range n + m {
			if set>>i&1 == 1 {
				a = append(a, float64(i))
			} else {
				b = append(b, float64(i))
			}
		}
		if len(a) == n {
			k := KS2(a, b)
			count[k.D]++
			p[k.D] = k.PExact
			total++
		}
	}
	for d := range count {
		above := 0
		for e, c := range count {
			if e >= d {
				above += c
			}
		}
		if want := float64(above) / float64(total); !near(p[d], want, 1e-12) {
			t.Errorf("D %v: p %v, want %v", d, p[d], want)
		}
	}
}

func TestWassersteinMoves(t *testing.T) {
	a := []float64{3, 1, 2, nan}
	if d := Wasserstein1(a, []float64{11, 13, 12}); d != 10 {
		t.Errorf("moved by 10: %v", d)
	}
	if d := Wasserstein1(a, a); d != 0 {
		t.Errorf("to itself: %v", d)
	}
}

// TestNoncentralInverts: the ends of the interval are where the law says they are.
func TestNoncentralInverts(t *testing.T) {
	for _, c := range [][3]float64{{1.5, 4, 30}, {3, 202, 1000}, {40, 1, 10}, {2000, 31, 500}} {
		for _, p := range []float64{0.025, 0.5, 0.975} {
			lambda := noncentrality(c[0], c[1], c[2], p)
			if lambda > 0 && !near(NoncentralFCDF(c[0], c[1], c[2], lambda), p, 1e-8) {
				t.Errorf("F %v: λ %v gives %v, want %v", c, lambda, NoncentralFCDF(c[0], c[1], c[2], lambda), p)
			}
			if lambda == 0 && NoncentralFCDF(c[0], c[1], c[2], 0) > p {
				t.Errorf("F %v at %v: no λ found", c, p)
			}
		}
	}
}

// BenchmarkOneWay is the analysis of the largest session's experts.
func BenchmarkOneWay(b *testing.B) {
	values, group := make([]float64, 37152), make([]int, 37152)
	for i := range values {
		values[i], group[i] = 0.008+1e-4*math.Sin(float64(i)*1.37), i%203
	}
	for b.Loop() {
		OneWay(values, group)
	}
}

// TestStirlingRest compares with ln Γ less the leading terms, which are of size
// 13 at 10: a few units of their last place is what can be asked.
func TestStirlingRest(t *testing.T) {
	for _, x := range []float64{10, 11.5, 14} {
		want := logGamma(x) - ((x-0.5)*math.Log(x) - x + math.Log(2*math.Pi)/2)
		if got := stirlingRest(x); math.Abs(got-want) > 1e-14 {
			t.Errorf("at %v: %v, want %v", x, got, want)
		}
	}
}
