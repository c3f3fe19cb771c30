package views

import (
	"maps"
	"math"
	"path/filepath"
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/gates"
	"quantscope/sessions"
)

// Gates is screen 6: probes against arms. A table says how many answers of each arm
// passed; beside it, or in its place where there is less room, stand the cases of
// the cell under the cursor with what was asked and answered, what became of the
// checks of the measurement itself, and what the arms told of themselves. The work
// is the root's; the pane asks for it through the scene.
type Gates struct {
	scene *Scene
	w, h  int

	focus  gatesPart // which part has the keys
	full   bool      // a case, or a check, fills the screen
	at     gatesRowID
	arm    int
	top    int // first row of the table that is shown
	left   int // first arm after the baseline that is shown
	folded map[string]bool
	filter gatesFilter

	inOrder bool // cases stand as in the suite; else those that failed first
	picked  bool // the person chose a case; else it is the first of the list
	cased   gatesCaseID
	pass    int
	list    klList // of cases
	scroll  int    // of the case's text
	checks  klList

	book  gatesBook
	index gatesIndex
	rows  []gatesRow
	made  gatesRowsMade
	items gatesItems

	version uint64
	memo    gatesArranged
	doc     gatesDoc
	spans   [len(gatesSpoken)]gatesSpans
	drawn   gatesDrawing
	cached  string
}

// gatesCaseID names a case.
type gatesCaseID struct{ probe, of int }

// gatesRowsMade is what the list of rows was made of.
type gatesRowsMade struct {
	setup   *gates.Setup
	version uint64
}

// gatesDrawing is all that a picture depends on.
type gatesDrawing struct {
	version, scene uint64
	theme          *Theme
	report         *gates.Report
	state          *sessions.State
	seen           int
	w, h           int
}

// NewGates makes the pane.
func NewGates(s *Scene) *Gates {
	return &Gates{scene: s, folded: map[string]bool{}, cased: gatesCaseID{-1, -1}, at: gatesRowID{probe: -1}}
}

