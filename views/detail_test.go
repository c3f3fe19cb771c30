package views

import (
	"slices"
	"strings"
	"testing"

	"github.com/muesli/termenv"

	"quantscope/kernels"
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
	if got, want := codeBins(tap, "nvfp4"), []float64{16, 15, 14, 13, 12, 11, 10, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := codeBins(tap, "int4-g128"); got[0] != 1 || len(got) != 16 {
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
