package views

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/muesli/termenv"
	"pgregory.net/rapid"

	"quantscope/kernels"
	"quantscope/quant/method"
	"quantscope/quant/topology"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

func TestTensorGolden(t *testing.T) {
	for _, size := range paneSizes {
		t.Run(size.name, func(t *testing.T) {
			s := sceneOf(t, varied())
			s.Detail = detailOf(s)
			p := NewTensor(s)
			p.SetSize(size.w, size.h)
			checkSize(t, p.View(), size.w, size.h)
			checkGolden(t, p.Title()+"\n"+p.View())
		})
	}
	t.Run("80x24 pages", func(t *testing.T) {
		s := sceneOf(t, varied())
		s.Detail = detailOf(s)
		p := NewTensor(s)
		p.SetSize(80, 19)
		var b strings.Builder
		for range tensorParts {
			b.WriteString(p.Title() + "\n" + p.View() + "\n")
			hit(p, "right")
		}
		checkGolden(t, b.String())
	})
	t.Run("120x40 without checkpoint", func(t *testing.T) {
		s := sceneOf(t, viewstest.Partial())
		s.Detail = detailOf(s)
		s.Detail.Rows = nil
		s.Detail.RowErr = "checkpoint: /data/demo was here when the session was recorded: no such folder"
		p := NewTensor(s)
		p.SetSize(120, 35)
		view := p.View()
		hit(p, "right")
		checkGolden(t, view+"\n"+p.View())
	})
	t.Run("colour", func(t *testing.T) {
		s := sceneIn(t, varied(), termenv.TrueColor)
		s.Detail = detailOf(s)
		p := NewTensor(s)
		p.SetSize(120, 32)
		checkGolden(t, p.View())
	})
}

func TestScaleLabels(t *testing.T) {
	for _, c := range []struct {
		scheme string
		want   map[int]string
	}{
		// Half octaves of E4M3: bin b begins at code 4·b, code 8·e is 2^(e−7).
		{"nvfp4", map[int]string{0: "0", 1: "", 2: "1/64", 12: "1/2", 14: "1", 15: "", 16: "2", 30: "256"}},
		// Octaves from 2⁻²⁴ on; the first holds what is below, the last what is above.
		{"int4-g128", map[int]string{0: "0", 1: "2⁻²³", 13: "2⁻¹¹", 18: "1/64", 23: "1/2", 24: "1", 27: "8", 31: "≥128"}},
	} {
		f, err := kernels.FormatByName(c.scheme)
		if err != nil {
			t.Fatal(err)
		}
		for bin, want := range c.want {
			if got := scaleLabel(f, bin); got != want {
				t.Errorf("%s, bin %d: %q, want %q", c.scheme, bin, got, want)
			}
		}
	}
}

// variantsOf are variants of the given names with what the methods say of them.
func variantsOf(t *testing.T, names ...string) []sessions.Variant {
	t.Helper()
	out := make([]sessions.Variant, len(names))
	for i, name := range names {
		v, err := method.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = sessions.Variant{ID: i, Name: v.Name, Scheme: v.Scheme, BitsPerWeight: v.BitsPerWeight, Multipliers: v.Multipliers, Convention: v.Spec.Convention.String()}
	}
	return out
}

func tapsOf(tap *kernels.Tap, variants []sessions.Variant) []tapOf {
	var out []tapOf
	for i := range variants {
		out = append(out, tapOf{tap, &variants[i]})
	}
	return out
}

func seriesIDs(c tensorChart) (ids []int) {
	for _, s := range c.series {
		ids = append(ids, s.Variant)
	}
	return ids
}

