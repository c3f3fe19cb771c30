package views

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestRobustScale(t *testing.T) {
	values := []float64{math.NaN(), math.Inf(1), math.Inf(-1)}
	for i := 200; i >= 0; i-- { // 0 … 200: the percentiles are 2 and 198
		values = append(values, float64(i))
	}
	got := RobustScale(values)
	want := Scale{Lo: 2, Hi: 198, Count: 201, Under: 2, Over: 2, NonFinite: 3}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Scale{NonFinite: 1}, RobustScale([]float64{math.NaN()})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Scale{Lo: 7, Hi: 7, Count: 1}, RobustScale([]float64{7})); d != "" {
		t.Error(d)
	}
}

func TestSymmetricScale(t *testing.T) {
	var values []float64
	for i := range 101 { // magnitudes 0 … 100: the 99th percentile is 99
		values = append(values, float64(i)*float64(1-2*(i%2)))
	}
	values = append(values, math.NaN(), math.Inf(-1))
	got := SymmetricScale(values)
	want := Scale{Lo: -99, Hi: 99, Diverging: true, Count: 101, Over: 1, NonFinite: 2}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if p := got.Place(0); p != 0.5 {
		t.Errorf("0 stands at %v of a symmetric scale", p)
	}
}

func TestScalePlace(t *testing.T) {
	s := Scale{Lo: 2, Hi: 4}
	for v, want := range map[float64]float64{1: 0, 2: 0, 2.5: 0.25, 4: 1, 9: 1, math.Inf(1): 1, math.Inf(-1): 0} {
		if got := s.Place(v); got != want {
			t.Errorf("Place(%v) = %v, want %v", v, got, want)
		}
		flipped := s
		flipped.Flip = true
		if got := flipped.Place(v); got != 1-want {
			t.Errorf("flipped Place(%v) = %v, want %v", v, got, 1-want)
		}
	}
	if got := (Scale{Lo: 3, Hi: 3}).Place(3); got != 0.5 {
		t.Errorf("a scale without width places at %v", got)
	}
	if got := (Scale{Lo: -math.MaxFloat64, Hi: math.MaxFloat64}).Place(0); got != 0.5 {
		t.Errorf("the widest scale places 0 at %v", got)
	}
	if got := s.Place(math.NaN()); !math.IsNaN(got) {
		t.Errorf("NaN stands at %v", got)
	}
}

func TestNthIsWhatSortingGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Few distinct values, so that pivots tie.
		values := rapid.SliceOfN(rapid.Map(rapid.IntRange(-9, 30), func(i int) float64 { return float64(i) }), 1, 200).Draw(t, "values")
		k := rapid.IntRange(0, len(values)-1).Draw(t, "k")
		sorted := slices.Sorted(slices.Values(values))
		if got := nth(slices.Clone(values), k); got != sorted[k] {
			t.Fatalf("nth(%v, %d) = %v, want %v", values, k, got, sorted[k])
		}
	})
}

func TestScaleLevels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Scale{Lo: rapid.Float64().Draw(t, "lo"), Hi: rapid.Float64().Draw(t, "hi"), Flip: rapid.Bool().Draw(t, "flip")}
		n := rapid.IntRange(1, 30).Draw(t, "n")
		v := rapid.Float64().Draw(t, "v")
		if l := s.level(v, n); l < 0 || l >= n {
			t.Fatalf("%v of %+v is step %d of %d", v, s, l, n)
		}
	})
}
