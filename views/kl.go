package views

import (
	"math"
	"path/filepath"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/yardstick"
	"quantscope/sessions"
)

// KL is screen 5: candidates against the reference. A table of candidates stands
// on top; below it are the parts, as many as there is room for: how KL is
// distributed, where in a chunk and in which texts it is large, and what can be
// said of pairs, buckets, gates, probes and attribution. The work is the root's;
// the pane asks for it through the scene.
type KL struct {
	scene *Scene
	w, h  int

	level klLevel
	part  klPart // what a screen without room for all shows
	order int    // of the table
	at    int    // candidate that is selected, by its index in the setup
	rows  klRows
	table klList
	worst klList // of the selected candidate

	version uint64
	memo    klArranged
	drawn   klDrawing
	cached  string
}

// klLevel is which list has the keys.
type klLevel int

const (
	klCandidates klLevel = iota
	klPositions
	klFull // one position fills the screen
)

// klList is where a list stands.
type klList struct{ selected, top int }

// klDrawing is all that a picture depends on.
type klDrawing struct {
	version, scene uint64
	theme          *Theme
	report         *yardstick.Report
	state          *sessions.State
	w, h           int
}

// NewKL makes the pane.
func NewKL(s *Scene) *KL { return &KL{scene: s, at: -1} }

// Title says what is measured against what.
func (p *KL) Title() string {
	y := p.yard()
	if y == nil {
		return "KL to the reference"
	}
	s := y.Setup
	title := "KL to " + Clean(filepath.Base(s.Reference.Label)) + " in nats" // a path hides what is behind it
	if n := len(p.scene.State.Yards); n > 1 {
		title += " · measurement " + thousands(p.scene.KL.At+1) + " of " + thousands(n)
	}
	if done, of := y.Positions(); done < of {
		title += " · " + thousands(done) + " of " + thousands(of) + " positions"
	} else {
		title += " · " + thousands(of) + " positions"
	}
	if s.Positions == "half" {
		title += ", the second half of each chunk"
	}
	title += " · " + Clean(s.Activations) + " activations"
	if s.Keep != "" {
		title += " · kept: " + Clean(s.Keep)
	}
	return title
}

// SetSize sets the inner size.
func (p *KL) SetSize(w, h int) { p.w, p.h = w, h }

// Apply takes in what is new; a title counts positions.
func (p *KL) Apply(b sessions.Batch) {
	if b.Reset != nil || len(b.YardsBegun) > 0 || len(b.YardChunks) > 0 || len(b.YardsEnded) > 0 {
		p.version++
	}
	if w := &p.scene.KL; w.Running && b.Reset == nil { // what comes in is of what runs
		for _, y := range b.YardsBegun {
			w.Runs = y.Yard
		}
		for _, c := range b.YardChunks {
			w.Runs = c.Yard
		}
	}
}

// yard is the measurement that is shown, nil where there is none.
func (p *KL) yard() *sessions.Yard {
	ys := p.scene.State.Yards
	if at := p.scene.KL.At; at >= 0 && at < len(ys) {
		return ys[at]
	}
	return nil
}

// refresh brings the lists up to date and keeps the selections inside them.
func (p *KL) refresh() {
	r := p.scene.KL.Report
	if p.yard() == nil {
		r = nil
	}
	p.rows.update(p.scene.State, p.yard(), r, p.order)
	if r == nil {
		p.level = klCandidates
		return
	}
	if p.at < 0 || p.at >= len(r.Results) {
		p.at = p.rows.first()
	}
	p.table.selected = p.rows.row(p.at)
	p.rows.updateWorst(p.at)
	n := len(p.rows.worst)
	p.worst.selected = max(min(p.worst.selected, n-1), 0)
	if n == 0 && p.level != klCandidates {
		p.level = klCandidates
	}
	if !p.has(p.part) {
		p.part = p.nextPart(1)
	}
}

