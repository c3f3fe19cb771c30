package views

import (
	"regexp"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"

	"quantscope/views/viewstest"
)

// What stands on the map is explained before what does not.
func TestLegendExplainsWhatOccurs(t *testing.T) {
	words := []string{"not yet", "deep clips", "not finite", "failed", "filtered"}
	for _, profile := range []termenv.Profile{termenv.TrueColor, termenv.Ascii} {
		for _, w := range []int{68, 78, 118} {
			s := sceneFor(t, viewstest.Demo(), profile)
			m := NewMap(s)
			m.SetSize(w, 30)
			legend := func() string {
				for _, line := range strings.Split(ansi.Strip(m.View()), "\n") {
					for _, word := range words {
						if strings.Contains(line, word) {
							return line
						}
					}
				}
				return ""
			}
			f, err := NewFilter("up_proj", s.State.Tensors)
			if err != nil {
				t.Fatal(err)
			}
			s.SetProjection("gate")
			s.SetFilter(f)
			if got := legend(); !strings.Contains(got, "- filtered") {
				t.Errorf("%d cells: all is filtered, legend %q", w, got)
			}
			s.SetProjection("")
			if f, err = NewFilter(`experts\.[0-7]\.`, s.State.Tensors); err != nil {
				t.Fatal(err)
			}
			s.SetFilter(f)
			s.SetVariant(1) // clips deeply
			got := legend()
			if a, b := strings.Index(got, "deep clips"), strings.Index(got, "- filtered"); a < 0 || b < 0 {
				t.Errorf("%d cells: clipped and filtered, legend %q", w, got)
			}
			if at := strings.Index(got, "not yet"); at >= 0 && at < strings.Index(got, "filtered") {
				t.Errorf("%d cells: %q explains first what is not there", w, got)
			}
		}
	}
}

// Without solid colours a clipped cell's bar grows to the right: the legend shows
// bars of several widths beside those of several heights.
func TestLegendShowsHowClippedCellsAreRead(t *testing.T) {
	for _, profile := range []termenv.Profile{termenv.Ascii, termenv.ANSI} {
		got := ansi.Strip(themeIn(t, "", profile).ScaleLegend(Scale{Lo: 1, Hi: 2, Count: 9}, "%.1f", 100))
		if !regexp.MustCompile(`▁.*█ 2.0.*▏.*▉ deep clips, by width`).MatchString(got) {
			t.Errorf("legend %q", got)
		}
	}
}
