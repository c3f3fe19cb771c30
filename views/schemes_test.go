package views

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/muesli/termenv"
	"pgregory.net/rapid"

	"quantscope/kernels"
	"quantscope/quant/method"
	"quantscope/views/viewstest"
)

// mixedSchemes are variants that have nothing in common but their tensors.
var mixedSchemes = []string{"nvfp4", "mxfp4", "fp8-channel", "int4-g128", "int4-g128-sym+range"}

func TestMixedSchemesGolden(t *testing.T) {
	state := viewstest.Big(2, 8, mixedSchemes...)
	for _, c := range []struct {
		name string
		pane func(*Scene) Pane
		w, h int
	}{
		{"tensor 120x36", NewTensor, 118, 31}, {"tensor 200x60", NewTensor, 198, 55},
		{"clipping 80x24", NewClipping, 78, 19}, {"clipping 120x36", NewClipping, 118, 31},
		{"detail 48x30", NewDetail, 48, 30}, {"worst 46x20", NewWorst, 46, 20}, {"compare 80x24", NewCompare, 78, 19},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sceneOf(t, state)
			s.SetVariant(4)
			s.SetBaseline(0)
			s.Detail = detailOf(s)
			p := c.pane(s)
			p.SetSize(c.w, c.h)
			checkSize(t, p.View(), c.w, c.h)
			checkGolden(t, p.Title()+"\n"+p.View())
		})
	}
}

// A figure that a format does not have is neither unknown nor not finite.
func TestGlobalScaleIsAbsentWhereThereIsNone(t *testing.T) {
	s := sceneOf(t, viewstest.Big(1, 2, "nvfp4", "mxfp4"))
	m, _ := MetricByName("global")
	s.SetMetric(m)
	for v, want := range []CellState{Measured, Absent} {
		if got := s.States(v)[0]; got != want {
			t.Errorf("variant %d: state %d, want %d", v, got, want)
		}
	}
	if v := s.Values(1)[0]; !math.IsNaN(v) || m.text(v) != "–" || m.figure(v) != "–" {
		t.Errorf("value %v, text %q, figure %q", v, m.text(v), m.figure(v))
	}
	s.SetVariant(1)
	p := NewWorst(s)
	p.SetSize(60, 10)
	if text := p.View(); !strings.Contains(text, "mxfp4 has no global scale") {
		t.Errorf("ranking: %s", text)
	}
	s.SetBaseline(0)
	c := newCompare(s)
	c.SetSize(78, 19)
	c.refresh()
	if got := c.pairs.states[0]; got != Absent {
		t.Errorf("compared with one that has it: state %d", got)
	}
	if text := c.View(); !strings.Contains(text, "B none") {
		t.Errorf("compared: %s", text)
	}
}

func TestClipSentenceOfMixedSchemes(t *testing.T) {
	figure := func(name, scheme string, deep, shallow int64) clipFigure {
		f, err := kernels.FormatByName(scheme)
		if err != nil {
			t.Fatal(err)
		}
		return clipFigure{name, f, clipSum{tensors: 1, blocks: 1000, deep: deep, shallow: shallow, mass: 1, deepMass: float64(deep) / 1e4}}
	}
	nv, mx, fp := figure("nvfp4", "nvfp4", 0, 500), figure("mxfp4", "mxfp4", 145, 80), figure("fp8", "fp8", 0, 0)
	for _, c := range []struct {
		shown  clipFigure
		others []clipFigure
		want   string
	}{
		{nv, []clipFigure{mx, fp}, "nvfp4 clips no block by more than 1/16 of its largest magnitude, and 50.0 % by less; mxfp4 14.5 % deeper; fp8 none deeper."},
		{mx, []clipFigure{nv}, "mxfp4 clips 14.5 % of blocks by more than 1/16 of their largest magnitude (1.5 % of the L2 mass); nvfp4 none."},
		{nv, nil, "nvfp4 clips no block deeper than the rounding of a scale can explain, and 50.0 % within it."},
	} {
		if got := clipSentence(c.shown, c.others, 1); got != c.want {
			t.Errorf("%q\nwant %q", got, c.want)
		}
	}
}

