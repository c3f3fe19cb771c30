package views

import (
	"slices"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/muesli/termenv"
	"pgregory.net/rapid"

	"quantscope/views/viewstest"
)

func TestWorstListsEverythingInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sc := anyScene(t, rt)
		sc.Cursor = -1
		p := NewWorst(sc).(*worstPane)
		p.SetSize(60, rapid.IntRange(2, 12).Draw(rt, "h"))
		p.View()
		states := sc.States(sc.Variant)
		var want []int
		for _, st := range []CellState{Failed, NotFinite} {
			for id := range states {
				if states[id] == st && sc.Shown(id) {
					want = append(want, id)
				}
			}
		}
		want = append(want, ranked(sc, sc.Variant)...)
		p.HandleKey(keyMsg("down"))
		for i, id := range want {
			if sc.Cursor != id {
				rt.Fatalf("place %d is %d, want %d", i, sc.Cursor, id)
			}
			if at := p.rank.placeOf(sc, id); at != i {
				rt.Fatalf("tensor %d says it has place %d, want %d", id, at, i)
			}
			p.HandleKey(keyMsg("down"))
			p.View()
			if at := p.rank.placeOf(sc, sc.Cursor); at < p.offset || at >= p.offset+p.rows() {
				rt.Fatalf("place %d is out of sight: %d lines from %d", at, p.rows(), p.offset)
			}
		}
	})
}

func TestWorstNamesTheReason(t *testing.T) {
	sc := sceneFor(t, viewstest.Partial(), termenv.Ascii)
	p := NewWorst(sc)
	p.SetSize(140, 10)
	lines := strings.Split(p.View(), "\n")
	if !strings.Contains(lines[1], "! ") || !strings.Contains(lines[1], "L1 e6 down  model.safetensors: read at byte 4096: unexpected end of file") {
		t.Errorf("the first line is %q", lines[1])
	}
	if !strings.Contains(lines[2], "× ") || !strings.Contains(lines[2], "not finite") {
		t.Errorf("the second line is %q", lines[2])
	}
	handled, _ := p.HandleMouse(4, 1, tea.MouseMsg{Action: tea.MouseActionPress, Button: tea.MouseButtonLeft})
	if !handled || sc.Cursor != 20 {
		t.Errorf("a click selects %d", sc.Cursor)
	}
	p.HandleMouse(4, 1, tea.MouseMsg{Button: tea.MouseButtonWheelDown, Action: tea.MouseActionPress})
	if got := strings.Split(p.View(), "\n")[1]; strings.Contains(got, "! ") || sc.Cursor != 20 {
		t.Errorf("the wheel leaves %q at the top and the cursor on %d", got, sc.Cursor)
	}
}

// Columns stay where they are when another variant ranks; that one is marked.
// Variants without room are counted.
func TestWorstKeepsTheOrderOfVariants(t *testing.T) {
	sc := sceneFor(t, viewstest.Demo(), termenv.Ascii)
	p := NewWorst(sc)
	order := func(head string) (out []int) {
		for v := range sc.State.Variants {
			out = append(out, strings.Index(head, sc.Theme.VariantMark(v)))
		}
		return out
	}
	for _, w := range []int{60, 140} {
		p.SetSize(w, 20)
		for v := range sc.State.Variants {
			sc.SetVariant(v)
			head, _, _ := strings.Cut(p.View(), "\n")
			if at := order(head); at[0] < 0 || !slices.IsSorted(at) {
				t.Errorf("%d cells, variant %d: columns at %d: %q", w, v, at, head)
			}
			name := shortVariants(sc.State.Variants)[v]
			if strings.Count(head, "▾") != 1 || !strings.Contains(head, "▾ "+name+" ") {
				t.Errorf("%d cells: %s is not marked: %q", w, name, head)
			}
		}
	}
	p.SetSize(45, 20)
	if head, _, _ := strings.Cut(p.View(), "\n"); !strings.Contains(head, "1 not shown") {
		t.Errorf("a hidden variant is not counted: %q", head)
	}
	sc.SetVariant(1)
	p.SetSize(24, 5)
	if head, _, _ := strings.Cut(p.View(), "\n"); !strings.HasSuffix(head, "▾+mse ▲") {
		t.Errorf("no room for the variant that ranks: %q", head)
	}
}

// A page is the rows in sight but one; pgup goes towards the worst, pgdown away
// from it, and the ends hold.
func TestWorstPages(t *testing.T) {
	sc := sceneFor(t, viewstest.Demo(), termenv.Ascii)
	p := NewWorst(sc).(*worstPane)
	p.SetSize(80, 12)
	p.View()
	page, last := p.rows()-1, len(ranked(sc, sc.Variant))-1
	if page < 2 || last < 4*page {
		t.Fatalf("pages of %d over %d places", page, last)
	}
	at := 0
	p.HandleKey(keyMsg("home"))
	for _, c := range []struct {
		key string
		by  int
	}{{"home", -last}, {"pgup", -page}, {"pgdown", page}, {"pgdown", page}, {"pgup", -page}, {"down", 1}, {"pgdown", page}, {"up", -1}, {"end", last}, {"pgdown", page}, {"pgup", -page}, {"pgup", -page}, {"G", -1}, {"g", 1}, {"home", -last}} {
		p.HandleKey(keyMsg(c.key))
		p.View()
		at = min(max(at+c.by, 0), last)
		if got := p.rank.placeOf(sc, sc.Cursor); got != at {
			t.Fatalf("%s leads to place %d, want %d", c.key, got, at)
		}
		if at < p.offset || at >= p.offset+p.rows() {
			t.Errorf("%s: place %d is out of sight, %d lines from %d", c.key, at, p.rows(), p.offset)
		}
	}
}
