package views

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/exp/golden"
	"github.com/muesli/termenv"
	"pgregory.net/rapid"

	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// heatOf draws the default metric of a state.
func heatOf(t testing.TB, s *sessions.State, variant int, p termenv.Profile) *Heat {
	t.Helper()
	sc := &Scene{State: s, Theme: themeIn(t, "", p), Variant: variant, Metric: Metrics()[0]}
	h := NewHeat(NewGrid(s.Tensors), sc.Theme)
	h.SetValues(sc.Values(variant), sc.States(variant))
	h.SetScale(RobustScale(sc.Values(variant)))
	return h
}

func TestHeatMutatorsBumpTheVersion(t *testing.T) {
	s := viewstest.Demo()
	other := themeIn(t, "magma", termenv.Ascii)
	n := len(s.Tensors)
	values, states := make([]float64, n), make([]CellState, n)
	for i := range values {
		values[i], states[i] = float64(i), Measured
	}
	shifted := slices.Clone(values)
	shifted[17]++
	failed := slices.Clone(states)
	failed[3] = Failed
	filter, err := NewFilter("down", s.Tensors)
	if err != nil {
		t.Fatal(err)
	}
	for name, set := range map[string]func(h *Heat){
		"SetSize":       func(h *Heat) { h.SetSize(70, 20) },
		"SetValues":     func(h *Heat) { h.SetValues(values, states) },
		"one value":     func(h *Heat) { h.SetValues(shifted, states) },
		"one state":     func(h *Heat) { h.SetValues(values, failed) },
		"no values":     func(h *Heat) { h.SetValues(nil, nil) },
		"SetScale":      func(h *Heat) { h.SetScale(Scale{Lo: 1, Hi: 2}) },
		"SetCursor":     func(h *Heat) { h.SetCursor(5) },
		"SetFilter":     func(h *Heat) { h.SetFilter(filter) },
		"SetProjection": func(h *Heat) { h.SetProjection("up") },
		"SetFresh":      func(h *Heat) { h.SetFresh([]int{1, 2}) },
		"SetTheme":      func(h *Heat) { h.SetTheme(other) },
		"SetClipMarks":  func(h *Heat) { h.SetClipMarks(false) },
	} {
		h := heatOf(t, s, 1, termenv.Ascii)
		h.SetSize(80, 24)
		h.View()
		before := h.Version()
		set(h)
		if h.Version() == before {
			t.Errorf("%s does not bump the version", name)
		}
		h.View()
		before = h.Version()
		set(h)
		if h.Version() != before {
			t.Errorf("%s of an equal value bumps the version", name)
		}
	}
}

// A changed picture follows every setter: nothing stale is shown.
func TestHeatDrawsWhatWasSet(t *testing.T) {
	s := viewstest.Demo()
	h := heatOf(t, s, 0, termenv.Ascii)
	h.SetSize(80, 24)
	before := h.View()
	h.SetCursor(100)
	with := h.View()
	if with == before || !strings.Contains(with, "▣") {
		t.Error("the cursor is not drawn")
	}
	h.SetCursor(-1)
	if h.View() != before {
		t.Error("the cursor is not taken away")
	}
	h.SetScale(Scale{Lo: 5, Hi: 6, Count: 1})
	if got := h.View(); got == before || strings.ContainsAny(got, "▃▄▅▆▇█") {
		t.Errorf("the scale is not followed:\n%s", got)
	}
}