// Title says which suite is asked of whom.
func (p *Gates) Title() string {
	g := p.run()
	if g == nil {
		return "Gates"
	}
	s := g.Setup
	title := "Gates: suite " + Clean(s.Suite)
	if len(s.Arms) > 0 {
		title += " against " + Clean(filepath.Base(s.Arms[0].Label))
	}
	if n := len(p.scene.State.Gates); n > 1 {
		title += " · run " + thousands(p.scene.Gates.At+1) + " of " + thousands(n)
	}
	done, of := len(g.Results), s.Answers()
	if done < of {
		title += " · " + thousands(done) + " of " + plural(of, "answer")
	} else {
		title += " · " + plural(of, "answer")
	}
	title += " · " + plural(len(s.Probes), "probe")
	if s.Texts != nil {
		title += " · log probabilities on " + Clean(s.Texts.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(g.Settings)) { // what is not as usual
		title += " · " + Clean(name) + " " + Clean(g.Settings[name])
	}
	return title
}

// SetSize sets the inner size.
func (p *Gates) SetSize(w, h int) { p.w, p.h = w, h }

// Apply takes in what is new; a title counts answers.
func (p *Gates) Apply(b sessions.Batch) {
	if b.Reset != nil || len(b.GatesBegun)+len(b.GatesOpened)+len(b.GatesAnswered)+len(b.GatesMetered)+len(b.GatesEnded) > 0 {
		p.version++
	}
	if w := &p.scene.Gates; w.Running && b.Reset == nil { // what comes in is of what runs
		for _, g := range b.GatesBegun {
			w.Runs = g.Run
		}
		for _, a := range b.GatesAnswered {
			w.Runs = a.Run
		}
	}
	if len(b.GatesAnswered) > 0 {
		var mine []*gates.Result
		for _, a := range b.GatesAnswered {
			if a.Run == p.scene.Gates.At {
				mine = append(mine, a.Result)
			}
		}
		p.book.note(p.run(), mine)
	}
}

// run is the run that is shown, nil where there is none.
func (p *Gates) run() *sessions.GateRun {
	gs := p.scene.State.Gates
	if at := p.scene.Gates.At; at >= 0 && at < len(gs) && gs[at].Setup != nil {
		return gs[at]
	}
	return nil
}

// moving says that more answers may come at any time.
func (p *Gates) moving() bool {
	g := p.run()
	return g != nil && g.End == nil && p.scene.Mode != sessions.Saved
}

// refresh brings rows and cases up to date and keeps the selections inside them.
func (p *Gates) refresh() {
	g := p.run()
	p.book.update(g)
	r := p.scene.Gates.Report
	if g == nil || r != nil && r.Setup != g.Setup {
		r = nil
	}
	p.index.update(r)
	if g == nil || len(g.Setup.Arms) == 0 || len(g.Setup.Probes) == 0 {
		p.rows, p.focus, p.full, p.made = nil, gatesTable, false, gatesRowsMade{}
		return
	}
	s := g.Setup
	if now := (gatesRowsMade{s, p.version}); p.made != now {
		p.made = now
		p.rows = gatesRowsOf(s, p.folded, func(i int) bool { return p.filter.shows(s, i) })
	}
	p.arm = max(min(p.arm, len(s.Arms)-1), 0)
	if len(p.rows) == 0 {
		p.focus, p.full = gatesTable, false
		return
	}
	if gatesRowIndex(p.rows, p.at) < 0 {
		p.at = p.first().gatesRowID
	}
	p.items.update(p)
	if p.focus == gatesCases && len(p.items.list) == 0 {
		p.focus, p.full = gatesTable, false
	}
	if n := len(p.checkItems()); p.checks.selected >= n {
		p.checks.selected = max(n-1, 0)
	}
}

// first is the row that is selected at the beginning: the first probe.
func (p *Gates) first() *gatesRow {
	for i := range p.rows {
		if p.rows[i].kind == gatesProbeRow {
			return &p.rows[i]
		}
	}
	return &p.rows[0]
}

// row is the selected row of the table.
func (p *Gates) row() *gatesRow { return &p.rows[max(gatesRowIndex(p.rows, p.at), 0)] }

// shown says that there is a table to look at.
func (p *Gates) shown() bool { return p.book.run != nil && len(p.rows) > 0 }

// moveTo selects a row of the part that has the keys.
func (p *Gates) moveTo(row int) {
	if !p.shown() {
		return
	}
	switch p.focus {
	case gatesTable, gatesArms:
		row = max(min(row, len(p.rows)-1), 0)
		if p.focus == gatesArms {
			return
		}
		if p.rows[row].gatesRowID != p.at {
			p.at = p.rows[row].gatesRowID
			p.other()
		}
	case gatesCases:
		if row = max(min(row, len(p.items.list)-1), 0); row != p.list.selected {
			p.cased, p.pass, p.scroll, p.picked = p.items.list[row].gatesCaseID, 0, 0, true
			p.version++
		}
	case gatesChecks:
		if row = max(min(row, len(p.checkItems())-1), 0); row != p.checks.selected {
			p.checks.selected = row
			p.version++
		}
	}
}

// other begins with the cases of another cell.
func (p *Gates) other() {
	p.cased, p.pass, p.scroll, p.picked, p.list = gatesCaseID{-1, -1}, 0, 0, false, klList{}
	p.version++
}

// selected is where the selection of the part with the keys is, of how many.
func (p *Gates) selected() (at, n int) {
	switch p.focus {
	case gatesCases:
		return p.list.selected, len(p.items.list)
	case gatesChecks:
		return p.checks.selected, len(p.checkItems())
	}
	return max(gatesRowIndex(p.rows, p.at), 0), len(p.rows)
}

// moveArm selects another arm, or another pass of the case.
func (p *Gates) moveArm(by int) bool {
	g := p.book.run
	if p.focus == gatesCases {
		if !p.shown() || p.cased.probe < 0 {
			return false
		}
		n := g.Setup.Probes[p.cased.probe].Passes
		if to := max(min(p.pass+by, n-1), 0); to != p.pass {
			p.pass, p.scroll, p.picked = to, 0, true
			p.version++
		}
		return true
	}
	if !p.shown() || p.focus == gatesChecks {
		return false
	}
	if to := max(min(p.arm+by, len(g.Setup.Arms)-1), 0); to != p.arm {
		p.arm = to
		p.other()
	}
	return true
}

// enter goes from a cell to its cases, from one of them to all of it, folds a group
// that has nothing else, and begins a run where there is none.
func (p *Gates) enter() bool {
	switch {
	case p.run() == nil:
		if p.scene.Gates.runOff() != "" {
			return false
		}
		p.scene.askGates(GatesRun)
	case !p.shown() || p.full:
		return false
	case p.focus == gatesTable || p.focus == gatesArms:
		if len(p.items.list) == 0 {
			return false
		}
		p.focus = gatesCases
	default:
		p.full, p.scroll, p.picked = true, 0, true
	}
	p.version++
	return true
}

// leave goes one level back, and shows all probes again where there is none.
func (p *Gates) leave() bool {
	switch {
	case p.full:
		p.full, p.scroll = false, 0
	case p.focus != gatesTable:
		p.focus = gatesTable
	case p.filter.match != nil:
		_ = p.filter.set("")
	default:
		return false
	}
	p.version++
	return true
}

// nextPart gives the keys to another part.
func (p *Gates) nextPart(by int) bool {
	if !p.shown() || p.full {
		return false
	}
	p.focus = (p.focus + gatesPart(by) + gatesParts) % gatesParts
	if p.focus == gatesCases && len(p.items.list) == 0 {
		p.focus = (p.focus + gatesPart(by) + gatesParts) % gatesParts
	}
	p.version++
	return true
}

// walk goes to the next case that did not pass, from the first again after the last.
func (p *Gates) walk(by int) bool {
	n := len(p.items.list)
	if !p.shown() || n == 0 || p.items.failing == 0 {
		return false
	}
	at := p.list.selected
	if p.focus != gatesCases {
		p.focus, p.full = gatesCases, false
		p.version++
		if by > 0 {
			at = n - 1
		} else {
			at = 0
		}
	}
	for range n {
		at = (at + by + n) % n
		if p.items.list[at].failed {
			p.moveTo(at)
			p.pass, p.picked = p.items.list[at].pass, true
			return true
		}
	}
	return false
}

// fold hides the probes of a group behind their sum, or shows them.
func (p *Gates) fold(all bool) bool {
	if !p.shown() || !p.foldable(all) {
		return false
	}
	s := p.book.run.Setup
	if all {
		any := false
		for i := range s.Probes {
			any = any || !p.folded[gatesGroup(s, i)]
		}
		for i := range s.Probes {
			p.folded[gatesGroup(s, i)] = any
		}
	} else {
		r := p.row()
		g := r.group
		if r.kind == gatesProbeRow {
			g = gatesGroup(s, r.probe)
		}
		p.folded[g] = !p.folded[g]
		if p.folded[g] {
			p.at = gatesRowID{kind: gatesGroupRow, probe: -1, group: g}
		}
	}
	p.other()
	return true
}

// foldable says whether there is a group to fold: the selected row's, or any.
func (p *Gates) foldable(all bool) bool {
	for i := range p.rows {
		if p.rows[i].kind == gatesGroupRow && (all || p.rows[i].group == p.at.group) {
			return true
		}
	}
	return !all && p.shown() && p.row().inner
}

// Searching says whether the filter that is typed is that of the probes.
func (p *Gates) Searching() bool { return p.run() != nil }

// FilterText is the filter of the probes as it was typed.
func (p *Gates) FilterText() string { return p.filter.text }

// FilterCount is how many probes the filter leaves, of how many.
func (p *Gates) FilterCount() (n, of int) {
	g := p.run()
	if g == nil {
		return 0, 0
	}
	for i := range g.Setup.Probes {
		if p.filter.shows(g.Setup, i) {
			n++
		}
	}
	return n, len(g.Setup.Probes)
}

// FilterNoun is what the filter counts.
func (p *Gates) FilterNoun() string { return "probe" }

// SetFilterText shows only probes whose ID or group matches.
func (p *Gates) SetFilterText(text string) error {
	if text == p.filter.text {
		return nil
	}
	if err := p.filter.set(text); err != nil {
		return err
	}
	p.focus, p.full, p.top = gatesTable, false, 0
	p.version++
	return nil
}

// page is how far a page goes.
func (p *Gates) page() int { return max(p.layout().part(p.focus).h-3, 1) }

// to is where a key moves a selection or a text of n lines.
func gatesMove(key string, at, page int) (to int, ok bool) {
	switch key {
	case "up", "k":
		return at - 1, true
	case "down", "j":
		return at + 1, true
	case "pgup", "ctrl+b":
		return at - page, true
	case "pgdown", "ctrl+f":
		return at + page, true
	case "home":
		return math.MinInt32, true
	case "end":
		return math.MaxInt32, true
	}
	return 0, false
}

// HandleKey acts on the keys that Keys lists.
func (p *Gates) HandleKey(k tea.KeyMsg) (bool, tea.Cmd) {
	p.refresh()
	key := k.String()
	at, n := p.selected()
	page := p.page()
	if p.full {
		at, n, page = p.scroll, len(p.fullLines()), max(p.h-2, 1)
	}
	if to, ok := gatesMove(key, at, page); ok {
		switch {
		case p.full:
			if to = max(min(to, n-p.h), 0); to != p.scroll {
				p.scroll = to
				p.version++
			}
		case !p.shown() || p.focus == gatesArms:
			return false, nil
		default:
			p.moveTo(to)
		}
		return p.shown(), nil
	}
	return p.command(key), nil
}

// command acts on the keys that do not move.
func (p *Gates) command(key string) bool {
	switch key {
	case "enter":
		return p.enter()
	case "esc":
		return p.leave()
	case "tab":
		return p.nextPart(1)
	case "shift+tab":
		return p.nextPart(-1)
	case "left", "h":
		return p.moveArm(-1)
	case "right", "l":
		return p.moveArm(1)
	case "n":
		return p.walk(1)
	case "p":
		return p.walk(-1)
	case "z":
		return p.fold(false)
	case "Z":
		return p.fold(true)
	case "s":
		if !p.shown() {
			return false
		}
		p.inOrder = !p.inOrder
		p.version++
	case "R", "c":
		if p.scene.Gates.runOff() != "" {
			return false
		}
		if key == "R" {
			p.scene.askGates(GatesRun)
		} else {
			p.scene.askGates(GatesDialog)
		}
	case "<", ">":
		n := len(p.scene.State.Gates)
		if n < 2 {
			return false
		}
		step := 1
		if key == "<" {
			step = n - 1
		}
		p.scene.showGates((max(p.scene.Gates.At, 0) + step) % n)
		p.focus, p.full, p.top, p.left = gatesTable, false, 0, 0
		p.other()
	default:
		return false
	}
	return true
}
