package views

import (
	"math"
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/census"
	"quantscope/sessions"
)

// Audit shows what a server will do to the scales of a checkpoint: per layer how
// many matrices that it fuses have different second-level scales and by how
// much, the pairs of a layer, the proof against a master, and what lint found.
// The work is the root's; the pane asks for it through the scene.
type Audit struct {
	scene *Scene
	w, h  int

	level      auditLevel
	findings   bool // a screen without room for both shows the findings
	findingTop int
	only       bool // of the pairs those that differ
	lists      [auditLevels]auditList
	layer      int // of the report, whose pairs are listed
	rows       auditRows
	at         int // subject that the lists are of

	version uint64
	drawn   auditDrawing
	cached  string
}

// auditLevel is how deep the person looks.
type auditLevel int

const (
	auditLayers auditLevel = iota
	auditPairs
	auditLevels
)

// auditList is where a list stands and how it is sorted.
type auditList struct{ selected, top, order int }

// auditDrawing is all that a picture depends on.
type auditDrawing struct {
	version, scene uint64
	theme          *Theme
	w, h           int
}

// NewAudit makes the audit screen of a scene.
func NewAudit(s *Scene) *Audit { return &Audit{scene: s} }

// Title says which checkpoint is looked at.
func (p *Audit) Title() string {
	s := p.scene.Audits.Shown()
	if s == nil {
		return "Audit"
	}
	title := "Audit · " + s.What + " " + Clean(s.Path)
	if n := len(p.scene.Audits.Subjects); n > 1 {
		title += " · " + thousands(p.scene.Audits.At+1) + " of " + thousands(n)
	}
	if s.Audit != nil && p.findingsCount() > 0 {
		title += " · " + findingsTitle(s.Audit)
	}
	if s.Audit != nil && s.Audit.Census.Layout != "" {
		title += " · " + Clean(s.Audit.Census.Layout)
		if c := s.Audit.Census.Convention; c != "" {
			title += ", stored as " + Clean(c)
		}
	}
	return title
}

// SetSize sets the inner size.
func (p *Audit) SetSize(w, h int) { p.w, p.h = w, h }

// Apply takes in what is new; audits come through the scene.
func (p *Audit) Apply(sessions.Batch) {}

// report is the census that is shown, nil where there is none.
func (p *Audit) report() *census.Report {
	if s := p.scene.Audits.Shown(); s != nil && s.Audit != nil {
		return s.Audit.Census
	}
	return nil
}

// refresh brings the lists up to date and keeps the selection inside them. A proof
// of what is looked at, or another audit of it, leaves the person where they are.
func (p *Audit) refresh() {
	r := p.report()
	again := p.at == p.scene.Audits.At && sameLayers(p.rows.report, r)
	p.at = p.scene.Audits.At
	if r != p.rows.report && !again {
		p.level, p.layer, p.lists[auditLayers].selected, p.lists[auditPairs].selected = auditLayers, 0, 0, 0
	}
	moved := r != p.rows.report
	p.rows.update(r, p.lists[auditLayers].order)
	l := &p.lists[auditLayers]
	if i := slices.Index(p.rows.layers, p.layer); again && moved && i >= 0 {
		l.selected = i
	}
	l.selected = max(min(l.selected, len(p.rows.layers)-1), 0)
	if p.level == auditLayers && l.selected < len(p.rows.layers) {
		p.layer = p.rows.layers[l.selected]
	}
	p.rows.updatePairs(p.layer, p.lists[auditPairs].order, p.only)
	l = &p.lists[auditPairs]
	l.selected = max(min(l.selected, len(p.rows.pairs)-1), 0)
}

// sameLayers says that two reports have the same layers in the same order.
func sameLayers(a, b *census.Report) bool {
	return a != nil && b != nil && slices.EqualFunc(a.Layers, b.Layers, func(x, y census.Layer) bool {
		return x.Layer == y.Layer && x.Set == y.Set && x.Kind == y.Kind && len(x.Groups) == len(y.Groups)
	})
}

