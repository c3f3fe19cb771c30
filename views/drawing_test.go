package views

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/exp/golden"
	"github.com/google/go-cmp/cmp"
	"github.com/muesli/termenv"
	"pgregory.net/rapid"
)

func TestSparkline(t *testing.T) {
	for _, c := range []struct {
		bins []float64
		w    int
		want string
	}{
		{[]float64{0, 1, 2, 4, 8}, 5, " ▂▃▅█"},
		{[]float64{0, 1, 2, 4, 8}, 10, "  ▂▂▃▃▅▅██"},
		{[]float64{1, 1, 0, 0, 4, 4}, 3, "▃ █"},
		{[]float64{math.NaN(), -3, math.Inf(1), 1}, 4, "   █"},
		{[]float64{1e-9, 1}, 2, "▁█"}, // something is there
		{nil, 3, "   "},
		{[]float64{0, 0}, 2, "  "},
		{[]float64{1}, 0, ""},
	} {
		if got := Sparkline(c.bins, c.w); got != c.want {
			t.Errorf("Sparkline(%v, %d) = %q, want %q", c.bins, c.w, got, c.want)
		}
	}
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		frac float64
		w    int
		want string
	}{
		{0, 4, "    "}, {0.5, 4, "██  "}, {1, 4, "████"}, {7, 4, "████"}, {-1, 2, "  "},
		{9.0 / 32, 4, "█▏  "}, {31.0 / 32, 4, "███▉"}, {math.NaN(), 2, "  "}, {math.Inf(1), 2, "██"}, {0.5, 0, ""},
	} {
		if got := Bar(c.frac, c.w); got != c.want {
			t.Errorf("Bar(%v, %d) = %q, want %q", c.frac, c.w, got, c.want)
		}
	}
}

func TestCompact(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", 12.34: "12.3", 0.09512: "0.0951", 999.4: "999", 999.6: "1k", 1234: "1.23k", 37152: "37.2k",
		4.56e6: "4.56M", 2.5e9: "2.5G", 3e12: "3T", 1.5e-7: "1.5e−07", -0.25: "−0.25", 9.999: "10", 100: "100", 1e18: "1.0e+18",
		math.Inf(1): "+Inf", math.Inf(-1): "−Inf",
	} {
		if got := compact(v); got != want {
			t.Errorf("compact(%v) = %q, want %q", v, got, want)
		}
	}
	if got := compact(math.NaN()); got != "NaN" {
		t.Errorf("compact(NaN) = %q", got)
	}
}

func TestAlignDecimal(t *testing.T) {
	got := AlignDecimal([]string{"0.0951", "12.3", "7", "·", "1.2e-05", "−3"})
	want := []string{" 0.0951 ", "12.3    ", " 7      ", " ·      ", " 1.2e-05", "−3      "}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: %q, want %q", i, got[i], want[i])
		}
	}
}

func TestRangeTicks(t *testing.T) {
	var got []string
	for _, k := range rangeTicks(0.0938, 0.0967, 49) {
		got = append(got, fmt.Sprint(k.at, " ", k.label))
	}
	if d := cmp.Diff([]string{"3 0.094", "20 0.095", "36 0.096"}, got); d != "" {
		t.Error(d)
	}
	for _, c := range [][2]float64{{0, 0}, {1, 0}, {math.NaN(), 1}, {0, math.Inf(1)}, {-math.MaxFloat64, math.MaxFloat64}} {
		if got := rangeTicks(c[0], c[1], 40); got != nil {
			t.Errorf("ticks from %v to %v: %v", c[0], c[1], got)
		}
	}
}

func bellSeries(name string, variant, n int, centre float64) Series {
	s := Series{Name: name, Variant: variant}
	for i := range n {
		d := (float64(i) - centre) / float64(n) * 6
		s.Values = append(s.Values, math.Round(1000*math.Exp(-d*d/2)))
	}
	return s
}

func demoHistogram(n, variants int) Histogram {
	h := Histogram{Lo: 0, Hi: 1, XLabel: "clip depth", YLabel: "blocks"}
	for v := range variants {
		h.Bins = append(h.Bins, bellSeries([]string{"nvfp4", "nvfp4+mse", "nvfp4+mse_ge1"}[v], v, n, float64(n)/3+float64(v)*3))
	}
	return h
}