// Keys lists the keys of the pane.
func (p *KL) Keys() []Key {
	p.refresh()
	w := &p.scene.KL
	open := Key{Keys: []string{"enter"}, Label: "enter", Help: "worst positions of the candidate"}
	back := Key{Keys: []string{"esc"}, Label: "esc", Help: "back to the candidates"}
	next := Key{Keys: []string{"g"}, Label: "g", Help: "next worst position"}
	before := Key{Keys: []string{"G"}, Label: "G", Help: "worst position before"}
	part := Key{Keys: []string{"o"}, Label: "o", Help: "other view: " + klPartNames[p.nextPart(1)]}
	partBack := Key{Keys: []string{"O"}, Label: "O", Help: "view before"}
	order := Key{Keys: []string{"s"}, Label: "s", Help: "sort by " + klOrders[(p.order+1)%len(klOrders)].name}
	measure := Key{Keys: []string{"R"}, Label: "R", Help: "measure", Disabled: w.measureOff()}
	if y := p.yard(); y != nil && (y.End == nil || y.End.State != sessions.RunFinished) {
		measure.Help = "go on with the measurement"
	}
	choose := Key{Keys: []string{"c"}, Label: "c", Help: "choose candidates and corpora, and measure", Disabled: w.measureOff()}
	other := Key{Keys: []string{"n"}, Label: "n", Help: "next measurement"}
	otherBack := Key{Keys: []string{"N"}, Label: "N", Help: "measurement before"}
	if p.level == klPositions {
		open.Help = "the position in full"
	}
	if n := len(p.scene.State.Yards); n < 2 {
		other.Disabled = "there is no other measurement: R begins one"
		otherBack.Disabled = other.Disabled
	}
	none := ""
	if p.rows.report == nil {
		none = "nothing is scored yet"
	}
	part.Disabled, partBack.Disabled, order.Disabled = none, none, none
	switch {
	case none != "":
	case p.level == klFull:
		part.Disabled, partBack.Disabled = "esc leaves the position first", "esc leaves the position first"
	case p.layout().all:
		part.Disabled, partBack.Disabled = "everything is on the screen", "everything is on the screen"
	}
	if none == "" && len(p.rows.worst) == 0 {
		none = "no position of it has a figure"
	}
	open.Disabled, next.Disabled, before.Disabled = none, none, none
	if none == "" && p.level == klFull {
		open.Disabled = "the position is open already: esc goes back"
	}
	if p.rows.report == nil && w.Off == "" { // enter begins what the screen offers
		open.Help, open.Disabled = "measure", w.measureOff()
	}
	return []Key{
		open, back, measure, choose, part, partBack, order, next, before, other, otherBack,
		{Keys: []string{"up", "k"}, Label: "↑ k", Help: "row above"},
		{Keys: []string{"down", "j"}, Label: "↓ j", Help: "row below"},
		{Keys: []string{"pgup", "ctrl+b"}, Label: "pgup", Help: "a page up"},
		{Keys: []string{"pgdown", "ctrl+f"}, Label: "pgdn", Help: "a page down"},
		{Keys: []string{"home"}, Label: "home", Help: "first row"},
		{Keys: []string{"end"}, Label: "end", Help: "last row"},
	}
}

// HandleKey acts on the keys that Keys lists.
func (p *KL) HandleKey(k tea.KeyMsg) (bool, tea.Cmd) {
	p.refresh()
	page := max(p.listHeight()-1, 1)
	at := p.list().selected
	switch key := k.String(); key {
	case "enter":
		return p.enter(), nil
	case "esc":
		return p.leave(), nil
	case "R", "c":
		if p.scene.KL.measureOff() != "" {
			return false, nil
		}
		if key == "R" {
			p.scene.askKL(KLMeasure)
		} else {
			p.scene.askKL(KLDialog)
		}
	case "o":
		return p.turn(1), nil
	case "O":
		return p.turn(-1), nil
	case "s":
		if p.rows.report == nil {
			return false, nil
		}
		p.order = (p.order + 1) % len(klOrders)
		p.version++
	case "g":
		return p.walk(1), nil
	case "G":
		return p.walk(-1), nil
	case "n", "N":
		n := len(p.scene.State.Yards)
		if n < 2 {
			return false, nil
		}
		step := 1
		if key == "N" {
			step = n - 1
		}
		p.scene.showYard((max(p.scene.KL.At, 0) + step) % n)
	case "up", "k":
		p.moveTo(at - 1)
	case "down", "j":
		p.moveTo(at + 1)
	case "pgup", "ctrl+b":
		p.moveTo(at - page)
	case "pgdown", "ctrl+f":
		p.moveTo(at + page)
	case "home":
		p.moveTo(math.MinInt32)
	case "end":
		p.moveTo(math.MaxInt32)
	default:
		return false, nil
	}
	return true, nil
}

