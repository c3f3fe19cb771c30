package views

import (
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/muesli/termenv"
)

// Keys that do nothing say why, the others do something.
func TestKLKeys(t *testing.T) {
	s := klScene(t, termenv.Ascii, 40, false)
	p := NewKL(s)
	p.SetSize(198, 55)
	for _, state := range []func(){
		func() {}, func() { p.SetSize(78, 19) }, func() { p.level = klPositions }, func() { p.level = klFull },
		func() { p.level = klCandidates; s.KL.Running = true }, func() { s.KL = KLWork{At: -1}; s.State.Yards = nil }, func() { s.KL.Off = "not here" },
	} {
		state()
		for _, k := range p.Keys() {
			for _, key := range k.Keys {
				kept := *p
				handled := hit(p, key)
				if key != "esc" && handled != (k.Disabled == "") {
					t.Errorf("level %d, %v: %q handled %v, disabled %q", kept.level, s.KL.Running, key, handled, k.Disabled)
				}
				s.KL.Ask = KLNothing
				*p = kept
			}
		}
	}
}

// o goes through everything that there is and comes back, at any size.
func TestKLTurns(t *testing.T) {
	for _, size := range [][2]int{{78, 19}, {118, 26}, {118, 35}, {198, 38}, {198, 45}, {198, 55}, {240, 100}} {
		p := NewKL(klScene(t, termenv.Ascii, 40, true))
		p.SetSize(size[0], size[1])
		first := p.View()
		seen := map[klPart]bool{}
		turns := 0
		for {
			for part, r := range p.layout().parts {
				if !r.empty() {
					seen[klPart(part)] = true
				}
			}
			if !hit(p, "o") {
				if !p.layout().all {
					t.Errorf("%v: o does nothing, and not everything is on the screen", size)
				}
				break
			}
			if turns++; p.View() == first || turns > int(klParts) {
				break
			}
		}
		if turns > int(klParts) {
			t.Errorf("%v: %d times o do not come back", size, turns)
		}
		for part := range klParts {
			if !seen[part] && p.has(part) && !(part == klCorpora && klFits(p.arranged().table)) {
				t.Errorf("%v: o does not show %s", size, klPartNames[part])
			}
		}
		for range turns {
			hit(p, "O")
		}
		if p.View() != first {
			t.Errorf("%v: O does not go back", size)
		}
	}
}

// A click selects the row that is drawn there, the wheel the list that it is over.
func TestKLMouse(t *testing.T) {
	for _, size := range [][2]int{{78, 19}, {118, 35}, {198, 55}} {
		p := NewKL(klScene(t, termenv.Ascii, 40, false))
		p.SetSize(size[0], size[1])
		for _, level := range []klLevel{klCandidates, klPositions} {
			seen := 0
			for y, line := range strings.Split(p.View(), "\n") {
				for x := range size[0] {
					l, row, ok := p.rowAt(x, y)
					if !ok || l != level {
						continue
					}
					want := p.label(p.rows.order[min(row, len(p.rows.order)-1)])
					if level == klPositions {
						want = klShort(p.rows.worst[row].KL)
					} else if p.rows.party(p.rows.order[row]).Floor {
						want = "floor"
					}
					if !strings.Contains(line, want) {
						t.Fatalf("%v: row %d of level %d at %d, %d: %q holds no %q", size, row, level, x, y, line, want)
					}
					seen++
					kept := *p
					p.HandleMouse(x, y, tea.MouseMsg{Action: tea.MouseActionPress, Button: tea.MouseButtonLeft})
					if p.level != level || p.list().selected != row && level == klPositions || level == klCandidates && p.at != p.rows.order[row] {
						t.Fatalf("%v: a click at %d, %d selects %d of level %d, want %d of %d", size, x, y, p.list().selected, p.level, row, level)
					}
					*p = kept
					break
				}
			}
			if seen == 0 {
				t.Errorf("%v: no row of level %d can be clicked", size, level)
			}
		}
	}
}