// count is how many rows the list of a level has.
func (p *Audit) count(l auditLevel) int {
	if l == auditPairs {
		return len(p.rows.pairs)
	}
	return len(p.rows.layers)
}

// Keys lists the keys of the pane.
func (p *Audit) Keys() []Key {
	p.refresh()
	w := &p.scene.Audits
	open := Key{Keys: []string{"enter"}, Label: "enter", Help: "pairs of the layer"}
	back := Key{Keys: []string{"esc"}, Label: "esc", Help: "stop what runs, or back to the layers"}
	order := Key{Keys: []string{"s"}, Label: "s", Help: "sort by " + p.nextOrder()}
	only := Key{Keys: []string{"d"}, Label: "d", Help: "pairs that differ, or all"}
	next := Key{Keys: []string{"g"}, Label: "g", Help: "next that differs"}
	list := Key{Keys: []string{"f"}, Label: "f", Help: "findings, or the census"}
	again := Key{Keys: []string{"R"}, Label: "R", Help: "audit anew"}
	proof := Key{Keys: []string{"p"}, Label: "p", Help: "prove against the master what a server does", Disabled: w.proofOff()}
	folder := Key{Keys: []string{"o"}, Label: "o", Help: "name a checkpoint", Disabled: w.Off}
	other := Key{Keys: []string{"n"}, Label: "n", Help: "next checkpoint"}
	before := Key{Keys: []string{"N"}, Label: "N", Help: "checkpoint before"}
	if len(w.Subjects) < 2 {
		other.Disabled = "there is one checkpoint: o names another"
		before.Disabled = other.Disabled
	}
	none := ""
	if len(p.rows.layers) == 0 {
		none = "there are no pairs"
	}
	order.Disabled, only.Disabled, next.Disabled = none, none, none
	if p.level == auditPairs {
		open.Help = "open the tensor"
	}
	switch {
	case none != "":
		open.Disabled = none
	case p.level == auditPairs && p.tensor() < 0:
		open.Disabled = "the session does not measure this matrix"
	}
	if r := p.report(); none == "" && r.Differing == 0 {
		only.Disabled, next.Disabled = "all pairs are equal", "all pairs are equal"
	}
	if w.Running {
		again.Disabled = "an audit is under way: esc stops it"
	} else if w.Off != "" {
		again.Disabled = w.Off
	}
	if p.findingsCount() == 0 {
		list.Disabled = "there are no findings"
	}
	return []Key{
		open, back, proof, folder, next, order, only, list, other, before, again,
		{Keys: []string{"up", "k"}, Label: "↑ k", Help: "row above"},
		{Keys: []string{"down", "j"}, Label: "↓ j", Help: "row below"},
		{Keys: []string{"pgup", "ctrl+b"}, Label: "pgup", Help: "a page up"},
		{Keys: []string{"pgdown", "ctrl+f"}, Label: "pgdn", Help: "a page down"},
		{Keys: []string{"home"}, Label: "home", Help: "first row"},
		{Keys: []string{"end"}, Label: "end", Help: "last row"},
	}
}

// HandleKey acts on the keys that Keys lists.
func (p *Audit) HandleKey(k tea.KeyMsg) (bool, tea.Cmd) {
	p.refresh()
	w := &p.scene.Audits
	l := &p.lists[p.level]
	page := max(p.listHeight()-1, 1)
	switch key := k.String(); key {
	case "enter":
		return p.enter(), nil
	case "esc":
		return p.leave(), nil
	case "p":
		if w.proofOff() != "" {
			return false, nil
		}
		p.scene.ask(AskProof)
	case "o":
		p.scene.ask(AskFolder)
	case "R":
		p.scene.ask(AskAgain)
	case "n", "N":
		n := len(w.Subjects)
		if n < 2 {
			return false, nil
		}
		step := 1
		if key == "N" {
			step = n - 1
		}
		p.scene.showAudit((w.At + step) % n)
	case "g":
		return p.nextDiffering(), nil
	case "s":
		l.order = (l.order + 1) % len(p.orders())
		l.selected, l.top = 0, 0
		p.version++
	case "d":
		p.only = !p.only
		p.lists[auditPairs].selected, p.lists[auditPairs].top = 0, 0
		p.version++
	case "f":
		if p.findingsCount() == 0 {
			return false, nil
		}
		p.findings, p.findingTop = !p.findings, 0
		p.version++
	case "up", "k":
		p.moveTo(l.selected - 1)
	case "down", "j":
		p.moveTo(l.selected + 1)
	case "pgup", "ctrl+b":
		p.moveTo(l.selected - page)
	case "pgdown", "ctrl+f":
		p.moveTo(l.selected + page)
	case "home":
		p.moveTo(math.MinInt32)
	case "end":
		p.moveTo(math.MaxInt32)
	default:
		return false, nil
	}
	return true, nil
}

