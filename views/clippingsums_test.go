package views

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// addUp is what clipSums keeps, worked out the plain way.
func addUp(state *sessions.State, f Filter, variant int, only func(t *sessions.Tensor) bool) (sum clipSum, total int) {
	for i := range state.Tensors {
		if !f.Shows(i) || !only(&state.Tensors[i]) {
			continue
		}
		total++
		if r := &state.Records[variant][i]; r.Seq != 0 {
			sum.add(r)
		}
	}
	return sum, total
}

// TestClipSumsFollowTheState feeds random batches, late variants, replaced
// records and resets included, and compares with adding everything up.
func TestClipSumsFollowTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tensors := viewstest.Experts(0, 2, 1, 2)
		state := viewstest.Empty(tensors, "nvfp4")
		f, err := NewFilter(rapid.SampledFrom([]string{"", "experts.1", "!down", "nothing"}).Draw(t, "filter"), tensors)
		if err != nil {
			t.Fatal(err)
		}
		var s clipSums
		s.rebuild(state, f)
		seed := noise(rapid.Uint64().Draw(t, "seed"))
		for range rapid.IntRange(0, 8).Draw(t, "batches") {
			var b sessions.Batch
			switch rapid.IntRange(0, 6).Draw(t, "kind") {
			case 0:
				b.Variants = []sessions.Variant{{ID: len(state.Variants), Name: "later"}}
			case 1:
				b.Reset = viewstest.Empty(tensors, "nvfp4", "nvfp4+mse")
				viewstest.Measure(b.Reset, 1, 3)
			default:
				for range rapid.IntRange(0, 20).Draw(t, "records") {
					r := anyRecord(&seed, rapid.IntRange(0, len(state.Variants)-1).Draw(t, "v"), rapid.IntRange(0, len(tensors)-1).Draw(t, "t"))
					r.W2, r.ShallowL2, r.DeepL2 = 2, 0.25, 0.5
					b.Records = append(b.Records, r)
				}
			}
			state.Apply(b)
			s.apply(state, &b)
		}
		if s.stale {
			s.rebuild(state, f)
		}
		for v := range state.Variants {
			for layer := -1; layer < s.places.layers(); layer++ {
				for projection := -1; projection < len(s.places.projections); projection++ {
					got, n := s.over(v, layer, projection)
					want, total := addUp(state, f, v, func(t *sessions.Tensor) bool {
						return (layer < 0 || t.Role.Layer == s.places.grid.Rows[layer].Layer) &&
							(projection < 0 || t.Role.Projection == s.places.projections[projection])
					})
					if d := cmp.Diff(want, got, cmp.AllowUnexported(clipSum{}), cmpopts.EquateApprox(1e-12, 0)); d != "" || n != total {
						t.Fatalf("variant %d layer %d projection %d: %d of %d tensors\n%s", v, layer, projection, n, total, d)
					}
				}
			}
		}
	})
}

func TestClipSumLeavesOutWhatIsNotFinite(t *testing.T) {
	var c clipSum
	c.add(&sessions.Record{Seq: 1, Blocks: 10, Deep: 4, W2: 2, DeepL2: 0.5, ShallowL2: 0.25})
	c.add(&sessions.Record{Seq: 2, Blocks: 10, W2: math.NaN(), DeepL2: 0.5})
	c.add(&sessions.Record{Seq: 3, Blocks: 10, W2: math.Inf(1), DeepL2: 0.5})
	c.add(&sessions.Record{Seq: 4, Blocks: 10, W2: 7, DeepL2: math.NaN()})
	c.add(&sessions.Record{Seq: 5, Failed: true, Blocks: 99})
	if got := c.massShare(c.deepMass); got != 0.5 {
		t.Errorf("share of mass %v, want 0.5", got)
	}
	if got := c.blockShare(c.deep); got != 0.1 || c.tensors != 4 || c.failed != 1 {
		t.Errorf("share of blocks %v of %d tensors, %d failed", got, c.tensors, c.failed)
	}
	if none := (&clipSum{}); !math.IsNaN(none.blockShare(0)) || !math.IsNaN(none.massShare(0)) {
		t.Error("shares of nothing are numbers")
	}
}

func TestPlacesAreInTheModelsOrder(t *testing.T) {
	tensors := viewstest.Experts(1, 2, 1, 1)
	tensors = append(tensors, sessions.Tensor{ID: len(tensors)})
	tensors[len(tensors)-1].Role.Layer = -1
	tensors[0], tensors[8] = tensors[8], tensors[0]
	p := newPlaces(tensors)
	var labels []string
	for _, row := range p.grid.Rows {
		labels = append(labels, row.Label)
	}
	if d := cmp.Diff([]string{"L1", "L2", "M3", "–"}, labels); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"gate", "up", "down", ""}, p.projections); d != "" {
		t.Error(d)
	}
	for i := range tensors {
		if p.grid.Rows[p.layer(i)].Layer != tensors[i].Role.Layer || p.projections[p.projection[i]] != tensors[i].Role.Projection {
			t.Errorf("tensor %d stands in the wrong place", i)
		}
	}
	if p.projectionIndex("") != -1 || p.projectionIndex("nowhere") != 4 || p.projectionIndex("up") != 1 {
		t.Error("projections are not found by name")
	}
}