// What the screen says that scales clip is what quantizing clips: depths of
// records never exceed it, and come near it.
func TestScaleReasonsHoldForTheKernels(t *testing.T) {
	const cols = 128
	deepest := func(t *rapid.T, name, convention string, element kernels.Element) float64 {
		v, err := method.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		c, err := method.ParseConvention(convention)
		if err != nil {
			t.Fatal(err)
		}
		if v, err = v.WithConvention(c); err != nil {
			t.Fatal(err)
		}
		data := make([]byte, 0, 2*cols)
		for range cols {
			bits := kernels.F32ToBF16(float32(rapid.Float64Range(-1, 1).Draw(t, "w")))
			data = append(data, byte(bits), byte(bits>>8))
		}
		tap, err := v.Measure(kernels.Set{}, kernels.Matrix{Element: element, Rows: 1, Cols: cols, Data: data})
		if err != nil {
			t.Fatal(err)
		}
		for i := len(tap.Depth) - 1; i >= 0; i-- {
			if tap.Depth[i] > 0 {
				return float64(i) / kernels.DepthBins
			}
		}
		if tap.Shallow+tap.Deep > 0 {
			t.Fatal("clipped blocks without a depth")
		}
		return -1
	}
	rapid.Check(t, func(t *rapid.T) {
		if d := deepest(t, "mxfp4", "ct32", kernels.BF16); d > 1.0/7 {
			t.Errorf("mxfp4 clips from %v on, more than 1/7", d)
		}
		for _, none := range [][2]string{{"mxfp4", "modelopt"}, {"fp8", "modelopt"}, {"int4-g128", "own"}} {
			if d := deepest(t, none[0], none[1], kernels.BF16); d >= 0 {
				t.Errorf("%s by %s clips: from %v on", none[0], none[1], d)
			}
		}
		for _, little := range [][2]string{{"fp8-channel", "ct"}, {"int4-g128-sym", "ct"}} {
			if d := deepest(t, little[0], little[1], kernels.BF16); d > 0 {
				t.Errorf("%s by %s clips from %v on, more than 1/512", little[0], little[1], d)
			}
		}
	})
}

func TestScaleReasons(t *testing.T) {
	want := map[string]string{
		"nvfp4": "", "mxfp4": "1/7", "fp8": "f32 scale clips nothing", "fp8-block128": "f32 scale clips nothing",
		"int4-g128": "clips nothing", "int4-channel-sym+range": "1/512",
	}
	for name, part := range want {
		v := variantsOf(t, name)[0]
		if got := scaleReason(&v); !strings.Contains(got, part) || part == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, part)
		}
	}
	mx := variantsOf(t, "mxfp4")[0]
	mx.Convention = "modelopt"
	if got := scaleReason(&mx); !strings.Contains(got, "clip nothing") {
		t.Errorf("mxfp4 by modelopt: %q", got)
	}
}