func TestHistogramGolden(t *testing.T) {
	th := themeIn(t, "", termenv.Ascii)
	labelled := demoHistogram(16, 1)
	labelled.Labels = strings.Fields("-6 -4 -3 -2 -1.5 -1 -.5 -0 0 .5 1 1.5 2 3 4 6")
	logarithmic := demoHistogram(20, 3)
	logarithmic.Log = true
	for _, c := range []struct {
		name string
		h    Histogram
		w, n int
	}{
		{"one-60x12", demoHistogram(20, 1), 60, 12},
		{"three-100x16", demoHistogram(20, 3), 100, 16},
		{"three-narrow-40x12", demoHistogram(20, 3), 40, 12},
		{"rebinned-30x8", demoHistogram(64, 1), 30, 8},
		{"labels-80x10", labelled, 80, 10},
		{"log-100x16", logarithmic, 100, 16},
		{"tiny-20x3", demoHistogram(20, 2), 20, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.h.Render(th, c.w, c.n)
			checkExact(t, got, c.w, c.n)
			golden.RequireEqual(t, []byte(got))
		})
	}
}

func TestScatterGolden(t *testing.T) {
	th := themeIn(t, "", termenv.Ascii)
	s := Scatter{XLabel: "nvfp4", YLabel: "nvfp4+mse", Diagonal: true, Mark: 30}
	for i := range 200 {
		x := 0.094 + 0.003*math.Abs(math.Sin(float64(i)*1.7))
		s.X, s.Y = append(s.X, x), append(s.Y, x*0.985+0.0003*math.Sin(float64(i)*9.1))
	}
	s.X[3], s.Y[4] = math.NaN(), math.Inf(1)
	for _, size := range [][2]int{{60, 16}, {30, 8}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			got := s.Render(th, size[0], size[1])
			checkExact(t, got, size[0], size[1])
			golden.RequireEqual(t, []byte(got))
		})
	}
}

func TestLineChartGolden(t *testing.T) {
	series := []Series{bellSeries("nvfp4", 0, 50, 15), bellSeries("nvfp4+mse", 1, 50, 25), bellSeries("nvfp4+mse_ge1", 2, 50, 35)}
	series[0].Values[20] = math.NaN()
	got := LineChart(themeIn(t, "", termenv.Ascii), series, 80, 16, "mean rel_l2 by layer")
	checkExact(t, got, 80, 16)
	if strings.Contains(got, "\x1b") {
		t.Error("escape sequences without colours")
	}
	golden.RequireEqual(t, []byte(got))
}

// The chart library's own colours never reach the screen: each series has the
// colour that the variant has everywhere.
func TestLineChartColours(t *testing.T) {
	for label, p := range profiles {
		th := themeIn(t, "", p)
		got := LineChart(th, []Series{bellSeries("a", 2, 30, 9), bellSeries("b", 0, 30, 20)}, 60, 10, "")
		for _, v := range []int{0, 2} {
			if ink := th.variantInk(v); ink != "" && !strings.Contains(got, ink) {
				t.Errorf("%s: the colour of variant %d is missing", label, v)
			}
		}
		for _, foreign := range []string{"38;5;16m", "38;5;17m"} {
			if strings.Contains(got, foreign) {
				t.Errorf("%s: a colour of the library is left", label)
			}
		}
	}
}

func TestDrawingsFitAnySize(t *testing.T) {
	themes := []*Theme{themeIn(t, "", termenv.TrueColor), themeIn(t, "gray", termenv.ANSI), themeIn(t, "magma", termenv.Ascii)}
	odd := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.MaxFloat64, 5e-324}))
	rapid.Check(t, func(t *rapid.T) {
		th := themes[rapid.IntRange(0, len(themes)-1).Draw(t, "theme")]
		w, h := rapid.IntRange(-1, 130).Draw(t, "w"), rapid.IntRange(-1, 40).Draw(t, "h")
		var series []Series
		for i := range rapid.IntRange(0, 5).Draw(t, "variants") {
			series = append(series, Series{anyText().Draw(t, "name"), i * 3, rapid.SliceOfN(odd, 0, 60).Draw(t, "values")})
		}
		hist := Histogram{
			Bins: series, Lo: odd.Draw(t, "lo"), Hi: odd.Draw(t, "hi"), XLabel: anyText().Draw(t, "x"), YLabel: anyText().Draw(t, "y"),
			Log: rapid.Bool().Draw(t, "log"),
		}
		if rapid.Bool().Draw(t, "labelled") {
			hist.Labels = rapid.SliceOfN(rapid.SampledFrom([]string{"", "1", "-0.5", "模", "1.25e-3"}), 0, 60).Draw(t, "labels")
		}
		checkExact(t, hist.Render(th, w, h), w, h)
		checkExact(t, LineChart(th, series, w, h, ansi.Strip(anyText().Draw(t, "caption"))), w, h)
		s := Scatter{
			X: rapid.SliceOfN(odd, 0, 30).Draw(t, "xs"), Y: rapid.SliceOfN(odd, 0, 30).Draw(t, "ys"), Diagonal: rapid.Bool().Draw(t, "diagonal"),
			Mark: rapid.IntRange(-1, 31).Draw(t, "mark"), XLabel: "a", YLabel: "b",
		}
		checkExact(t, s.Render(th, w, h), w, h)
		for _, v := range series {
			if n := Width(Sparkline(v.Values, w)); n != max(w, 0) {
				t.Fatalf("a sparkline of %d cells is %d", w, n)
			}
		}
		if n := Width(Bar(odd.Draw(t, "frac"), w)); n != max(w, 0) {
			t.Fatalf("a bar of %d cells is %d", w, n)
		}
	})
}

