package bakeoff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/landscape"
	"quantscope/analysis/stats"
	"quantscope/quant/topology"
)

// table has layers × experts × three projections, and arms whose samples f says.
func table(layers, experts int, arms int, f func(arm, item int) landscape.Sample) *landscape.Table {
	t := &landscape.Table{}
	for l := range layers {
		for e := range experts {
			for _, p := range []string{"gate", "up", "down"} {
				t.Items = append(t.Items, landscape.Item{
					ID: len(t.Items), Name: fmt.Sprintf("layers.%d.experts.%d.%s", l, e, p), Rows: 4, Cols: 32,
					Role: topology.Role{Kind: topology.Expert, Layer: l, Expert: e, Projection: p},
				})
			}
		}
	}
	for a := range arms {
		arm := landscape.Arm{Name: fmt.Sprintf("v%d", a), BitsPerWeight: 4.5}
		for i := range t.Items {
			arm.Samples, arm.Bytes = append(arm.Samples, f(a, i)), append(arm.Bytes, 100)
		}
		t.Arms = append(t.Arms, arm)
	}
	return t
}

// plain is a measured sample.
func plain(rel2 float64) landscape.Sample {
	return landscape.Sample{State: landscape.Measured, Rel2: rel2, RelL2: math.Sqrt(rel2), Cos: 1 - rel2/2, W2: 2, E2: 2 * rel2, Blocks: 10, Shallow: 4}
}

// noisy is a table whose rel2 has no order in it.
func noisy() *landscape.Table {
	r := rand.New(rand.NewPCG(1, 2))
	return table(4, 10, 1, func(int, int) landscape.Sample { return plain(0.009 + 0.001*r.Float64()) })
}

