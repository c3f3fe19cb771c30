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
