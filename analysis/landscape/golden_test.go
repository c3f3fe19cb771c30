package landscape

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"quantscope/quant/topology"
)

// entry is a tensor of a table made by hand.
type entry struct {
	layer, expert int
	projection    string
	rel2          float64
}

// handTable makes a table of routed experts, or of attention where there are none.
func handTable(entries ...entry) *Table {
	t := &Table{Arms: []Arm{{Name: "nvfp4", BitsPerWeight: 4.5}}}
	for i, e := range entries {
		kind := topology.Expert
		if e.expert < 0 {
			kind = topology.Attention
		}
		t.Items = append(t.Items, Item{
			ID: i, Name: fmt.Sprintf("L%d.E%d.%s", e.layer, e.expert, e.projection),
			Role: topology.Role{Kind: kind, Layer: e.layer, Expert: e.expert, Projection: e.projection, Param: "weight"},
			Rows: 64, Cols: 64, SourceBytes: 8192, Amax: math.NaN(), Std: math.NaN(), Kurtosis: math.NaN(),
		})
		t.Arms[0].Bytes = append(t.Arms[0].Bytes, 2304)
		t.Arms[0].Samples = append(t.Arms[0].Samples, Sample{
			State: Measured, Rel2: e.rel2, RelL2: math.Sqrt(e.rel2), Cos: 1 - e.rel2/2, Blocks: 256,
		})
	}
	return t
}

type golden struct {
	Rows         [][4]float64
	Layer        []float64
	Expert       []float64
	Projection   []float64
	Remainder    float64
	Adjusted     []float64
	Anova        []float64
	Kruskal      []float64
	OverExpected float64     `json:"over_expected"`
	LayerLevels  [][]float64 `json:"layer_levels"`
	Neighbours   []float64
	TopError     float64 `json:"top_error"`
}

var three = []string{"gate", "up", "down"}

func goldenTable(t *testing.T) (*golden, *Table) {
	t.Helper()
	text, err := os.ReadFile("testdata/landscape.json")
	if err != nil {
		t.Fatal(err)
	}
	g := &golden{}
	if err := json.Unmarshal(text, g); err != nil {
		t.Fatal(err)
	}
	var entries []entry
	for _, r := range g.Rows {
		entries = append(entries, entry{int(r[0]), int(r[1]), three[int(r[2])], r[3]})
	}
	return g, handTable(entries...)
}

// near compares relative to the larger magnitude.
func near(got, want, relative float64) bool {
	return got == want || math.Abs(got-want) <= relative*max(math.Abs(got), math.Abs(want))
}

func wantValue(t *testing.T, name string, got Value, relative float64, want ...float64) {
	t.Helper()
	if !got.Defined() {
		t.Errorf("%s: there is none: %s", name, got.Why)
		return
	}
	for i, have := range []float64{got.V, got.Low, got.High}[:len(want)] {
		if !near(have, want[i], relative) {
			t.Errorf("%s: figure %d is %.15g, want %.15g", name, i, have, want[i])
		}
	}
}

// An unbalanced table equals numpy's least squares and scipy's distributions.
func TestAgainstScipy(t *testing.T) {
	g, table := goldenTable(t)
	r := &analyzed(t, table).Groups[0]
	d := r.Decomposition
	const fine, inverted = 1e-9, 1e-5 // intervals are inverted to 1e-6
	wantValue(t, "layer", d.Layer, fine, g.Layer[0])
	wantValue(t, "expert", d.Expert, fine, g.Expert[0])
	wantValue(t, "projection", d.Projection, fine, g.Projection[0])
	wantValue(t, "layer's interval", d.Layer, inverted, g.Layer...)
	wantValue(t, "expert's interval", d.Expert, inverted, g.Expert...)
	wantValue(t, "projection's interval", d.Projection, inverted, g.Projection...)
	wantValue(t, "remainder", d.Remainder, fine, g.Remainder)
	if sum := d.Layer.V + d.Expert.V + d.Projection.V + d.Confounded.V + d.Remainder.V; !near(sum, 1, 1e-12) || d.Confounded.V == 0 {
		t.Errorf("shares add up to %v, %v of it confounded", sum, d.Confounded.V)
	}
	a := r.Anova
	wantValue(t, "F", a.F, fine, g.Anova[0])
	wantValue(t, "p", a.P, fine, g.Anova[1])
	wantValue(t, "log10 p", a.Log10P, fine, math.Log10(g.Anova[1]))
	wantValue(t, "H", a.KruskalH, fine, g.Kruskal[0])
	wantValue(t, "p of H", a.KruskalP, fine, g.Kruskal[1])
	wantValue(t, "adjusted F", a.AdjustedF, fine, g.Adjusted[0])
	wantValue(t, "adjusted p", a.AdjustedP, fine, g.Adjusted[1])
	wantValue(t, "over expected", a.OverExpected, fine, g.OverExpected)
	for i, want := range g.LayerLevels {
		wantValue(t, "ratio of "+r.Layers[i].Name, r.Layers[i].Ratio, fine, want[:3]...)
		wantValue(t, "p of "+r.Layers[i].Name, r.Layers[i].P, 1e-8, want[3])
	}
	wantValue(t, "neighbours", r.Neighbours.Mean, fine, g.Neighbours...)
	var falling []float64
	for _, x := range table.Arms[0].Samples {
		falling = append(falling, -x.Rel2)
	}
	slices.Sort(falling)
	for i := range falling {
		falling[i] *= -1
	}
	if have := jackknifeOfTop(falling, 4); !near(have, g.TopError, fine) {
		t.Errorf("standard error of the worst four's share: %v, want %v", have, g.TopError)
	}
}