// Charts whose axis depends on the format show the variants that share the
// current one's, and count the others.
func TestChartsKeepUnlikeFormatsApart(t *testing.T) {
	var tap kernels.Tap
	tap.Elements, tap.ScaleCount, tap.Blocks = 160, 20, 20
	for i := range tap.Codes {
		tap.Codes[i] = 10
	}
	tap.Scales[14], tap.Scales[15] = 5, 15
	tap.Multipliers[0], tap.Multipliers[3] = 15, 5
	tap.Errors[0] = 160
	variants := variantsOf(t, "nvfp4", "nvfp4+mse", "mxfp4", "fp8-channel", "int4-g128+range", "int4-g128-sym", "nvfp4+sweep")
	taps := tapsOf(&tap, variants)
	for _, c := range []struct {
		current                     int
		scales, codes, search       []int
		scaleAt                     string // the label of bin 14
		scaleTitle, codeTitle, find string
		first, last                 string // codes
	}{
		{0, []int{0, 1, 6}, []int{0, 1, 2, 6}, []int{1}, "1", "E4M3 block scales before the global one, % of blocks", "E2M1 codes by value, % of elements", "multiples of the largest", "−6", "6"},
		{2, []int{2, 3, 4, 5}, []int{0, 1, 2, 6}, []int{1}, "2⁻¹⁰", "scales by octave, % of scales", "E2M1 codes by value, % of elements", "multiples of the largest", "−6", "6"},
		{3, []int{2, 3, 4, 5}, []int{3}, []int{1}, "2⁻¹⁰", "scales by octave, % of scales", "E4M3 codes by value, from … on, % of elements", "multiples of the largest", "−128", "128"},
		{4, []int{2, 3, 4, 5}, []int{4, 5}, []int{4}, "2⁻¹⁰", "scales by octave, % of scales", "int4 codes by number, % of elements", "share of the range", "0", "15"},
		{6, []int{0, 1, 6}, []int{0, 1, 2, 6}, []int{6}, "1", "E4M3 block scales before the global one, % of blocks", "E2M1 codes by value, % of elements", "codes off the nearest", "−6", "6"},
	} {
		name := variants[c.current].Name
		scales, codes, search := scaleChart(taps, c.current), codeChart(taps, c.current), searchChart(taps, c.current)
		if !slices.Equal(seriesIDs(scales), c.scales) || scales.others != len(taps)-len(c.scales) || scales.title != c.scaleTitle {
			t.Errorf("%s: scales of %v, %d others, %q", name, seriesIDs(scales), scales.others, scales.title)
		}
		if at := slices.Index(scales.labels, c.scaleAt); at < 0 || scales.series[0].Values[at] != 25 || scales.series[0].Values[at+1] != 75 {
			t.Errorf("%s: bin 14 is not at %q: %v %v", name, c.scaleAt, scales.labels, scales.series[0].Values)
		}
		if !slices.Equal(seriesIDs(codes), c.codes) || codes.others != len(taps)-len(c.codes) || codes.title != c.codeTitle || codes.labels[0] != c.first || codes.labels[15] != c.last {
			t.Errorf("%s: codes of %v, %d others, %q, %v", name, seriesIDs(codes), codes.others, codes.title, codes.labels)
		}
		if !slices.Equal(seriesIDs(search), c.search) || search.others != 3-len(c.search) || !strings.Contains(search.title, c.find) {
			t.Errorf("%s: searches of %v, %d others, %q", name, seriesIDs(search), search.others, search.title)
		}
	}
	// Factors of a range stand in order of size, and the whole range is the last.
	if got := searchChart(taps, 4); got.labels[0] != "0.6" || got.labels[15] != "1.0" || got.series[0].Values[15] != 75 {
		t.Errorf("ranges %v %v", got.labels, got.series[0].Values)
	}
	// Symmetric integers have a value alone, a number beside asymmetric ones.
	if got := codeChart(taps[5:6], 5); got.labels[0] != "−8" || got.labels[15] != "7" || got.title != "int4 codes by value in scales, % of elements" {
		t.Errorf("symmetric: %q %v", got.title, got.labels)
	}
	for _, c := range []struct {
		taps []tapOf
		want string
	}{
		{taps[:3], "|error| in scales, % of elements"},
		{taps[3:4], "|error| in 32 scales, the widest step, % of elements"},
		{taps, "|error| in scales (fp8: in 32), % of elements"},
	} {
		if got := errorChart(c.taps); got.title != c.want || len(got.series) != len(c.taps) {
			t.Errorf("%q of %d, want %q", got.title, len(got.series), c.want)
		}
	}
}

