package views

// Keys lists the keys of the pane.
func (p *Gates) Keys() []Key {
	p.refresh()
	w := &p.scene.Gates
	open := Key{Keys: []string{"enter"}, Label: "enter", Help: "cases of the cell"}
	back := Key{Keys: []string{"esc"}, Label: "esc", Help: "back to the table"}
	part := Key{Keys: []string{"tab"}, Label: "tab", Help: "next part: " + gatesPartNames[(p.focus+1)%gatesParts]}
	before := Key{Keys: []string{"shift+tab"}, Label: "shift+tab", Help: "part before"}
	run := Key{Keys: []string{"R"}, Label: "R", Help: "run gates", Disabled: w.runOff()}
	choose := Key{Keys: []string{"c"}, Label: "c", Help: "choose suite, candidates and servers, and run", Disabled: w.runOff()}
	next := Key{Keys: []string{"n"}, Label: "n", Help: "next case that did not pass"}
	prior := Key{Keys: []string{"p"}, Label: "p", Help: "case before that did not pass"}
	order := Key{Keys: []string{"s"}, Label: "s", Help: "cases in the suite's order"}
	fold := Key{Keys: []string{"z"}, Label: "z", Help: "fold or unfold the group"}
	foldAll := Key{Keys: []string{"Z"}, Label: "Z", Help: "fold or unfold all groups"}
	other := Key{Keys: []string{">"}, Label: ">", Help: "next run"}
	otherBack := Key{Keys: []string{"<"}, Label: "<", Help: "run before"}
	left := Key{Keys: []string{"left", "h"}, Label: "← h", Help: "arm to the left"}
	right := Key{Keys: []string{"right", "l"}, Label: "→ l", Help: "arm to the right"}
	moves := []Key{
		{Keys: []string{"up", "k"}, Label: "↑ k", Help: "row above"},
		{Keys: []string{"down", "j"}, Label: "↓ j", Help: "row below"},
		{Keys: []string{"pgup", "ctrl+b"}, Label: "pgup", Help: "a page up"},
		{Keys: []string{"pgdown", "ctrl+f"}, Label: "pgdn", Help: "a page down"},
		{Keys: []string{"home"}, Label: "home", Help: "first row"},
		{Keys: []string{"end"}, Label: "end", Help: "last row"},
	}
	if GatesLeft(p.run()) {
		run.Help = "go on with the run"
	}
	if p.inOrder {
		order.Help = "cases that failed first"
	}
	if len(p.scene.State.Gates) < 2 {
		other.Disabled = "there is no other run: R begins one"
		otherBack.Disabled = other.Disabled
	}
	none := ""
	switch {
	case p.run() == nil:
		none = "no gates were run yet"
	case !p.shown():
		none = "no probe matches the filter: esc shows all"
	}
	for _, k := range []*Key{&part, &before, &next, &prior, &order, &fold, &foldAll, &left, &right} {
		k.Disabled = none
	}
	if none == "" {
		if p.full {
			part.Disabled, before.Disabled = "esc leaves what fills the screen first", "esc leaves what fills the screen first"
		}
		if p.items.failing == 0 {
			next.Disabled = "all of its answers passed, as far as they are there"
			prior.Disabled = next.Disabled
		}
		if !p.foldable(false) {
			fold.Disabled = "this row is in no group"
		}
		if !p.foldable(true) {
			foldAll.Disabled = "no group has several probes"
		}
		switch p.focus {
		case gatesCases:
			left.Help, right.Help = "pass before", "next pass"
			open.Help = "the case in full"
		case gatesChecks:
			open.Help = "the check in full"
			left.Disabled, right.Disabled = "checks have no columns", "checks have no columns"
		}
		if p.full {
			open.Disabled = "it is open already: esc goes back"
			moves[0].Help, moves[1].Help = "a line up", "a line down"
		} else if p.focus != gatesChecks && len(p.items.list) == 0 {
			open.Disabled = "the cell has no cases"
		}
		if p.focus == gatesArms && !p.full {
			for i := range moves {
				moves[i].Disabled = "← and → choose the arm; tab goes on to the table"
			}
		}
	} else {
		open.Disabled = none
		for i := range moves {
			moves[i].Disabled = none
		}
	}
	if p.run() == nil && w.Off == "" { // enter begins what the screen offers
		open.Help, open.Disabled = "run gates", w.runOff()
	}
	return append([]Key{open, back, part, before, run, choose, next, prior, order, fold, foldAll, other, otherBack, left, right}, moves...)
}

// InCases says that the cases have the keys, and that they do not fill the screen.
func (p *Gates) InCases() bool { return p.focus == gatesCases && !p.full }

// CanLeave says that esc goes back to something within the screen.
func (p *Gates) CanLeave() bool {
	return p.full || p.focus != gatesTable || p.filter.match != nil
}