func demoTable() Table {
	return Table{
		Columns: []Column{
			{Title: "#", Align: Right},
			{Title: "tensor", Align: Middle, Min: 8, Flex: 1},
			{Title: "rel_l2", Align: Right},
			{Title: "cos", Align: Right, Drop: 1},
		},
		Rows: [][]string{
			{"1", "layers.3.mlp.experts.7.up_proj", "0.0967", "0.99548"},
			{"2", "模型.层.0.注意力.权重", "0.0966", "0.99549"},
			{"10", "layers.1.mlp.experts.9.gate_proj", "0.0965", "0.99550"},
		},
		Cursor: 1,
	}
}

func TestTableGolden(t *testing.T) {
	th := themeIn(t, "", termenv.Ascii)
	var b strings.Builder
	for _, w := range []int{70, 40, 24, 10} {
		got := demoTable().Render(th, w, 5)
		checkExact(t, got, w, 5)
		fmt.Fprintf(&b, "%d\n%s\n", w, got)
	}
	golden.RequireEqual(t, []byte(b.String()))
}

func TestTableScrolls(t *testing.T) {
	tb := demoTable()
	tb.Offset, tb.NoHeader, tb.Cursor = 2, true, -1
	if got := tb.Render(themeIn(t, "", termenv.Ascii), 30, 2); !strings.HasPrefix(got, "10") || strings.Contains(got, "tensor") {
		t.Errorf("%q", got)
	}
}

func TestTablesFitAnySize(t *testing.T) {
	th := themeIn(t, "", termenv.TrueColor)
	rapid.Check(t, func(t *rapid.T) {
		tb := Table{Cursor: rapid.IntRange(-1, 6).Draw(t, "cursor"), Offset: rapid.IntRange(-1, 7).Draw(t, "offset"), NoHeader: rapid.Bool().Draw(t, "bare")}
		for range rapid.IntRange(0, 6).Draw(t, "columns") {
			tb.Columns = append(tb.Columns, Column{
				Title: anyText().Draw(t, "title"), Align: Align(rapid.IntRange(0, 2).Draw(t, "align")), Width: rapid.IntRange(0, 30).Draw(t, "width"),
				Min: rapid.IntRange(0, 30).Draw(t, "min"), Flex: rapid.IntRange(0, 2).Draw(t, "flex"), Drop: rapid.IntRange(0, 3).Draw(t, "drop"),
			})
		}
		for range rapid.IntRange(0, 6).Draw(t, "rows") {
			tb.Rows = append(tb.Rows, rapid.SliceOfN(anyText(), 0, 7).Draw(t, "row"))
		}
		w, h := rapid.IntRange(-1, 120).Draw(t, "w"), rapid.IntRange(-1, 10).Draw(t, "h")
		checkExact(t, tb.Render(th, w, h), w, h)
	})
}

// A table that is asked to says how many of its rows it has no room for; shown and
// counted rows are all of them.
func TestTableCountsHiddenRows(t *testing.T) {
	th := themeIn(t, "", termenv.Ascii)
	rows := make([][]string, 43)
	for i := range rows {
		rows[i] = []string{fmt.Sprintf("L%d", i)}
	}
	for _, left := range []int{0, 7} {
		for h := 2; h < 60; h++ {
			tb := Table{Columns: []Column{{Title: "where"}}, Rows: rows, Cursor: -1, More: true, Left: left}
			got := tb.Render(th, 20, h)
			checkExact(t, got, 20, h)
			shown := strings.Count(got, "L")
			if all := len(rows) + left; shown < all {
				if want := fmt.Sprintf("… %d more", all-shown); !strings.Contains(got, want) {
					t.Errorf("%d lines, %d rows elsewhere: %d shown, and no %q", h, left, shown, want)
				}
			} else if strings.Contains(got, "more") {
				t.Errorf("%d lines: nothing is hidden\n%s", h, got)
			}
		}
	}
}