// list is the list that has the keys.
func (p *KL) list() *klList {
	if p.level == klCandidates {
		return &p.table
	}
	return &p.worst
}

// moveTo selects a row of the list that has the keys.
func (p *KL) moveTo(row int) {
	p.refresh()
	if p.level == klCandidates {
		row = max(min(row, len(p.rows.order)-1), 0)
		if row < len(p.rows.order) && p.rows.order[row] != p.at {
			p.at = p.rows.order[row]
			p.worst = klList{}
			p.version++
		}
		return
	}
	if row = max(min(row, len(p.rows.worst)-1), 0); row != p.worst.selected {
		p.worst.selected = row
		p.version++
	}
}

// enter goes from a candidate to its worst positions, and from one of them to
// all that is known of it; before there is anything it begins a measurement.
func (p *KL) enter() bool {
	switch {
	case p.rows.report == nil:
		if p.scene.KL.measureOff() != "" {
			return false
		}
		p.scene.askKL(KLMeasure)
	case len(p.rows.worst) == 0 || p.level == klFull:
		return false
	case p.level == klCandidates:
		p.level, p.part = klPositions, klWorst
	default:
		p.level = klFull
	}
	p.version++
	return true
}

// leave goes one level back.
func (p *KL) leave() bool {
	if p.level == klCandidates {
		return false
	}
	p.level--
	p.version++
	return true
}

// walk goes to the next worst position, from the first again after the last.
func (p *KL) walk(by int) bool {
	n := len(p.rows.worst)
	if n == 0 {
		return false
	}
	if p.level == klCandidates {
		p.level, p.part = klPositions, klWorst
		p.version++
		if by > 0 {
			return true
		}
	}
	p.moveTo((p.worst.selected + by + n) % n)
	return true
}

// turn shows another part where not all are on the screen.
func (p *KL) turn(by int) bool {
	if p.rows.report == nil || p.level == klFull || p.layout().all {
		return false
	}
	p.part = p.nextPart(by)
	if p.part != klWorst {
		p.level = klCandidates
	}
	p.version++
	return true
}

// HandleMouse selects by click and scrolls by wheel the list under the mouse.
func (p *KL) HandleMouse(x, y int, m tea.MouseMsg) (bool, tea.Cmd) {
	p.refresh()
	if p.rows.report == nil {
		return false, nil
	}
	step := 0
	switch {
	case m.Button == tea.MouseButtonWheelUp:
		step = -3
	case m.Button == tea.MouseButtonWheelDown:
		step = 3
	case m.Action == tea.MouseActionPress && m.Button == tea.MouseButtonLeft:
		level, row, ok := p.rowAt(x, y)
		if !ok {
			return false, nil
		}
		p.focus(level)
		p.moveTo(row)
		return true, nil
	default:
		return false, nil
	}
	if p.level != klFull {
		l := p.layout()
		switch {
		case l.table.has(x, y):
			p.focus(klCandidates)
		case l.parts[klWorst].has(x, y) && len(p.rows.worst) > 0:
			p.focus(klPositions)
		}
	}
	p.moveTo(p.list().selected + step)
	return true, nil
}

// focus gives a list the keys.
func (p *KL) focus(level klLevel) {
	if p.level != level {
		p.level = level
		p.version++
	}
}