func TestHeatGolden(t *testing.T) {
	filter, err := NewFilter(`\.(1|2|3)\.(up|down)`, viewstest.Demo().Tensors)
	if err != nil {
		t.Fatal(err)
	}
	mixed := viewstest.Empty(viewstest.Mixed(6, 8), "nvfp4")
	dense := viewstest.Empty(viewstest.Dense(12), "nvfp4")
	for _, s := range []*sessions.State{mixed, dense} {
		for i := range s.Tensors {
			viewstest.Measure(s, 0, i)
		}
	}
	for _, c := range []struct {
		name    string
		state   *sessions.State
		variant int
		w, h    int
		set     func(h *Heat)
	}{
		{"demo-80x24", viewstest.Demo(), 0, 80, 24, func(h *Heat) { h.SetCursor(100) }},
		{"demo-80x7", viewstest.Demo(), 0, 80, 7, func(h *Heat) { h.SetCursor(100) }},
		{"demo-200x60", viewstest.Demo(), 0, 200, 60, func(h *Heat) { h.SetCursor(100) }},
		{"demo-40x6", viewstest.Demo(), 0, 40, 6, func(h *Heat) { h.SetCursor(100) }},
		{"demo-12x4", viewstest.Demo(), 0, 12, 4, func(h *Heat) { h.SetCursor(100) }},
		{"clipped-80x7", viewstest.Demo(), 1, 80, 7, func(h *Heat) {}},
		{"clipped-80x24", viewstest.Demo(), 1, 80, 24, func(h *Heat) {}},
		{"partial-80x24", viewstest.Partial(), 0, 80, 24, func(h *Heat) {}},
		{"started-80x7", viewstest.Partial(), 1, 80, 7, func(h *Heat) { h.SetFresh([]int{77, 78, 79}) }},
		{"filtered-80x7", viewstest.Demo(), 0, 80, 7, func(h *Heat) { h.SetFilter(filter) }},
		{"down-80x12", viewstest.Demo(), 0, 80, 12, func(h *Heat) { h.SetProjection("down") }},
		{"mixed-80x12", mixed, 0, 80, 12, func(h *Heat) { h.SetCursor(20) }},
		{"dense-80x24", dense, 0, 80, 24, func(h *Heat) { h.SetCursor(30) }},
		{"dense-30x8", dense, 0, 30, 8, func(h *Heat) { h.SetCursor(30) }},
		{"big-80x24", viewstest.Big(43, 64, "nvfp4"), 0, 80, 24, func(h *Heat) { h.SetCursor(4000) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := heatOf(t, c.state, c.variant, termenv.Ascii)
			h.SetSize(c.w, c.h)
			c.set(h)
			checkExact(t, h.View(), c.w, c.h)
			golden.RequireEqual(t, []byte(h.View()))
		})
	}
	t.Run("difference-80x7", func(t *testing.T) {
		h := heatOf(t, viewstest.Demo(), 0, termenv.Ascii)
		d := slices.Clone(h.values)
		for i := range d {
			d[i] -= 0.0952
		}
		h.SetValues(d, h.states)
		h.SetScale(SymmetricScale(d))
		h.SetSize(80, 7)
		golden.RequireEqual(t, []byte(h.View()))
	})
	for label, p := range map[string]termenv.Profile{"truecolor": termenv.TrueColor, "256": termenv.ANSI256, "16": termenv.ANSI} {
		t.Run("half-"+label+"-30x5", func(t *testing.T) {
			h := heatOf(t, viewstest.Partial(), 0, p)
			h.SetSize(30, 4)
			h.SetCursor(100)
			golden.RequireEqual(t, []byte(h.View()))
		})
	}
}

// checkExact fails unless view is exactly h lines of exactly w cells.
func checkExact(t interface {
	Helper()
	Errorf(string, ...any)
}, view string, w, h int) {
	t.Helper()
	if h <= 0 {
		if view != "" {
			t.Errorf("%d×%d: %q, want nothing", w, h, view)
		}
		return
	}
	lines := strings.Split(view, "\n")
	if len(lines) != h {
		t.Errorf("%d×%d: %d lines", w, h, len(lines))
	}
	for i, line := range lines {
		if n := ansi.StringWidth(line); n != max(w, 0) {
			t.Errorf("%d×%d: line %d is %d cells: %q", w, h, i, n, line)
		}
	}
}