// A table without noise has shares that can be worked out by hand: with effects
// of ±1 for two layers, of −1, 0, 1 for three projections and of ±2 for two
// experts, 12 tensors have Σ = 12·1, 8·1 and 12·4.
func TestDecompositionByHand(t *testing.T) {
	var entries []entry
	r := 0.0
	for l := range 2 {
		for e := range 2 {
			for p := range 3 {
				noise := []float64{1, -1}[(l+e)%2] // an interaction that no main effect has a part in
				y := 100 + float64(2*l-1) + 2*float64(2*e-1) + float64(p-1) + noise
				r += noise * noise
				entries = append(entries, entry{l, e, three[p], y})
			}
		}
	}
	d := analyzed(t, handTable(entries...)).Groups[0].Decomposition
	total := 12 + 8 + 48 + r
	wantValue(t, "layer", d.Layer, 1e-12, 12/total)
	wantValue(t, "projection", d.Projection, 1e-12, 8/total)
	wantValue(t, "expert", d.Expert, 1e-12, 48/total)
	wantValue(t, "remainder", d.Remainder, 1e-12, r/total)
	wantValue(t, "confounded", d.Confounded, 0, 0)
	if d.LayerByChance != 1.0/11 || d.ExpertByChance != 1.0/11 || d.ProjectionByChance != 2.0/11 {
		t.Errorf("by chance %v, %v, %v", d.LayerByChance, d.ExpertByChance, d.ProjectionByChance)
	}
}

// Five experts in three layers, ranks known: the second layer has the order of
// the first, the third the reverse.
func TestNeighboursByHand(t *testing.T) {
	var entries []entry
	for l := range 3 {
		for e := range 5 {
			rank := float64(e)
			if l == 2 {
				rank = -rank
			}
			for p, name := range three {
				entries = append(entries, entry{10 * l, e, name, 10 + rank + 5*float64(p)})
			}
		}
	}
	// Without one projection of one expert the others still say where it stands.
	entries = append(entries[:3], entries[4:]...)
	nb := analyzed(t, handTable(entries...)).Groups[0].Neighbours
	if len(nb.Pairs) != 2 || nb.Pairs[0].A != "L0" || nb.Pairs[0].B != "L10" || nb.Pairs[1].B != "L20" || nb.Pairs[0].N != 5 {
		t.Fatalf("pairs %+v", nb.Pairs)
	}
	wantValue(t, "first pair", nb.Pairs[0].Rho, 1e-12, 1)
	wantValue(t, "second pair", nb.Pairs[1].Rho, 1e-12, -1)
	wantValue(t, "mean", nb.Mean, 1e-9, 0)
}

// Ten in a thousand are the worst; a selector that finds three of them.
func TestSelectorsByHand(t *testing.T) {
	var entries []entry
	for i := range 1000 {
		entries = append(entries, entry{i / 100, i % 100, "up", 1 + float64(i)/1000}) // the last ten are the worst
	}
	table := handTable(entries...)
	for i := range table.Items {
		table.Items[i].Amax = float64(i)             // finds all
		table.Items[i].Std = float64((i + 3) % 1000) // its largest are 987 to 996
		table.Items[i].Kurtosis = 3
	}
	s := analyzed(t, table).Groups[0].Selectors
	if len(s) != 3 || s[0].K != 10 || s[0].Hits != 10 || s[1].Hits != 7 {
		t.Fatalf("selectors %+v", s)
	}
	wantValue(t, "overlap", s[0].Overlap, 1e-12, 1)
	wantValue(t, "expected", s[0].Expected, 1e-12, 0.01)
	// One draw in C(1000, 10).
	wantValue(t, "p", s[0].P, 1e-9, 1/2.6340956046201624e23)
	wantValue(t, "rho", s[0].Rho, 1e-12, 1)
	if s[2].Overlap.Why != "it is the same for all tensors" {
		t.Errorf("a constant selector: %+v", s[2])
	}
}

func TestClampsByHand(t *testing.T) {
	table := handTable(entry{0, 0, "up", 1}, entry{0, 1, "up", 2}, entry{1, 0, "up", 3}, entry{1, 0, "down", 4}, entry{2, 0, "down", 5}, entry{2, -1, "q", 5})
	s := table.Arms[0].Samples
	s[0].ScaleHigh, s[1].ScaleLow, s[3].ScaleHigh, s[3].ScaleLow = 1, 2, 5, 1
	s[3].Rel2 = math.NaN() // it counts here all the same
	s[4].State, s[4].ScaleHigh = Failed, 7
	c := analyzed(t, table).Groups[0].Clamps
	if c.High != 6 || c.Low != 3 || c.Blocks != 4*256 || len(c.Places) != 2 {
		t.Fatalf("clamps %+v", c)
	}
	if p := c.Places[0]; p != (ClampPlace{Layer: "L1", Projection: "down", Tensors: 1, High: 5, Low: 1, Blocks: 256}) {
		t.Errorf("first %+v", p)
	}
	if p := c.Places[1]; p != (ClampPlace{Layer: "L0", Projection: "up", Tensors: 2, High: 1, Low: 2, Blocks: 512}) {
		t.Errorf("second %+v", p)
	}
}
