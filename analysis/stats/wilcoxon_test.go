package stats

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestWilcoxonEqualsScipy(t *testing.T) {
	zeros := map[string]ZeroMethod{"wilcox": DropZeros, "pratt": Pratt, "zsplit": SplitZeros}
	alternatives := map[string]Alternative{"two-sided": TwoSided, "less": Less, "greater": Greater}
	g := load(t)
	if len(g.Wilcoxon) != 48 {
		t.Fatalf("%d entries, want 48", len(g.Wilcoxon))
	}
	for _, e := range g.Wilcoxon {
		x, y := g.array(t, e.X), g.array(t, e.Y)
		d := make([]float64, len(x))
		for i := range d {
			d[i] = x[i] - y[i]
		}
		got := Wilcoxon(d, Options{zeros[e.ZeroMethod], alternatives[e.Alternative], e.Correction})
		if got.Zeros != e.Zeros || !near(got.Statistic, e.Statistic, 1e-12) || !near(got.Z, e.Z, 1e-12) ||
			!near(got.P, e.P, 1e-8) || !near(got.Log10P, math.Log10(e.P), 1e-8) {
			t.Errorf("%s %s %s correction=%v: %+v, want %+v", e.X, e.ZeroMethod, e.Alternative, e.Correction, got, e)
		}
	}
}

// TestWilcoxonAllOnOneSide checks the figure that a comparison of two variants
// shows when the second wins everywhere: Plus is 0 and z is known in closed
// form.
func TestWilcoxonAllOnOneSide(t *testing.T) {
	for _, n := range []int{1, 240, 37152} {
		d := make([]float64, n)
		for i := range d {
			d[i] = -1 - float64(i)
		}
		got := Wilcoxon(d, Options{})
		f := float64(n)
		z := -math.Sqrt(3 * f * (f + 1) / (2 * (2*f + 1)))
		if got.Plus != 0 || got.Minus != f*(f+1)/2 || !near(got.Z, z, 1e-12) {
			t.Errorf("n=%d: %+v, want z %v", n, got, z)
		}
		if math.IsInf(got.Log10P, 0) || !near(got.Log10P, (LogNormalTail(-z)+math.Ln2)/math.Ln10, 1e-12) {
			t.Errorf("n=%d: log10 p %v", n, got.Log10P)
		}
	}
}

func TestWilcoxonWithoutEvidence(t *testing.T) {
	for name, d := range map[string][]float64{"none": nil, "zeros": {0, 0, math.Copysign(0, -1)}, "not finite": {math.NaN(), math.Inf(1)}} {
		for _, zeros := range []ZeroMethod{DropZeros, Pratt} {
			if got := Wilcoxon(d, Options{Zeros: zeros}); !math.IsNaN(got.P) || !math.IsNaN(got.Z) || !math.IsNaN(got.Log10P) {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
	if got := Wilcoxon([]float64{0, 0, 0}, Options{Zeros: SplitZeros}); got.P != 1 {
		t.Errorf("zeros split evenly: p = %v, want 1", got.P)
	}
	if got := Wilcoxon([]float64{math.Inf(1), math.NaN(), 2, 0}, Options{}); got.NotFinite != 2 || got.N != 1 || got.Zeros != 1 {
		t.Errorf("counts: %+v", got)
	}
}

// TestWilcoxonAgainstPlainRanks compares rank sums with the textbook way.
func TestWilcoxonAgainstPlainRanks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SliceOfN(rapid.Map(rapid.IntRange(-6, 6), func(i int) float64 { return float64(i) / 4 }), 0, 40).Draw(t, "d")
		var plus, minus float64
		for _, x := range d {
			if x == 0 {
				continue
			}
			below, same := 0.0, 0.0
			for _, y := range d {
				switch {
				case y == 0:
				case math.Abs(y) < math.Abs(x):
					below++
				case math.Abs(y) == math.Abs(x):
					same++
				}
			}
			if rank := below + (same+1)/2; x > 0 {
				plus += rank
			} else {
				minus += rank
			}
		}
		got := Wilcoxon(d, Options{})
		if got.Plus != plus || got.Minus != minus {
			t.Fatalf("%v: %v and %v, want %v and %v", d, got.Plus, got.Minus, plus, minus)
		}
		slices.Reverse(d)
		for i := range d {
			d[i] = -d[i]
		}
		if turned := Wilcoxon(d, Options{}); turned.Plus != got.Minus || got.N > 0 && !near(turned.Z, -got.Z, 1e-12) {
			t.Fatalf("turned round: %+v and %+v", turned, got)
		}
	})
}

func TestSortKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 300)), 0, 600).Draw(t, "keys")
		want := slices.Clone(keys)
		slices.Sort(want)
		SortKeys(keys, make([]uint64, rapid.IntRange(0, 700).Draw(t, "scratch")))
		if !slices.Equal(keys, want) {
			t.Fatalf("got %v, want %v", keys, want)
		}
	})
}

func TestSignedKeyOrdersByMagnitude(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64().Draw(t, "a"), rapid.Float64().Draw(t, "b")
		ka, okA := SignedKey(a)
		kb, okB := SignedKey(b)
		finite := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
		if okA != finite(a) || okB != finite(b) {
			t.Fatalf("%v %v: %v %v", a, b, okA, okB)
		}
		if okA && okB && cmp.Compare(ka>>1, kb>>1) != cmp.Compare(math.Abs(a), math.Abs(b)) {
			t.Fatalf("%v %v: keys %x %x", a, b, ka, kb)
		}
	})
}

// BenchmarkWilcoxon ranks as many pairs as the largest session holds.
func BenchmarkWilcoxon(b *testing.B) {
	d := make([]float64, 37152)
	for i := range d {
		d[i] = math.Sin(float64(i)) * 1e-3
	}
	keys, scratch := make([]uint64, len(d)), make([]uint64, len(d))
	b.ReportAllocs()
	for b.Loop() {
		keys = keys[:0]
		for _, x := range d {
			k, _ := SignedKey(x)
			keys = append(keys, k)
		}
		SortKeys(keys, scratch)
		WilcoxonKeys(keys, Options{})
	}
}
