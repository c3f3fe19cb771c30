package views

import (
	"slices"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/muesli/termenv"

	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// Keys that do nothing say why, the others do something.
func TestGatesKeys(t *testing.T) {
	s := gatesScene(t, termenv.Ascii, 1)
	p := NewGates(s)
	p.SetSize(198, 55)
	moved := []string{"up", "k", "down", "j", "pgup", "ctrl+b", "pgdown", "ctrl+f", "home", "end", "left", "h", "right", "l"}
	for name, state := range map[string]func(){
		"table": func() {}, "small": func() { p.SetSize(78, 19) }, "cases": func() { p.focus = gatesCases }, "a case": func() { p.focus, p.full = gatesCases, true },
		"checks": func() { p.focus = gatesChecks }, "a check": func() { p.focus, p.full = gatesChecks, true }, "arms": func() { p.focus = gatesArms },
		"a cell without failures": func() { gatesAt(t, p, "arithmetic", 0) }, "running": func() { s.Gates.Running = true }, "nothing matches": func() { _ = p.SetFilterText("zzz") },
		"two runs": func() { s.State.Gates = append(s.State.Gates, viewstest.Gates(viewstest.GateArms, 2, 0.5)) },
		"none":     func() { s.Gates = GatesWork{At: -1}; s.State.Gates = nil }, "off": func() { s.Gates = GatesWork{At: -1, Off: "not here"}; s.State.Gates = nil },
	} {
		t.Run(name, func(t *testing.T) {
			s = gatesScene(t, termenv.Ascii, 1)
			p = NewGates(s)
			p.SetSize(198, 55)
			p.refresh()
			state()
			for _, k := range p.Keys() {
				for _, key := range k.Keys {
					kept, work := *p, s.Gates
					kept.folded = map[string]bool{}
					handled := hit(p, key)
					if key != "esc" && !(slices.Contains(moved, key) && handled) && handled != (k.Disabled == "") {
						t.Errorf("%q handled %v, disabled %q", key, handled, k.Disabled)
					}
					*p, s.Gates = kept, work
					p.folded = map[string]bool{}
				}
			}
			if hit(p, "q") {
				t.Error("it takes a key that it does not list")
			}
		})
	}
}

// n and p walk over the cases that did not pass, each once, and come back.
func TestGatesWalk(t *testing.T) {
	p := NewGates(gatesScene(t, termenv.Ascii, 1))
	p.SetSize(118, 35)
	gatesAt(t, p, "scripts/korean", 5)
	p.refresh()
	var seen []gatesCaseID
	for {
		if !hit(p, "n") {
			t.Fatal("n does nothing")
		}
		if len(seen) > 0 && p.cased == seen[0] {
			break
		}
		if p.book.cells[p.cased.probe][5].results[p.cased.of].Verdict.Passed || slices.Contains(seen, p.cased) {
			t.Fatalf("n comes to case %v after %v", p.cased, seen)
		}
		seen = append(seen, p.cased)
	}
	if want := 6 - p.book.cells[seen[0].probe][5].passed; len(seen) != want || p.items.failing != want {
		t.Errorf("n comes to %d cases of %d, counted %d", len(seen), want, p.items.failing)
	}
	hit(p, "p")
	if p.cased != seen[len(seen)-1] {
		t.Errorf("p goes to %v, want %v", p.cased, seen[len(seen)-1])
	}
	// Of a sum row, over the cases of all probes, at the pass that failed.
	hit(p, "esc")
	hit(p, "end")
	hit(p, "n")
	if at := p.items.list[p.list.selected]; !at.failed || p.pass != at.pass {
		t.Errorf("n of all probes is at %+v, pass %d", at, p.pass)
	}
}

// Cases that failed stand first, or all in the suite's order, and the one that was
// chosen stays chosen.
func TestGatesOrder(t *testing.T) {
	p := NewGates(gatesScene(t, termenv.Ascii, 1))
	p.SetSize(118, 35)
	p.refresh()
	p.at, p.arm = gatesRowID{kind: gatesSumRow, probe: -1}, 5
	p.other()
	p.refresh()
	n := p.items.failing
	for i, it := range p.items.list {
		if it.failed != (i < n) {
			t.Fatalf("item %d failed %v, %d failed in all", i, it.failed, n)
		}
	}
	hit(p, "enter")
	hit(p, "down")
	at := p.cased
	hit(p, "s")
	p.refresh()
	for i := 1; i < len(p.items.list); i++ {
		a, b := p.items.list[i-1], p.items.list[i]
		if a.probe > b.probe || a.probe == b.probe && a.of >= b.of {
			t.Fatalf("%v stands before %v", a.gatesCaseID, b.gatesCaseID)
		}
	}
	if p.cased != at || p.items.list[p.list.selected].gatesCaseID != at {
		t.Errorf("%v was chosen, %v is", at, p.cased)
	}
}

// The filter goes by ID and group, and is cleared by esc.
func TestGatesFilter(t *testing.T) {
	p := NewGates(gatesScene(t, termenv.Ascii, 1))
	p.SetSize(118, 35)
	for text, want := range map[string]int{"": 11, "KOREAN": 0, "korean": 2, "tools": 2, "!scripts": 7, "facts/(greedy|sampled)": 2, "zzz": 0} {
		if err := p.SetFilterText(text); err != nil {
			t.Fatal(err)
		}
		if n, of := p.FilterCount(); n != want || of != 11 {
			t.Errorf("%q leaves %d of %d, want %d of 11", text, n, of, want)
		}
		p.refresh()
		probes := 0
		for _, r := range p.rows {
			if r.kind == gatesProbeRow {
				probes++
			}
		}
		if probes != want {
			t.Errorf("%q shows %d probes, want %d", text, probes, want)
		}
	}
	// The sum of those that are left is not told as that of all.
	_ = p.SetFilterText("scripts")
	p.refresh()
	sum := &p.rows[len(p.rows)-1]
	if p.index.pairOf(sum, 5) != nil || sum.label(p.book.run.Setup) != "these 4 probes" {
		t.Errorf("%s have the verdict of all probes", sum.label(p.book.run.Setup))
	}
	c := p.book.sum(sum.probes, 5)
	if got := p.stateOf(sum, 5, &c); got != gatesDown {
		t.Errorf("the sum of scripts is %s", gatesStates[got].glyph)
	}
	if err := p.SetFilterText("("); err == nil {
		t.Error("a broken pattern is taken")
	}
	_ = p.SetFilterText("zzz")
	shown, left := p.View(), hit(p, "esc")
	if p.refresh(); !strings.Contains(shown, "no probe matches zzz") || !left || !p.shown() || p.FilterText() != "" {
		t.Error("esc does not show all again")
	}
}

// A click selects what is drawn there.
func TestGatesMouse(t *testing.T) {
	press := tea.MouseMsg{Action: tea.MouseActionPress, Button: tea.MouseButtonLeft}
	for _, size := range [][2]int{{78, 19}, {118, 35}, {198, 55}} {
		for _, part := range []gatesPart{gatesTable, gatesCases, gatesChecks} {
			p := NewGates(gatesScene(t, termenv.Ascii, 1))
			p.SetSize(size[0], size[1])
			p.refresh()
			p.focus = part
			lines := strings.Split(p.View(), "\n")
			seen := map[[2]int]bool{}
			for y := range lines {
				for x := 1; x < size[0]; x += 7 {
					l := p.layout()
					kept := *p
					if row, arm, ok := p.cellAt(l.table, x, y); ok {
						if !strings.Contains(lines[y], strings.TrimSpace(p.rows[row].name(p.book.run.Setup))) {
							t.Fatalf("%v: row %d at %d, %d is %q", size, row, x, y, lines[y])
						}
						p.HandleMouse(x, y, press)
						if p.focus != gatesTable || p.at != p.rows[row].gatesRowID || p.arm != arm {
							t.Fatalf("%v: a click at %d, %d selects %v of arm %d, want %v of %d", size, x, y, p.at, p.arm, p.rows[row].gatesRowID, arm)
						}
						seen[[2]int{0, row}] = true
					} else if row, ok := p.caseAt(l.cases, x, y); ok {
						p.HandleMouse(x, y, press)
						if p.focus != gatesCases || p.cased != p.items.list[row].gatesCaseID {
							t.Fatalf("%v: a click at %d, %d selects case %v", size, x, y, p.cased)
						}
						seen[[2]int{1, row}] = true
					} else if item, ok := p.checkAt(l.checks, x, y); ok {
						p.HandleMouse(x, y, press)
						if p.focus != gatesChecks || p.checks.selected != item {
							t.Fatalf("%v: a click at %d, %d selects check %d, want %d", size, x, y, p.checks.selected, item)
						}
						seen[[2]int{2, item}] = true
					}
					*p = kept
				}
			}
			if len(seen) < 2 {
				t.Errorf("%v: %d things can be clicked in %s", size, len(seen), gatesPartNames[part])
			}
		}
	}
	p := NewGates(gatesScene(t, termenv.Ascii, 1))
	p.SetSize(118, 35)
	p.View()
	// The cell that was clicked is the one in brackets.
	l := p.layout().table
	for _, x := range []int{l.x + 17, l.x + 29, l.x + 37, l.x + 49} {
		p.HandleMouse(x, l.y+6, press)
		line := strings.Split(p.View(), "\n")[l.y+6]
		if from, to := Width(line[:strings.IndexByte(line, '[')]), Width(line[:strings.IndexByte(line, ']')]); x < from || x > to {
			t.Errorf("a click at %d selects the cell from %d to %d", x, from, to)
		}
	}
	at := p.layout().cases
	p.HandleMouse(at.x+2, at.y+5, tea.MouseMsg{Button: tea.MouseButtonWheelDown})
	if p.refresh(); p.focus != gatesCases || p.list.selected != 3 {
		t.Errorf("the wheel goes to case %d of part %d", p.list.selected, p.focus)
	}
}

// Runs of a session are gone through by < and >.
func TestGatesRuns(t *testing.T) {
	s := gatesScene(t, termenv.Ascii, 1)
	s.State.Gates = append(s.State.Gates, viewstest.Gates(viewstest.GateArms[:1], 2, 1))
	p := NewGates(s)
	p.SetSize(118, 35)
	if !strings.Contains(p.Title(), "run 1 of 2") {
		t.Error(p.Title())
	}
	hit(p, ">")
	if p.View(); s.Gates.At != 1 || !strings.Contains(p.Title(), "run 2 of 2") || len(p.book.run.Setup.Arms) != 3 {
		t.Errorf("> shows run %d: %s", s.Gates.At, p.Title())
	}
	hit(p, ">")
	if s.Gates.At != 0 {
		t.Error("> does not come back")
	}
	s.State.Gates[0].Settings = map[string]string{sessions.GateFault: "fused-scale", sessions.GateSpeculate: "2"}
	if title := p.Title(); !strings.Contains(title, "fault fused-scale · speculate 2") {
		t.Errorf("what is not as usual is not in %q", title)
	}
}
