package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"quantscope/analysis/landscape"
	"quantscope/quant/topology"
)

// The paths of a map, drawn again stroke by stroke, give each cell its colour and
// none a second one.
func TestPathsOfAMapAreItsCells(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		f := frame{rows: 1 + rng.IntN(9), cols: 1 + rng.IntN(40)}
		d := &mapData{scale: span{0, classes, 1}}
		cells := make([]cell, f.rows*f.cols)
		want := make([]int, len(cells))
		spread := 1 + rng.IntN(classes)
		for i := range cells {
			want[i] = -1
			if rng.IntN(5) > 0 {
				k := rng.IntN(spread)
				cells[i], want[i] = cell{state: measured, value: float64(k) + 0.5}, k
			}
		}
		d.cells = [][]cell{cells}
		got := make([]int, len(cells))
		for i := range got {
			got[i] = -1
		}
		step := regexp.MustCompile(`([Mmh])(-?[\d.]+)(?: (-?[\d.]+))?`)
		for k, path := range runs(d, 0, f) {
			x, y := 0, 0
			for _, m := range step.FindAllStringSubmatch(path, -1) {
				a, err := strconv.Atoi(m[2])
				if err != nil {
					t.Fatal(err)
				}
				switch m[1] {
				case "M":
					b, err := strconv.ParseFloat(m[3], 64)
					if err != nil || b != math.Floor(b)+0.5 {
						t.Fatalf("a row begins at %q", m[3])
					}
					x, y = a, int(b)
				case "m":
					b, err := strconv.Atoi(m[3])
					if err != nil {
						t.Fatal(err)
					}
					x, y = x+a, y+b
				case "h":
					for range a {
						if got[y*f.cols+x] != -1 {
							t.Fatalf("cell %d,%d is drawn twice", x, y)
						}
						got[y*f.cols+x] = k
						x++
					}
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d×%d: drawn %v, want %v", f.rows, f.cols, got, want)
		}
	}
}

// What is packed for the pointer comes back to a part in 4,090 of the span, and
// what has no value as its state.
func TestPackedValuesComeBack(t *testing.T) {
	d := &mapData{all: span{0.08, 0.12, 3}, cells: [][]cell{{
		{state: measured, value: 0.08}, {state: measured, value: 0.0937}, {state: measured, value: 0.12}, {state: absent}, {state: pending}, {state: failed}, {state: notFinite},
	}}}
	text := d.packed(0)
	digit := func(c byte) int {
		return strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", c)
	}
	var got []int
	for i := 0; i < len(text); i += 2 {
		got = append(got, digit(text[i])*64+digit(text[i+1]))
	}
	if got[0] != 0 || got[2] != 4090 || math.Abs(0.08+0.04*float64(got[1])/4090-0.0937) > 0.04/4090 {
		t.Errorf("values %v", got)
	}
	if !slices.Equal(got[3:], []int{4095, 4094, 4093, 4092}) {
		t.Errorf("states %v", got[3:])
	}
	if !strings.Contains(scriptJS, `4092: "not finite", 4093: "failed", 4094: "not measured"`) || !strings.Contains(scriptJS, "q / 4090") {
		t.Error("the script reads another code")
	}
}

// Every tensor of a layer has a place, in the row of its layer and the column of
// its expert.
func TestGridHasEveryTensor(t *testing.T) {
	st := fixture(12, 10, "nvfp4")
	st.Tensors = append(st.Tensors, st.Tensors[0], st.Tensors[0], st.Tensors[0])
	n := len(st.Tensors)
	st.Tensors[n-3].Role = topology.Role{Kind: topology.Attention, Layer: 3, Expert: -1, Projection: "o"}
	st.Tensors[n-2].Role = topology.Role{Kind: topology.Attention, Layer: 10, Expert: -1, Projection: "q"}
	st.Tensors[n-1].Role = topology.Role{Kind: topology.Head, Layer: -1, Expert: -1}
	st.Records[0] = append(st.Records[0], st.Records[0][:3]...)
	items := st.Table().Items
	for _, maps := range []int{1, 1000} {
		g := newGrid(items, maps)
		if g.off != 1 || len(g.panels) != 4 {
			t.Fatalf("%d panels, %d without a place", len(g.panels), g.off)
		}
		seen := map[int]bool{}
		for _, p := range g.panels {
			for c, at := range p.cells {
				for _, i := range at {
					seen[i] = true
					if want := keyOf(items[i].Role).label(); p.rows[c/len(p.cols)] != want {
						t.Errorf("item %d of %s stands in %s", i, want, p.rows[c/len(p.cols)])
					}
					if p.experts && g.pool == 1 && p.cols[c%len(p.cols)] != fmt.Sprint(items[i].Role.Expert) {
						t.Errorf("expert %d stands in %s", items[i].Role.Expert, p.cols[c%len(p.cols)])
					}
				}
			}
		}
		if len(seen) != n-1 {
			t.Errorf("%d of %d items have a place", len(seen), n-1)
		}
		if p := g.panels[0]; p.rows[1] != "L2" || p.rows[11] != "M12" || p.title != "gate" {
			t.Errorf("%s: %v", p.title, p.rows)
		}
		if p := g.panels[3]; !slices.Equal(p.cols, []string{"q", "o"}) || !slices.Equal(p.rows, []string{"L3", "L10"}) {
			t.Errorf("%v %v", p.cols, p.rows)
		}
		if cells := 12 * len(g.panels[0].cols) * 3 * maps; cells > most {
			t.Errorf("%d cells in all", cells)
		}
	}
}

// A pooled cell has the worst of its tensors, and one without any figure its
// state.
func TestPooledCellHasTheWorst(t *testing.T) {
	g := &grid{panels: []panel{{rows: []string{"L1"}, cols: []string{"0–1", "2–3", "4–5"}, cells: [][]int{{0, 1}, {2, 3}, {}}}}}
	arm := &landscape.Arm{Samples: []landscape.Sample{
		{State: landscape.Measured, RelL2: 0.2, Deep: 1, Blocks: 4}, {State: landscape.Measured, RelL2: 0.3, Blocks: 4},
		{State: landscape.Pending}, {State: landscape.Failed},
	}}
	d := newMap(g, arm, relL2Metric)
	c := d.cells[0]
	if c[0].state != measured || c[0].value != 0.3 || c[0].item != 1 || !c[0].clipped || c[1].state != failed || c[2].state != absent {
		t.Errorf("%+v", c)
	}
	if !d.marks || d.clipped != 1 || !slices.Equal(d.worst, []int{1, 0}) {
		t.Errorf("%+v", d)
	}
}

// One outlier does not take all colours, and stays within them.
func TestScaleIsRobust(t *testing.T) {
	var values []float64
	for i := range 1000 {
		values = append(values, 1+float64(i)/1e4)
	}
	values[500] = 100
	s := robust(values)
	if s.hi > 1.2 || s.lo < 1 {
		t.Errorf("%+v", s)
	}
	d := &mapData{scale: s}
	if d.class(100) != classes-1 || d.class(-100) != 0 {
		t.Error("values beyond the scale have no colour")
	}
}

func TestTicksAreRound(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		want   string
	}{
		{0, 10, "0 5 10"}, {0.0087, 0.0095, "0.0088 0.0090 0.0092 0.0094"}, {-0.36, 0.38, "-0.2 0.0 0.2"}, {4.27, 16.2, "5 10 15"}, {0, 0.0096, "0.000 0.002 0.004 0.006 0.008"},
		{1, 1, ""}, {0, math.Inf(1), ""}, {0, 1e-300, ""}, {-1e6, 2e6, "-1000000 0 1000000 2000000"},
	} {
		var got []string
		for _, k := range (span{c.lo, c.hi, 2}).ticks(3) {
			got = append(got, k.label)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%g to %g: %v, want %s", c.lo, c.hi, got, c.want)
		}
	}
}