// A bin of E4M3 codes is named by the least magnitude in it.
func TestFP8BinsBeginWhereTheySay(t *testing.T) {
	for nibble, want := range fp8Values {
		v := float64(kernels.E4M3ToF32(byte(nibble << 4)))
		if got := powerLabel(v); got != want {
			t.Errorf("codes from %#x on: %q, want %q", nibble<<4, want, got)
		}
	}
}

func TestCodesStandByValue(t *testing.T) {
	var tap kernels.Tap
	tap.Elements = 16
	for i := range tap.Codes {
		tap.Codes[i] = int64(i)
	}
	fp4 := &sessions.Variant{Scheme: "nvfp4"}
	c := codeChart([]tapOf{{&tap, fp4}}, 0)
	want := []string{"−6", "−4", "−3", "−2", "−1.5", "−1", "−.5", "−0", "0", ".5", "1", "1.5", "2", "3", "4", "6"}
	if d := cmp.Diff(want, c.labels); d != "" {
		t.Error(d)
	}
	// Code 15 is −6, code 8 is −0, code 7 is 6.
	for at, code := range map[int]float64{0: 15, 7: 8, 8: 0, 15: 7} {
		if got := c.series[0].Values[at]; got != 100*code/16 {
			t.Errorf("%s: %v, want code %v", c.labels[at], got, code)
		}
	}
	c = codeChart([]tapOf{{&tap, fp4}, {&tap, &sessions.Variant{ID: 1, Scheme: "int4-g128"}}}, 1)
	if c.labels[15] != "15" || c.series[0].Values[15] != 100*15.0/16 || c.series[0].Variant != 1 {
		t.Errorf("mixed schemes: %v", c.labels)
	}
}

func TestMultipliersShareAnAxis(t *testing.T) {
	var tap kernels.Tap
	tap.Multipliers = [kernels.MultBins]int64{1, 3}
	c := searchChart([]tapOf{
		{&tap, &sessions.Variant{ID: 0, Multipliers: []string{"1.0", "1.1"}}},
		{&tap, &sessions.Variant{ID: 1, Multipliers: []string{"0.9", "1.0"}}},
		{&tap, &sessions.Variant{ID: 2}},
	}, 0)
	if d := cmp.Diff([]string{"0.9", "1.0", "1.1"}, c.labels); d != "" {
		t.Error(d)
	}
	if len(c.series) != 2 || !slices.Equal(c.series[0].Values, []float64{0, 25, 75}) || !slices.Equal(c.series[1].Values, []float64{25, 75, 0}) {
		t.Errorf("series %+v", c.series)
	}
	// One multiplier is no choice.
	none := &sessions.Variant{ID: 2, Multipliers: []string{"1.0"}}
	for _, v := range []*sessions.Variant{{}, none} {
		if c := searchChart([]tapOf{{&tap, v}}, 0); c.note != "no variant searches" || c.series != nil {
			t.Errorf("multipliers %q: note %q, series %v", v.Multipliers, c.note, c.series)
		}
	}
	c = searchChart([]tapOf{{&tap, none}, {&tap, &sessions.Variant{ID: 1, Multipliers: []string{"1.1", "1.2"}}}}, 2)
	if len(c.series) != 1 || c.series[0].Variant != 1 || !slices.Equal(c.labels, []string{"1.1", "1.2"}) {
		t.Errorf("beside a search: labels %q, series %+v", c.labels, c.series)
	}
}

