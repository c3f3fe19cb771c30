package views

import (
	"slices"
	"strings"
	"testing"

	"github.com/muesli/termenv"

	"quantscope/kernels"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

func TestDetailWithoutHistograms(t *testing.T) {
	sc := sceneFor(t, viewstest.Demo(), termenv.Ascii)
	sc.Cursor = 5
	p := NewDetail(sc)
	p.SetSize(60, 40)
	if !strings.Contains(p.View(), "histograms …") {
		t.Error("nothing says that histograms are on their way")
	}
	sc.Detail = &Detail{Tensor: 5, Taps: make([]*kernels.Tap, 3), Errs: []string{"session file: disk gone\x07", "", ""}}
	if got := p.View(); !strings.Contains(got, "nvfp4: session file: disk gone␇") {
		t.Errorf("nothing says why there are none:\n%s", got)
	}
	sc.Detail = &Detail{Tensor: 6} // of the tensor before
	if !strings.Contains(p.View(), "histograms …") {
		t.Error("the histograms of another tensor are shown")
	}
	sc.SetCursor(5)
	sc.Cursor = -1
	sc.Touch()
	if got := strings.TrimSpace(p.View()); got != "no tensor under the cursor" {
		t.Errorf("%q", got)
	}
}

func TestCodesAreOrderedByValue(t *testing.T) {
	tap := &kernels.Tap{}
	for i := range tap.Codes {
		tap.Codes[i] = int64(i + 1)
	}
	if got, want := codeBins(tap, &sessions.Variant{Scheme: "nvfp4"}), []float64{16, 15, 14, 13, 12, 11, 10, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := codeBins(tap, &sessions.Variant{Scheme: "int4-g128"}); got[0] != 1 || len(got) != 16 {
		t.Errorf("%v", got)
	}
}

// Two searches with different candidates are drawn over one axis.
func TestSparklinesOfSearchesShareAnAxis(t *testing.T) {
	names := unite(unite(nil, []string{"1.0", "1.1", "1.2"}), []string{"0.7", "1.0", "1.1", "1.5"})
	if want := []string{"0.7", "1.0", "1.1", "1.2", "1.5"}; !slices.Equal(names, want) {
		t.Fatalf("%v, want %v", names, want)
	}
	if got, want := spreadOver(names, []string{"1.0", "1.1", "1.2"}, []float64{5, 6, 7}), []float64{0, 5, 6, 7, 0}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := unite([]string{"b"}, []string{"a", "b", "1"}), []string{"b", "a", "1"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	s := viewstest.Demo()
	s.Variants[0].Multipliers = []string{"1.0"} // no search at all
	s.Variants[2].Multipliers = []string{"1.0", "1.1", "1.2", "1.3", "1.4", "1.5"}
	sc := sceneFor(t, s, termenv.Ascii)
	sc.Cursor = 5
	p := NewDetail(withDetail(sc))
	for v, tap := range sc.Detail.Taps {
		clear(tap.Multipliers[:])
		tap.Multipliers[0], tap.Multipliers[1] = 100, int64(v)
	}
	p.SetSize(64, 50)
	got := p.View()
	// Of nine candidates from 0.7, 1.0 is the fourth; a candidate is four cells.
	for _, want := range []string{"multipliers ▲ ▇▇▇▇▁▁▁▁" + strings.Repeat(" ", 30) + "0.7 … 1.5", "            ● " + strings.Repeat(" ", 12) + "▇▇▇▇▁▁▁▁"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

// One quantity has one name, one unit and one number on both screens that list
// them.
func TestQuantitiesAreNamedOnce(t *testing.T) {
	s := sceneOf(t, varied())
	s.Variant = 1
	s.Detail = detailOf(s)
	d := NewDetail(s)
	d.SetSize(60, 50)
	row := func(view, label string) []string {
		for _, line := range strings.Split(view, "\n") {
			if rest, ok := strings.CutPrefix(line, label+" "); ok {
				return strings.Fields(rest)
			}
		}
		return nil
	}
	table := tensorTable(s, s.Cursor, 100, 14)
	for _, label := range []string{"rel_l2", "cos", "SQNR dB", "max error", "deep %", "shallow %", "clamped %", "amax", "global scale"} {
		one, other := row(d.View(), label), row(table, label)
		if len(one) < 3 || len(other) < 2 || one[0] != other[0] || one[1] != other[1] {
			t.Errorf("%s: %q beside the map, %q on the tensor's screen", label, one, other)
		}
	}
	for _, m := range recordMetrics() {
		if row(table, m.label()) == nil {
			t.Errorf("%s is not in the table", m.label())
		}
	}
}

// Variants without room are counted, never dropped in silence.
func TestDetailCountsHiddenVariants(t *testing.T) {
	state := viewstest.Empty(viewstest.Experts(0, 1, 0, 4), "nvfp4", "nvfp4+mse", "nvfp4+mse_ge1", "nvfp4+sweep", "int4-g128")
	for v := range state.Variants {
		viewstest.Measure(state, v, 0)
	}
	s := sceneFor(t, state, termenv.Ascii)
	s.Cursor, s.Variant, s.Baseline = 0, 4, 1
	for _, c := range []struct{ w, h, hidden int }{{50, 32, 2}, {70, 32, 0}, {30, 32, 4}, {78, 2, 2}, {150, 2, 0}, {40, 2, 4}} {
		d := NewDetail(s)
		d.SetSize(c.w, c.h)
		if said := strings.Contains(d.View(), "not shown"); said != (c.hidden > 0) || said && !strings.Contains(d.View(), notShown(c.hidden)) {
			t.Errorf("%d×%d: want %q\n%s", c.w, c.h, notShown(c.hidden), d.View())
		}
	}
}

// A tensor that is filtered out has no rank among those that are shown.
func TestDetailFilteredOut(t *testing.T) {
	for _, size := range [][2]int{{100, 3}, {60, 30}} {
		s := sceneFor(t, viewstest.Demo(), termenv.Ascii)
		s.Cursor = 5
		d := NewDetail(s)
		d.SetSize(size[0], size[1])
		f, err := NewFilter("^no such tensor", s.State.Tensors)
		if err != nil {
			t.Fatal(err)
		}
		s.SetFilter(f)
		if text := d.View(); !strings.Contains(text, "filtered") || strings.Contains(text, "/0") {
			t.Errorf("%v: %s", size, text)
		}
		s.SetFilter(Filter{})
		s.SetProjection("none")
		if text := d.View(); !strings.Contains(text, "hidden") || strings.Contains(text, "/0") {
			t.Errorf("%v: %s", size, text)
		}
	}
}
