package views

import (
	"regexp"
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/census"
	"quantscope/sessions"
)

// Audit shows in four parts whether a checkpoint is what was asked for. The census:
// per layer how many matrices that a server fuses have different second-level
// scales and by how much, the pairs of a layer, the proof against a master. What
// lint found. The plan of the recipe that the session follows. What ran instead of
// what was requested. The work is the root's; the pane asks for it through the
// scene.
type Audit struct {
	scene *Scene
	w, h  int

	part  auditPart
	level auditLevel
	only  bool // of the pairs those that differ
	lists [auditLevels]auditList
	layer int // of the report, whose pairs are listed
	rows  auditRows
	at    int // subject that the lists are of

	opened bool // what is selected has the keys
	pages  [auditParts]auditPager
	inside auditPager                   // what is opened
	docs   [auditParts + 1]auditDocMemo // the last one is what is opened
	order  int                          // of findings
	filter string                       // of findings, as typed
	match  *regexp.Regexp               // nil for none
	invert bool
	planAt int // recipe whose plan is shown, -1 for that of the variant that is

	names     auditNames
	effective effectiveMemo

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
func NewAudit(s *Scene) *Audit { return &Audit{scene: s, planAt: -1} }

// Title says which checkpoint is looked at, or which recipe.
func (p *Audit) Title() string {
	switch p.part {
	case auditPlan:
		return p.planTitle()
	case auditFallbacks:
		return "Audit · what ran of what was requested"
	}
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
	if p.at != p.scene.Audits.At {
		p.pages[auditFindings] = auditPager{}
		p.opened = p.opened && p.part != auditFindings
	}
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
	p.settleParts()
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

// moveTo selects a row; of the pairs the cursor of the scene follows.
func (p *Audit) moveTo(row int) {
	p.refresh()
	l := &p.lists[p.level]
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

// leave stops what runs, or goes back: from what is opened to its list, from that
// to the census, from pairs to the layers.
func (p *Audit) leave() bool {
	switch {
	case p.scene.Audits.Running:
		p.scene.ask(AskStop)
	case p.opened:
		p.opened = false
		p.version++
	case p.part == auditFindings && p.filter != "":
		_ = p.SetFilterText("") // which matches
	case p.part != auditCensus:
		p.showPart(auditCensus)
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
// by wheel; a click on the name of a part shows it.
func (p *Audit) HandleMouse(x, y int, m tea.MouseMsg) (bool, tea.Cmd) {
	p.refresh()
	click := m.Action == tea.MouseActionPress && m.Button == tea.MouseButtonLeft
	if y == 0 && auditBarLines(p.h) > 0 {
		if click {
			_, spans := p.partBar(p.w)
			for _, s := range spans {
				if x >= s.from && x < s.to {
					p.showPart(s.part)
					return true, nil
				}
			}
		}
		return false, nil
	}
	if p.part != auditCensus {
		return p.partsMouse(x, y, m), nil
	}
	switch {
	case m.Button == tea.MouseButtonWheelUp:
		p.moveTo(p.lists[p.level].selected - 3)
	case m.Button == tea.MouseButtonWheelDown:
		p.moveTo(p.lists[p.level].selected + 3)
	case click && p.layout().findings.has(x, y):
		p.showPart(auditFindings)
	case click:
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