// Each variant that stands in the table of a tensor has its steps, heads stand
// over the right edges of their numbers, and variants without room are counted.
func TestTensorTable(t *testing.T) {
	state := viewstest.Empty(viewstest.Experts(0, 1, 0, 4), "nvfp4", "nvfp4+mse", "nvfp4+mse_ge1", "nvfp4+sweep", "int4-g128")
	for v := range state.Variants {
		viewstest.Measure(state, v, 0)
	}
	for _, c := range []struct{ variants, w, hidden int }{{3, 78, 0}, {3, 58, 0}, {3, 65, 0}, {5, 58, 2}, {5, 78, 1}, {5, 110, 0}, {2, 40, 0}} {
		s := sceneOf(t, state)
		some := *state
		some.Variants, some.Records = state.Variants[:c.variants], state.Records[:c.variants]
		s.State, s.Cursor, s.Baseline, s.Variant = &some, 0, 0, 1
		lines := strings.Split(tensorTable(s, 0, c.w, 14), "\n")
		head := []rune(lines[0])
		shown, steps := 0, strings.Count(lines[0], "change")
		for v := range some.Variants {
			shown += strings.Count(lines[0], s.Theme.VariantMark(v))
		}
		if shown != c.variants-c.hidden || steps != shown-1 || strings.Contains(lines[0], "not shown") != (c.hidden > 0) {
			t.Errorf("%d variants in %d cells: %d shown with %d steps, want %d hidden\n%s", c.variants, c.w, shown, steps, c.hidden, strings.Join(lines, "\n"))
		}
		if text := notShown(c.hidden); c.hidden > 0 && !strings.HasPrefix(lines[0], text) {
			t.Errorf("%q is not said: %q", text, lines[0])
		}
		var edges []int
		for x := range head {
			if slices.Contains(variantMarks, string(head[x])) || head[x] == 'e' && head[x-1] == 'g' && head[x+1] == ' ' {
				edges = append(edges, x)
			}
		}
		for _, line := range lines[1:12] { // rel_l2 to the global scale
			r := []rune(line)
			for _, x := range edges {
				if r[x] == ' ' || x+1 < len(r) && r[x+1] != ' ' {
					t.Errorf("%d variants in %d cells: no number ends at column %d\n%s\n%s", c.variants, c.w, x, lines[0], line)
				}
			}
		}
	}
}

func TestRoleText(t *testing.T) {
	for want, role := range map[string]topology.Role{
		"layer 3 · routed expert 7 · up":         {Kind: topology.Expert, Layer: 3, Expert: 7, Projection: "up"},
		"layer 5 (MTP) · routed expert 0 · down": {Kind: topology.Expert, Layer: 5, Expert: 0, Projection: "down", MTP: true},
		"head":                    {Kind: topology.Head, Layer: -1, Expert: -1},
		"layer 0 · attention · q": {Kind: topology.Attention, Expert: -1, Projection: "q"},
		"layer 0 · unknown":       {Kind: 99, Expert: -1},
	} {
		if got := roleText(&role); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTensorSaysWhyThereIsNothing(t *testing.T) {
	s := sceneOf(t, viewstest.Partial())
	p := newTensor(s)
	p.SetSize(120, 35)
	for _, c := range []struct {
		name   string
		cursor int
		detail *Detail
		want   string
	}{
		{"on its way", 100, nil, "reading the tap record …"},
		{"of another tensor", 100, &Detail{Tensor: 3}, "reading the tap record …"},
		{"broken", 100, &Detail{Tensor: 100, Errs: []string{"", "session.qscope: event 7: not a tap"}}, "session.qscope: event 7: not a tap"},
		{"failed", 20, &Detail{Tensor: 20}, "failed"},
	} {
		s.Cursor, s.Detail = c.cursor, c.detail
		s.Touch()
		if view := p.View(); !strings.Contains(view, c.want) {
			t.Errorf("%s: %q is not on the screen\n%s", c.name, c.want, view)
		}
	}
	s.State.Records[0][239] = sessions.Record{}
	s.Cursor, s.Detail = 239, nil
	s.Touch()
	if view := p.View(); !strings.Contains(view, "not measured yet") {
		t.Errorf("not measured: %s", view)
	}
}

func TestArrangeTensor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(-1, 300).Draw(t, "w"), rapid.IntRange(-1, 120).Draw(t, "h")
		g := arrangeTensor(w, h)
		if g.cols < 1 || g.rows < 1 || g.pages < 1 || g.pages*g.cols*g.rows < tensorParts || (g.pages-1)*g.cols*g.rows >= tensorParts {
			t.Fatalf("%d×%d: %+v", w, h, g)
		}
		if g.cellW < 0 || g.cellH < 0 || g.cols*(g.cellW+tensorGapX)-tensorGapX > max(w, 0) && g.cellW > 0 || g.top+g.rows*(g.cellH+tensorGapY)-tensorGapY > max(h, 0) && g.cellH > 0 {
			t.Fatalf("%d×%d: parts stick out: %+v", w, h, g)
		}
	})
}