// Every variant that can be had fits a column and stays apart from the others
// there.
func TestShortNamesStayApart(t *testing.T) {
	for _, w := range []int{16, 14} {
		seen := map[string]string{}
		for _, h := range method.Known() {
			short := shortenVariant(h.Name, w)
			if Width(short) > w || seen[short] != "" {
				t.Errorf("%d cells: %s is %q, and so is %q", w, h.Name, short, seen[short])
			}
			seen[short] = h.Name
		}
	}
	for name, want := range map[string]string{"nvfp4": "nvfp4", "fp8-channel": "fp8-chan", "fp8-block128": "fp8-b128", "int4-g128+range": "g128+rng"} {
		if got := shortenVariant(name, 8); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// As many variants as can be had are told apart by colour and mark together, and
// by the mark alone.
func TestVariantMarksAreManyAndDifferent(t *testing.T) {
	th := themeIn(t, "", termenv.Ascii)
	n := len(method.Known())
	var marks []string
	for id := range n {
		marks = append(marks, th.VariantMark(id))
		if Width(marks[id]) != 1 {
			t.Errorf("%q is %d cells", marks[id], Width(marks[id]))
		}
	}
	slices.Sort(marks)
	if got := len(slices.Compact(marks)); got != n && got != len(variantMarks) {
		t.Errorf("%d marks for %d variants", got, n)
	}
}

func TestVariantLegend(t *testing.T) {
	th := themeIn(t, "", termenv.Ascii)
	ids := []int{0, 1, 2, 3, 4}
	for w, want := range map[int]string{
		80: "nvfp4 ■  mxfp4 ▲  fp8-channel ●  int4-g128 ◆  int4-g128-sym+range ▼",
		66: "nvfp4 ■  mxfp4 ▲  fp8-channel ●  int4-g128 ◆  int4-g128-sym+rng ▼",
		40: "nvfp4 ■  mxfp4 ▲  fp8-chan ●  +2",
		5:  "nvfp…",
	} {
		if got := th.variantLegend(mixedSchemes, ids, w); got != want {
			t.Errorf("%d cells: %q, want %q", w, got, want)
		}
	}
	if got := th.variantLegend(nil, nil, 10); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

// The sizes of two variants are compared where they differ.
func TestCompareSaysTheSize(t *testing.T) {
	state := viewstest.Big(1, 4, "nvfp4", "fp8", "nvfp4+mse")
	s := sceneOf(t, state)
	for _, c := range []struct {
		b    int
		want string
	}{{1, "size +77.7 % (111 kB → 197 kB)"}, {2, ""}} {
		s.SetBaseline(0)
		s.SetVariant(c.b)
		for _, size := range [][2]int{{78, 19}, {118, 31}} {
			p := newCompare(s)
			p.SetSize(size[0], size[1])
			head, _, _ := strings.Cut(p.View(), "paired")
			if said := strings.Contains(head, "size"); said != (c.want != "") || !strings.Contains(head, c.want) {
				t.Errorf("%v at %v: %s", state.Variants[c.b].Name, size, head)
			}
		}
	}
}

// With all variants that can be had, each pane keeps the shown one in sight and
// what it draws below the tables.
func TestPanesHoldEveryVariant(t *testing.T) {
	var names []string
	for _, h := range method.Known() {
		names = append(names, h.Name)
	}
	state := viewstest.Big(1, 4, names...)
	s := sceneOf(t, state)
	clipping, worst, tensor := NewClipping(s), NewWorst(s), NewTensor(s)
	for v, name := range names {
		s.SetVariant(v)
		s.Detail = detailOf(s)
		for _, size := range [][2]int{{78, 19}, {118, 31}, {198, 55}} {
			clipping.SetSize(size[0], size[1])
			view := clipping.View()
			checkSize(t, view, size[0], size[1])
			if !strings.Contains(view, "▸  "+name+" "+s.Theme.VariantMark(v)) || !strings.Contains(view, "1/16: beyond is deep") {
				t.Fatalf("%s at %v: no row or no chart\n%s", name, size, view)
			}
			tensor.SetSize(size[0], size[1])
			checkSize(t, tensor.View(), size[0], size[1])
		}
		worst.SetSize(48, 30)
		_, below, _ := strings.Cut(worst.View(), "rel_l2 from")
		if short := shortVariants(state.Variants)[v]; !strings.Contains(below, short+" "+s.Theme.VariantMark(v)) {
			t.Errorf("%s has no distribution\n%s", name, worst.View())
		}
	}
}

// A sentence names a few other variants and counts more.
func TestClipSentenceCountsTheRest(t *testing.T) {
	of := func(name string, deep int64) clipFigure {
		return clipFigure{name: name, sum: clipSum{tensors: 1, blocks: 1000, deep: deep}}
	}
	some := []clipFigure{of("b", 10), of("c", 270), of("d", 30), of("e", 40), of("f", 50), of("g", 0), of("h", 0), of("i", 0), of("j", 0), of("k", 0)}
	want := "a clips no block deeper than the rounding of a scale can explain, and 0 % within it; 5 others up to 27.0 % deeper (c); 5 others none deeper."
	if got := clipSentence(of("a", 0), some, 1); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// Where bars of all variants have no room, the shown one has bars, and marks of
// others that stand on them have their colour behind them.
func TestMarksStandOnTheBarsOfTheShownVariant(t *testing.T) {
	th := themeIn(t, "", termenv.TrueColor)
	values := func(v float64) []float64 { return []float64{v, v, v, v, v, v, v, v} }
	hist := Histogram{Labels: make([]string, 8), Bins: []Series{{"a", 0, values(8)}, {"b", 1, values(3)}, {"c", 2, values(2)}, {"d", 3, values(1)}}}
	lines := strings.Split(markedHistogram(th, hist, chartLook{current: 0}, 7+8*3, 14), "\n")
	var marked string
	for _, line := range lines {
		if strings.Contains(line, th.VariantMark(1)) {
			marked = line
		}
	}
	bar := strings.TrimPrefix(th.variantInk(0), "38;")
	if n := strings.Count(marked, th.VariantMark(1)); n != 8 || strings.Count(marked, ";48;"+bar+"m"+th.VariantMark(1)) != n || !strings.Contains(marked, "█") {
		t.Errorf("%d marks in %q", n, marked)
	}
	for y, line := range lines {
		if strings.Contains(line, th.VariantMark(0)) {
			t.Errorf("line %d has a mark of the shown variant", y)
		}
	}
}