// moveTo selects a row; of the pairs the cursor of the scene follows.
func (p *Audit) moveTo(row int) {
	p.refresh()
	l := &p.lists[p.level]
	if p.findings {
		p.scrollFindings(row - l.selected)
		return
	}
	row = max(min(row, p.count(p.level)-1), 0)
	if row == l.selected {
		return
	}
	l.selected = row
	if p.level == auditLayers {
		p.lists[auditPairs].selected, p.lists[auditPairs].top = 0, 0
	}
	p.version++
	p.follow()
}

// scrollFindings scrolls them where they fill the screen.
func (p *Audit) scrollFindings(by int) {
	most := max(len(p.findingLines(p.w))-p.layout().findings.h+1, 0)
	if top := max(min(p.findingTop+by, most), 0); top != p.findingTop {
		p.findingTop = top
		p.version++
	}
}

// follow puts the cursor of the scene on the tensor of the selected pair.
func (p *Audit) follow() {
	p.refresh()
	if t := p.tensor(); p.level == auditPairs && t >= 0 {
		p.scene.SetCursor(t)
	}
}

// enter goes from a layer to its pairs, and leaves a pair to the root, which
// opens the tensor under the cursor.
func (p *Audit) enter() bool {
	if p.level == auditPairs {
		p.follow()
		return false
	}
	if p.count(auditPairs) == 0 && !p.only {
		return false
	}
	p.level = auditPairs
	p.version++
	p.follow()
	return true
}

// leave stops what runs, or goes back to the layers.
func (p *Audit) leave() bool {
	switch {
	case p.scene.Audits.Running:
		p.scene.ask(AskStop)
	case p.findings:
		p.findings = false
		p.version++
	case p.level == auditPairs:
		p.level = auditLayers
		p.version++
	default:
		return false
	}
	return true
}

// nextDiffering selects the next row that differs, from the beginning again
// after the last one.
func (p *Audit) nextDiffering() bool {
	n, l := p.count(p.level), &p.lists[p.level]
	for i := 1; i <= n; i++ {
		row := (l.selected + i) % n
		differs := false
		if p.level == auditPairs {
			differs = p.rows.pairs[row].differs()
		} else {
			differs = p.rows.report.Layers[p.rows.layers[row]].Differing > 0
		}
		if differs {
			p.moveTo(row)
			return true
		}
	}
	return false
}

// HandleMouse selects by click, of the pairs beside the layers too, and scrolls
// by wheel.
func (p *Audit) HandleMouse(x, y int, m tea.MouseMsg) (bool, tea.Cmd) {
	p.refresh()
	switch {
	case m.Button == tea.MouseButtonWheelUp:
		p.moveTo(p.lists[p.level].selected - 3)
	case m.Button == tea.MouseButtonWheelDown:
		p.moveTo(p.lists[p.level].selected + 3)
	case m.Action == tea.MouseActionPress && m.Button == tea.MouseButtonLeft:
		level, row, ok := p.rowAt(x, y)
		if !ok {
			return false, nil
		}
		if level != p.level {
			p.level = level
			p.version++
		}
		p.moveTo(row)
	default:
		return false, nil
	}
	return true, nil
}