func TestTensorPages(t *testing.T) {
	s := sceneOf(t, varied())
	s.Detail = detailOf(s)
	p := newTensor(s)
	p.SetSize(80, 19)
	seen := map[string]bool{}
	for range 7 {
		seen[p.View()] = true
		hit(p, "right")
	}
	if len(seen) != 7 || p.page != 0 {
		t.Errorf("%d different pages, then page %d", len(seen), p.page)
	}
	if hit(p, "left"); p.page != 6 {
		t.Errorf("page %d before the first", p.page)
	}
	if p.SetSize(200, 55); hit(p, "right") || p.page != 0 {
		t.Errorf("page %d where everything fits", p.page)
	}
}

func TestTensorKeysMoveTheCursor(t *testing.T) {
	s := sceneOf(t, varied())
	p := newTensor(s)
	p.SetSize(120, 35)
	at := func() string { return ShortName(&s.State.Tensors[s.Cursor]) }
	for _, step := range []struct{ key, want string }{{"n", "L3 e1 down"}, {"N", "L3 e1 up"}, {"down", "L4 e1 up"}, {"up", "L3 e1 up"}} {
		if !hit(p, step.key) || at() != step.want {
			t.Errorf("after %s: %s, want %s", step.key, at(), step.want)
		}
	}
}

func TestTensorRedraws(t *testing.T) {
	state := firstDone(varied(), 100)
	s := sceneOf(t, state)
	s.Cursor = 99
	s.Detail = detailOf(s)
	p := newTensor(s)
	p.SetSize(120, 35)
	late := varied()
	other := detailOf(s)
	other.Taps[0] = nil
	th, err := NewTheme("", termenv.TrueColor, true)
	if err != nil {
		t.Fatal(err)
	}
	apply := func(b sessions.Batch) { state.Apply(b); p.Apply(b) }
	for _, c := range []struct {
		name   string
		do     func()
		redraw bool
	}{
		{"another tensor's record", func() { apply(sessions.Batch{Records: late.Records[1][120:121]}) }, false},
		{"its record", func() {
			r := late.Records[1][99]
			r.Seq, r.RelL2 = math.MaxInt64, 0.5
			apply(sessions.Batch{Records: []sessions.Record{r}})
		}, true},
		{"detail", func() { s.Detail = other }, true},
		{"l", func() { hit(p, "l") }, true},
		{"page", func() { hit(p, "right") }, true},
		{"cursor", func() { s.SetCursor(5) }, true},
		{"theme", func() { s.Theme = th }, true},
		{"size", func() { p.SetSize(70, 18) }, true},
		{"reset", func() { apply(sessions.Batch{Reset: viewstest.Empty(viewstest.Experts(0, 1, 0, 4), "nvfp4")}) }, true},
	} {
		before := p.View()
		c.do()
		if redrawn := p.View() != before; redrawn != c.redraw {
			t.Errorf("%s: redrawn %v", c.name, redrawn)
		}
	}
}

func TestTensorFitsAnySize(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := randomScene(rt, t)
		if c := s.Cursor; c >= 0 && c < len(s.State.Tensors) && rapid.Bool().Draw(rt, "detail") {
			s.Detail = detailOf(s)
			for _, rows := range s.Detail.Rows {
				rows[rapid.IntRange(0, len(rows)-1).Draw(rt, "row")] = rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), 0, -1, math.MaxFloat64}).Draw(rt, "value")
			}
			if rapid.Bool().Draw(rt, "rows missing") {
				s.Detail.Rows, s.Detail.RowErr = nil, rapid.String().Draw(rt, "reason")
			}
		}
		exercise(rt, s, NewTensor(s))
	})
}