func drawn(t *testing.T, tab *landscape.Table, sample string, seed uint64) *Sample {
	t.Helper()
	specs, err := ParseStrata(sample)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Draw(tab, 0, specs, seed)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDraw(t *testing.T) {
	tab := noisy()
	s := drawn(t, tab, "worst=12,random=20,layer=2=all,projection=down=7,expert=3=all", 9)
	sizes := []int{12, 20, 30, 7, 12}
	of := []int{120, 120, 30, 40, 12}
	all := map[int]bool{}
	for k, st := range s.Strata {
		if len(st.Items) != sizes[k] || st.Of != of[k] || !slices.IsSorted(st.Items) || len(slices.Compact(slices.Clone(st.Items))) != sizes[k] {
			t.Errorf("%s: %d of %d: %v", st.Spec.Name(), len(st.Items), st.Of, st.Items)
		}
		for _, i := range st.Items {
			all[i] = true
			r := tab.Items[i].Role
			if st.Spec.Kind == Layer && r.Layer != 2 || st.Spec.Kind == Projection && r.Projection != "down" || st.Spec.Kind == Expert && r.Expert != 3 {
				t.Errorf("%s has %s", st.Spec.Name(), tab.Items[i].Name)
			}
		}
	}
	if len(s.Items) != len(all) || !slices.IsSorted(s.Items) {
		t.Errorf("%d items of %d", len(s.Items), len(all))
	}
	least := math.Inf(1)
	for _, i := range s.Strata[0].Items {
		least = min(least, tab.Arms[0].Samples[i].Rel2)
	}
	for i, x := range tab.Arms[0].Samples {
		if x.Rel2 > least && !slices.Contains(s.Strata[0].Items, i) {
			t.Errorf("item %d is worse than one of the worst", i)
		}
	}
	shared := 0
	for _, o := range s.Overlaps() {
		shared += o.N
	}
	if again := drawn(t, tab, "worst=12,random=20,layer=2=all,projection=down=7,expert=3=all", 9); shared == 0 || !slices.Equal(again.Items, s.Items) {
		t.Error("the same seed draws others, or nothing overlaps", s.Overlaps())
	}
	// What a stratum draws does not depend on the others.
	if alone := drawn(t, tab, "random=20", 9); !slices.Equal(alone.Items, s.Strata[1].Items) {
		t.Error("random draws others where it is alone")
	}
	if other := drawn(t, tab, "random=20", 10); slices.Equal(other.Items, s.Strata[1].Items) {
		t.Error("another seed draws the same")
	}
}

// TestDrawIsUniform: over many seeds each item is drawn as often as the others,
// by a χ² test of its counts.
func TestDrawIsUniform(t *testing.T) {
	tab := noisy()
	const seeds, k = 2000, 30
	counts := make([]float64, len(tab.Items))
	specs := []Spec{{Kind: Random, N: k}}
	for seed := range uint64(seeds) {
		s, err := Draw(tab, 0, specs, seed)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range s.Items {
			counts[i]++
		}
	}
	n := float64(len(tab.Items))
	expected, sum := seeds*k/n, 0.0
	for _, c := range counts {
		sum += (c - expected) * (c - expected) / expected
	}
	// Without putting back the counts vary by (n−k)/(n−1) less.
	if p, _ := stats.ChiSquareTail(sum*(n-1)/(n-k), n-1); p < 0.001 || p > 0.999 {
		t.Errorf("χ² has p = %v", p)
	}
}

func TestDrawLeavesOut(t *testing.T) {
	tab := table(3, 4, 1, func(_, i int) landscape.Sample {
		switch {
		case i == 5:
			return landscape.Sample{State: landscape.Failed, Rel2: math.NaN()}
		case i == 6:
			return landscape.Sample{State: landscape.Measured, Rel2: math.NaN()}
		case i == 7:
			return plain(math.Inf(1))
		case i >= 24: // the last layer
			return landscape.Sample{}
		}
		return plain(float64(i))
	})
	s := drawn(t, tab, "worst=all,random=all", 1)
	if s.LeftOut != 3 || s.Pending != 12 || len(s.Strata[0].Items) != 21 || len(s.Strata[1].Items) != 33 {
		t.Errorf("%d left out, %d pending, %d and %d drawn", s.LeftOut, s.Pending, len(s.Strata[0].Items), len(s.Strata[1].Items))
	}
	for text, says := range map[string]string{
		"worst=22":             "stratum worst=22: there are only 21 (of all tensors, 3 could not be measured under the base variant and 12 are not measured yet)",
		"random=34":            "there are only 33",
		"layer=2=13":           "stratum layer=2=13: there are only 12",
		"layer=7=1":            "the session has no layer 7 (known: 0 to 2)",
		"expert=9=1":           "no expert 9 (known: 0 to 3)",
		"projection=q=1":       "no projection q (known: down, gate, up)",
		"random=1000000000000": "there are only 33",
	} {
		specs, err := ParseStrata(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Draw(tab, 0, specs, 1); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
	none := table(1, 1, 1, func(int, int) landscape.Sample { return landscape.Sample{State: landscape.Failed} })
	for text, says := range map[string]string{"worst=all": "there is no such tensor", "layer=0=1": "none of its tensors could be measured"} {
		specs, _ := ParseStrata(text)
		if _, err := Draw(none, 0, specs, 1); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, arm := range []int{-1, 1} {
		if _, err := Draw(none, arm, []Spec{{Kind: Random, N: 1}}, 1); err == nil {
			t.Errorf("arm %d", arm)
		}
	}
	if _, err := Draw(noisy(), 0, []Spec{{Kind: "some", N: 1}}, 1); err == nil || !strings.Contains(err.Error(), "not known") {
		t.Error(err)
	}
}

// Strata of one size are not drawn at the same places.
func TestStrataDrawApart(t *testing.T) {
	tab := noisy()
	s := drawn(t, tab, "layer=1=10,layer=2=10", 1)
	same := 0
	for _, i := range s.Strata[0].Items {
		if slices.Contains(s.Strata[1].Items, i+30) {
			same++
		}
	}
	if same == 10 {
		t.Errorf("the same ten of thirty twice: %v, %v", s.Strata[0].Items, s.Strata[1].Items)
	}
}