func TestHeatFitsAnySize(t *testing.T) {
	themes := map[termenv.Profile]*Theme{}
	for _, p := range profiles {
		themes[p] = themeIn(t, "cividis", p)
	}
	rapid.Check(t, func(t *rapid.T) {
		tensors := anyTensors(80).Draw(t, "model")
		h := NewHeat(NewGrid(tensors), themes[termenv.Profile(rapid.IntRange(0, 3).Draw(t, "profile"))])
		values, states := make([]float64, len(tensors)), make([]CellState, len(tensors))
		for i := range tensors {
			values[i] = rapid.SampledFrom([]float64{0, 1, -1, 0.5, 1e300, -1e300, math.NaN(), math.Inf(1), math.Inf(-1)}).Draw(t, "value")
			states[i] = CellState(rapid.IntRange(0, int(Failed)).Draw(t, "state"))
		}
		h.SetValues(values, states)
		h.SetScale(rapid.SampledFrom([]Scale{{}, RobustScale(values), SymmetricScale(values), {Lo: 1, Hi: -1, Flip: true}}).Draw(t, "scale"))
		h.SetProjection(rapid.SampledFrom([]string{"", "up", "nothing"}).Draw(t, "projection"))
		if len(tensors) > 0 {
			h.SetFresh([]int{rapid.IntRange(-1, len(tensors)).Draw(t, "fresh")})
		}
		if rapid.Bool().Draw(t, "filtered") {
			f, err := NewFilter("layers", tensors)
			if err != nil {
				t.Fatal(err)
			}
			h.SetFilter(f)
		}
		for range 3 {
			w, hgt := rapid.IntRange(-1, 120).Draw(t, "w"), rapid.IntRange(-1, 50).Draw(t, "h")
			h.SetSize(w, hgt)
			h.SetCursor(rapid.IntRange(-1, len(tensors)).Draw(t, "cursor"))
			checkExact(t, h.View(), w, hgt)
			if id, ok := h.At(rapid.IntRange(-2, 125).Draw(t, "x"), rapid.IntRange(-2, 55).Draw(t, "y")); ok && (id < 0 || id >= len(tensors)) {
				t.Fatalf("tensor %d under the pointer", id)
			}
			for _, d := range [][2]int{{1, 0}, {-1, 0}, {0, 1}, {0, -1}, {900, 0}, {0, -900}} {
				id := h.Move(d[0], d[1])
				if full := func(c heatCell) bool { return c.count > 0 }; id >= len(tensors) || id < 0 && slices.ContainsFunc(h.cells, full) {
					t.Fatalf("Move%v = %d of %d", d, id, len(tensors))
				}
			}
			if c := h.Cursor(); c >= 0 && h.shows(c) && !slices.Contains(h.Bucket(c), c) {
				t.Fatalf("the bucket %v of %d does not hold it", h.Bucket(c), c)
			}
		}
	})
}

// What the eye finds on the map is what the pointer finds: each tensor's cell
// leads back to it, or to a worse one of the same cell.
func TestHeatPointsAtTheWorst(t *testing.T) {
	s := viewstest.Big(6, 40, "nvfp4")
	for _, size := range [][2]int{{200, 30}, {130, 30}, {60, 10}, {20, 5}} {
		h := heatOf(t, s, 0, termenv.TrueColor)
		h.SetSize(size[0], size[1])
		h.View()
		found := map[int]bool{}
		for y := range size[1] {
			for x := range size[0] {
				id, ok := h.At(x, y)
				if !ok {
					continue
				}
				found[id] = true
				for _, member := range h.Bucket(id) {
					if h.values[member] > h.values[id] {
						t.Fatalf("%v: cell (%d, %d) shows %d, but %d is worse", size, x, y, id, member)
					}
				}
			}
		}
		worst := 0
		for i, v := range h.values {
			if v > h.values[worst] {
				worst = i
			}
		}
		if !h.layout.half && !found[worst] {
			t.Errorf("%v: the worst tensor is nowhere on the map", size)
		}
	}
}

// Where smaller values are worse, a cell of several tensors shows the smallest,
// also when the scale is turned round under way.
func TestHeatFlipped(t *testing.T) {
	s := viewstest.Big(2, 9, "nvfp4")
	h := heatOf(t, s, 0, termenv.Ascii)
	h.SetSize(24, 3) // an expert is one cell
	extreme := func(want func(a, b float64) bool) {
		t.Helper()
		h.View()
		id, ok := h.At(h.layout.cols[3].x, 1)
		if !ok {
			t.Fatal("nothing under the pointer")
		}
		if n := len(h.Bucket(id)); n != 3 {
			t.Fatalf("the cell stands for %d tensors", n)
		}
		for _, member := range h.Bucket(id) {
			if want(h.values[member], h.values[id]) {
				t.Errorf("the cell shows %d, though %d is further", id, member)
			}
		}
	}
	extreme(func(a, b float64) bool { return a > b })
	flipped := h.scale
	flipped.Flip = true
	h.SetScale(flipped)
	extreme(func(a, b float64) bool { return a < b })
}

