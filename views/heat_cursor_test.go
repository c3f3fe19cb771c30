package views

import (
	"strings"
	"testing"

	"github.com/muesli/termenv"

	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// mixedHeat is the map of a model whose layers have cells of their own only:
// layer 0 is dense, layer 1 has a shared expert and routed ones, the head stands
// alone.
func mixedHeat(t *testing.T, p termenv.Profile) (*Heat, func(name string) int) {
	t.Helper()
	s := viewstest.Empty(viewstest.Mixed(2, 3), "nvfp4")
	for i := range s.Tensors {
		viewstest.Measure(s, 0, i)
	}
	h := heatOf(t, s, 0, p)
	h.SetSize(100, 20)
	h.View() // lays the map out
	return h, func(name string) int {
		t.Helper()
		for i := range s.Tensors {
			if ShortName(&s.Tensors[i]) == name {
				return i
			}
		}
		t.Fatalf("no tensor %q", name)
		return -1
	}
}

// Up and down go to the nearest cell with a tensor, to the left as to the right.
func TestHeatMovesToTheNearest(t *testing.T) {
	h, id := mixedHeat(t, termenv.Ascii)
	column := func(name string) int {
		_, col := h.cellOf(id(name))
		return col
	}
	for _, c := range []struct {
		from   string
		dy     int
		want   string
		toLeft bool
	}{
		{"L1 e2 down", -1, "L0 down", true},
		{"L1 e0 gate", -1, "L0 down", true},
		{"L1 e1 up", 1, "lm_head", true},
		{"L0 q", 9, "lm_head", false},
		{"L0 down", 1, "L1 shared gate", false},
		{"L1 v", -1, "L0 v", false},
	} {
		h.SetCursor(id(c.from))
		if got, want := h.Move(0, c.dy), id(c.want); got != want {
			t.Errorf("%s moved by %d is tensor %d, want %s", c.from, c.dy, got, c.want)
		}
		if got := column(c.want) < column(c.from); got != c.toLeft {
			t.Errorf("%s to %s: to the left is %v", c.from, c.want, got)
		}
	}
}

// Nothing is under the pointer where a layer has no such tensor.
func TestHeatAtAnEmptyCell(t *testing.T) {
	h, id := mixedHeat(t, termenv.Ascii)
	has := map[[2]int]bool{} // cells with a tensor
	for i := range h.grid.Tensors() {
		row, col := h.cellOf(i)
		has[[2]int{row, col}] = true
	}
	empty := 0
	for row := range h.layout.rows {
		for col := range h.layout.cols {
			x, y := h.layout.cols[col].x, h.layout.top+row*(h.layout.cellH+h.layout.gapH)
			tensor, ok := h.At(x, y)
			if ok != has[[2]int{row, col}] {
				t.Errorf("row %d, column %d: %v under the pointer, tensor %d", row, col, ok, tensor)
			}
			if !ok {
				empty++
			}
		}
	}
	if empty == 0 {
		t.Fatal("the map has no empty cell")
	}
	row, col := h.cellOf(id("L1 e1 up"))
	if got, ok := h.At(h.layout.cols[col].x, h.layout.top+row*(h.layout.cellH+h.layout.gapH)); !ok || got != id("L1 e1 up") {
		t.Errorf("over L1 e1 up: %d, %v", got, ok)
	}
}

// Without colours the cursor is seen by its glyphs, whatever the size and the
// state of the cell, and nothing but its cell and the labels of its row and
// column change.
func TestHeatCursorWithoutColours(t *testing.T) {
	for name, s := range map[string]*sessions.State{"demo": viewstest.Demo(), "partial": viewstest.Partial()} {
		h := heatOf(t, s, 0, termenv.Ascii)
		for _, size := range [][2]int{{200, 60}, {200, 7}, {120, 24}, {80, 24}, {60, 12}, {30, 8}} {
			h.SetSize(size[0], size[1])
			for _, cursor := range []int{0, 20, len(s.Tensors) - 1} {
				h.SetCursor(-1)
				before := strings.Split(h.View(), "\n")
				h.SetCursor(cursor)
				after := strings.Split(h.View(), "\n")
				row, col := h.cellOf(cursor)
				marks := 0
				for y := range after {
					was, is := []rune(before[y]), []rune(after[y])
					for x := range is {
						if y < h.layout.top || x < h.layout.labelW || is[x] == was[x] {
							continue
						}
						r, c, ok := h.layout.cellAt(x, y)
						if !ok || r != row || c != col {
							t.Fatalf("%s %v: the cursor on %d changes (%d, %d)", name, size, cursor, x, y)
						}
						if strings.ContainsRune("▣[]┌┐└┘", is[x]) {
							marks++
						}
					}
				}
				least := 1 // ▣, or a bracket on either side
				if h.layout.cols[col].w > 1 {
					least = 2
				}
				if marks < least {
					t.Errorf("%s %v: the cursor on %d is not seen\n%s", name, size, cursor, h.View())
				}
				if strings.Contains(h.View(), "\x1b") {
					t.Errorf("%s %v: there are escape sequences", name, size)
				}
			}
		}
	}
}

// The same of rows: a mark stands before the one under the cursor, and no other.
func TestRowCursorWithoutColours(t *testing.T) {
	th := themeIn(t, "", termenv.Ascii)
	tb := demoTable()
	for cursor := range tb.Rows {
		tb.Cursor = cursor
		lines := strings.Split(tb.Render(th, 60, len(tb.Rows)+1), "\n")
		for y, line := range lines {
			if strings.HasPrefix(line, "▸ ") != (y == cursor+1) || strings.Contains(line, "\x1b") {
				t.Errorf("cursor on row %d: line %d is %q", cursor, y, line)
			}
		}
	}
	s := sceneIn(t, withLog(viewstest.Demo()), termenv.Ascii)
	p := NewLog(s)
	p.SetSize(100, 20)
	p.View()
	hit(p, "up")
	hit(p, "up")
	marked := 0
	for line := range strings.Lines(p.View()) {
		if strings.HasPrefix(line, "› ") {
			marked++
		}
	}
	if marked != 1 || strings.Contains(p.View(), "\x1b") {
		t.Errorf("%d lines of the log are marked:\n%s", marked, p.View())
	}
}