// What lies between two points of a control is read off the line through them.
func TestMeanBetweenPoints(t *testing.T) {
	points := []landscape.Point{{Bytes: 100, MeanRel2: 0.01}, {Bytes: 200, MeanRel2: 0.006}, {Bytes: 400, MeanRel2: 0}}
	for bytes, want := range map[int64]float64{50: 0.01, 100: 0.01, 150: 0.008, 200: 0.006, 300: 0.003, 400: 0, 500: 0} {
		if got := meanAt(points, bytes); math.Abs(got-want) > 1e-15 {
			t.Errorf("at %d: %g, want %g", bytes, got, want)
		}
	}
}

func TestFormats(t *testing.T) {
	for got, want := range map[string]string{
		sig(0.0090494, 4): "0.009049", sig(1.0198, 4): "1.020", sig(0, 3): "0", sig(4.1e-7, 2): "4.1e-07", sig(math.Inf(-1), 3): "-Inf", sig(123456, 3): "123456",
		Share(0.0106): "1.06 %", Share(2e-6): "0.00020 %", Chance(0): "< 1e-300", Chance(4.13e-41): "4.1e-41", Chance(0.526): "0.526",
		size(-1): none, size(999): "999 B", size(2_210_000): "2.21 MB", size(12_345_678_901): "12.3 GB",
		thousands(37152): "37,152", thousands(1152): "1152", thousands(-1234567): "-1,234,567", counted(1, "tensor", "tensors"): "1 tensor",
		capital("flat: x"): "Flat: x", capital("×1.06"): "×1.06", capital(""): "",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The tables rank as the figures say: the worst first, and equal ones alike.
func TestWorstTable(t *testing.T) {
	st := fixture(4, 16, "nvfp4", "nvfp4+mse")
	st.Records[1][77].RelL2 = 3
	st.Records[0][5].RelL2 = 2
	r := build(t, st, Options{})
	w := r.worst()
	if len(w.Rows) != worstTensors || w.Rows[0].Cells[0].Text != st.Tensors[77].Name || w.Rows[0].Cells[5].Text != "1" || w.Rows[1].Cells[3].Text != "1" {
		t.Errorf("%d rows, %+v", len(w.Rows), w.Rows[:2])
	}
	if got := r.ranks(&r.Variants[0], []int{5})[5]; got != 1 {
		t.Errorf("rank %d", got)
	}
}

func TestLayersInOrder(t *testing.T) {
	var in []landscape.Level
	for _, n := range []string{"M13", "L10", "L2", "outside", "L1"} {
		in = append(in, landscape.Level{Name: n})
	}
	var got []string
	for _, l := range inOrder(in) {
		got = append(got, l.Name)
	}
	if strings.Join(got, " ") != "L1 L2 L10 M13 outside" || in[0].Name != "M13" {
		t.Errorf("%v", got)
	}
}