// Whatever the size, all columns and rows are within it.
func TestHeatLayoutCutsNothingOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g *Grid
		if rapid.Bool().Draw(t, "odd") {
			g = NewGrid(anyTensors(60).Draw(t, "model"))
		} else {
			g = NewGrid(viewstest.Mixed(rapid.IntRange(1, 6).Draw(t, "layers"), rapid.IntRange(0, 40).Draw(t, "experts")))
		}
		w, h := rapid.IntRange(4, 260).Draw(t, "w"), rapid.IntRange(1, 60).Draw(t, "h")
		l := newHeatLayout(g, w, h, rapid.Bool().Draw(t, "one part"), rapid.Bool().Draw(t, "solid"))
		if l.used() > w {
			t.Fatalf("%d columns take %d of %d cells", len(g.Cols), l.used(), w)
		}
		lines := l.top + l.rows*(l.cellH+l.gapH) - l.gapH
		if l.half {
			lines = l.top + (l.rows+1)/2
		}
		if len(g.Rows) > 0 && (lines > h || l.rows*l.perRow < len(g.Rows)) {
			t.Fatalf("%d layers take %d of %d lines, %d a row", len(g.Rows), lines, h, l.perRow)
		}
		for i, c := range l.cols {
			if i > 0 && c.x < l.cols[i-1].x+l.cols[i-1].w {
				t.Fatalf("column %d starts within the one before it", i)
			}
		}
	})
}

func TestHeatMoves(t *testing.T) {
	s := viewstest.Demo()
	h := heatOf(t, s, 0, termenv.Ascii)
	h.SetSize(80, 24)
	name := func(id int) string { return ShortName(&s.Tensors[id]) }
	step := func(dx, dy int, want string) {
		t.Helper()
		h.SetCursor(h.Move(dx, dy))
		if got := name(h.Cursor()); got != want {
			t.Errorf("at %s, want %s", got, want)
		}
	}
	step(0, 0, "L1 e0 gate") // no cursor yet
	step(1, 0, "L1 e0 up")
	step(2, 0, "L1 e1 gate")
	step(0, 2, "L3 e1 gate")
	step(999, 0, "L3 e15 down")
	step(1, 0, "L3 e15 down")
	step(0, 9, "M5 e15 down")
	step(-999, 0, "M5 e0 gate")
	step(0, -1, "L4 e0 gate")
	h.SetSize(30, 24) // experts are one cell now
	step(1, 0, "L4 e1 down")
	if got := len(h.Bucket(h.Cursor())); got != 3 {
		t.Errorf("a cell of an expert stands for %d tensors", got)
	}
	h.SetProjection("up")
	step(1, 0, "L4 e2 up")
}

// States are told apart in every profile, by glyphs.
func TestHeatStatesInEveryProfile(t *testing.T) {
	tensors := viewstest.Experts(0, 2, 0, 6)
	states := make([]CellState, len(tensors))
	values := make([]float64, len(tensors))
	for i := range tensors {
		states[i] = CellState(i % (3 * len(stateGlyphs)) / 3)
	}
	for label, p := range profiles {
		h := NewHeat(NewGrid(tensors), themeIn(t, "", p))
		h.SetValues(values, states)
		h.SetScale(Scale{Lo: -1, Hi: 1, Count: 9})
		for _, size := range [][2]int{{60, 12}, {60, 3}, {20, 3}, {30, 2}} {
			h.SetSize(size[0], size[1])
			text := ansi.Strip(h.View())
			for s, g := range stateGlyphs {
				if CellState(s) == Measured || CellState(s) == Clipped {
					continue
				}
				if !strings.Contains(text, g) {
					t.Errorf("%s at %v: no %q\n%s", label, size, g, text)
				}
			}
			h.SetClipMarks(false)
			if ansi.Strip(h.View()) == text {
				t.Errorf("%s at %v: clipped cells look like others\n%s", label, size, text)
			}
			h.SetClipMarks(true)
		}
	}
}

// With colours off the picture holds no escape sequence, and values are told
// apart by glyph.
func TestHeatWithoutColours(t *testing.T) {
	h := heatOf(t, viewstest.Demo(), 0, termenv.Ascii)
	h.SetSize(80, 7)
	h.SetFresh([]int{1, 2, 3})
	h.SetCursor(9)
	view := h.View()
	if strings.Contains(view, "\x1b") {
		t.Error("there are escape sequences")
	}
	seen := 0
	for _, g := range bars {
		if strings.Contains(view, g) {
			seen++
		}
	}
	if seen != len(bars) {
		t.Errorf("%d of %d levels are seen", seen, len(bars))
	}
}

func ExampleHeat_Stride() {
	th, err := NewTheme("", termenv.Ascii, true)
	if err != nil {
		fmt.Println(err)
		return
	}
	h := NewHeat(NewGrid(viewstest.Experts(0, 43, 0, 288)), th)
	h.SetSize(100, 24)
	fmt.Println(h.Stride())
	// Output: 2 3 true
}
