package views

import (
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/exp/golden"
	"github.com/lucasb-eyer/go-colorful"
	"github.com/muesli/termenv"
)

var profiles = map[string]termenv.Profile{"truecolor": termenv.TrueColor, "256": termenv.ANSI256, "16": termenv.ANSI, "none": termenv.Ascii}

func themeIn(t testing.TB, name string, p termenv.Profile) *Theme {
	t.Helper()
	th, err := NewTheme(name, p, true)
	if err != nil {
		t.Fatal(err)
	}
	return th
}

func TestUnknownThemeIsRefused(t *testing.T) {
	_, err := NewTheme("jet", termenv.TrueColor, true)
	if want := `unknown theme "jet" (known: viridis, cividis, magma, gray)`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	th, err := NewTheme("", termenv.TrueColor, true)
	if err != nil || th.Name != "viridis" {
		t.Errorf("the default is %v, %v", th, err)
	}
}

// everyStyle draws with all that a theme has.
func everyStyle(th *Theme) string {
	var b strings.Builder
	for _, s := range []interface{ Render(...string) string }{th.Text, th.Dim, th.Faint, th.Accent, th.Title, th.Cursor, th.Good, th.Warn, th.Bad} {
		b.WriteString(s.Render("x"))
	}
	for i := range th.Variants {
		b.WriteString(th.VariantTag("v", i))
	}
	b.WriteString(th.ScaleLegend(Scale{Lo: 1, Hi: 2, Count: 3}, "%.1f", 120))
	b.WriteString(th.ScaleLegend(Scale{Lo: -1, Hi: 1, Count: 3, Diverging: true}, "%.1f", 120))
	return b.String()
}

func TestThemesKeepToTheirProfile(t *testing.T) {
	for _, name := range ThemeNames() {
		for _, dark := range []bool{true, false} {
			for label, p := range profiles {
				th, err := NewTheme(name, p, dark)
				if err != nil {
					t.Fatal(err)
				}
				got := everyStyle(th)
				if p == termenv.Ascii && strings.Contains(got, "\x1b") {
					t.Errorf("%s without colours holds escape sequences: %q", name, got)
				}
				if p != termenv.TrueColor && (strings.Contains(got, "38;2;") || strings.Contains(got, "48;2;")) {
					t.Errorf("%s in %s holds true colours", name, label)
				}
				if p == termenv.ANSI && (strings.Contains(got, "38;5;") || strings.Contains(got, "48;5;")) {
					t.Errorf("%s in %s holds colours of 256", name, label)
				}
			}
		}
	}
}

func TestVariantMarksDiffer(t *testing.T) {
	th := themeIn(t, "", termenv.Ascii)
	seen := map[string]bool{}
	for i := range len(th.VariantMarks) {
		m := th.VariantMark(i)
		if Width(m) != 1 || seen[m] {
			t.Errorf("mark %d %q is not one cell or not its own", i, m)
		}
		seen[m] = true
	}
	if th.VariantMark(0) != th.VariantMark(len(th.VariantMarks)) {
		t.Error("marks do not come round")
	}
	if th.VariantTag("nvfp4\x1b[31m", 0) != "nvfp4␛[31m ■" {
		t.Errorf("tag %q", th.VariantTag("nvfp4\x1b[31m", 0))
	}
}

// A map is read by lightness first: it must rise from step to step, and by
// steps of about the same size.
func TestRampsRiseEvenly(t *testing.T) {
	for _, p := range palettes {
		last, small, large := -1.0, 1.0, 0.0
		for i := range rampSteps {
			l, _, _ := mix(p.stops, float64(i)/(rampSteps-1)).Lab()
			if i > 0 {
				small, large = min(small, l-last), max(large, l-last)
			}
			last = l
		}
		if small <= 0 || large > 3*small {
			t.Errorf("%s: lightness steps from %.4f to %.4f", p.name, small, large)
		}
	}
}

func TestCoarseRampsRise(t *testing.T) {
	for _, p := range palettes {
		last := -1.0
		for _, i := range p.xterm {
			l, _, _ := xterm(i).Lab()
			if l <= last {
				t.Errorf("%s: colour %d is no lighter than the one before it", p.name, i)
			}
			last = l
			if nearestXterm(xterm(i)) != i {
				t.Errorf("colour %d is taken for %d", i, nearestXterm(xterm(i)))
			}
		}
	}
}

// The two arms of a diverging scale are told apart by red-green blind eyes too:
// their ends differ along the yellow-blue axis, which those keep.
func TestDivergingEndsDifferInYellowAndBlue(t *testing.T) {
	for _, p := range palettes[:3] {
		a, errA := colorful.Hex(p.diverge[0])
		b, errB := colorful.Hex(p.diverge[2])
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		_, _, blue := a.Lab()
		_, _, yellow := b.Lab()
		if yellow-blue < 0.4 {
			t.Errorf("%s: %s and %s differ by %.2f only", p.name, p.diverge[0], p.diverge[2], yellow-blue)
		}
	}
}

func TestStatesHaveGlyphsOfTheirOwn(t *testing.T) {
	seen := map[string]CellState{}
	for s, g := range stateGlyphs {
		if CellState(s) == Measured {
			continue
		}
		if other, ok := seen[g]; ok || Width(g) != 1 {
			t.Errorf("state %d has the glyph of %d or none: %q", s, other, g)
		}
		seen[g] = CellState(s)
	}
	for _, set := range [][]string{bars, sideway, signs} {
		for _, g := range set {
			if _, ok := seen[g]; ok {
				t.Errorf("%q is a value and a state", g)
			}
		}
	}
}

func TestLegendGolden(t *testing.T) {
	for _, name := range ThemeNames() {
		t.Run(name, func(t *testing.T) {
			th := themeIn(t, name, termenv.TrueColor)
			golden.RequireEqual(t, []byte(everyStyle(th)))
		})
	}
	t.Run("widths", func(t *testing.T) {
		th := themeIn(t, "", termenv.Ascii)
		var b strings.Builder
		for _, s := range []Scale{{Lo: 0.0938, Hi: 0.0967, Count: 240, Under: 2, Over: 3}, {Lo: -0.2, Hi: 0.2, Count: 240, Diverging: true}, {NonFinite: 3}} {
			for _, w := range []int{0, 1, 8, 20, 40, 80, 120, 160} {
				line := th.ScaleLegend(s, "%.4f", w)
				if Width(line) != w {
					t.Errorf("%d cells, want %d: %q", Width(line), w, line)
				}
				fmt.Fprintf(&b, "%3d|%s|\n", w, line)
			}
		}
		golden.RequireEqual(t, []byte(b.String()))
	})
}
