package views

import (
	"fmt"
	"slices"
	"strings"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/grade"
)

// gatesItem is one case of the list.
type gatesItem struct {
	gatesCaseID
	failed bool // a pass did not pass
	pass   int  // the first that did not
}

// gatesItems are the cases of the selected cell.
type gatesItems struct {
	list    []gatesItem
	failing int
	of      gatesItemsOf
}

// gatesItemsOf is what the list was made of.
type gatesItemsOf struct {
	setup   *gates.Setup
	at      gatesRowID
	arm     int
	inOrder bool
	changes uint64
	version uint64
}

// update lists the cases of the selected cell: those that failed first, unless the
// suite's order is asked for.
func (l *gatesItems) update(p *Gates) {
	of := gatesItemsOf{p.book.run.Setup, p.at, p.arm, p.inOrder, p.book.changes, p.made.version}
	if l.of != of {
		*l = gatesItems{of: of, list: l.list[:0]}
		s := p.book.run.Setup
		for _, probe := range p.row().probes {
			cell := &p.book.cells[probe][p.arm]
			passes := s.Probes[probe].Passes
			for c := range s.Probes[probe].Cases {
				it := gatesItem{gatesCaseID: gatesCaseID{probe, c}}
				for pass := range passes {
					if i := c*passes + pass; i < len(cell.results) && cell.results[i] != nil && !cell.results[i].Verdict.Passed {
						it.failed, it.pass = true, pass
						l.failing++
						break
					}
				}
				l.list = append(l.list, it)
			}
		}
		if !p.inOrder {
			slices.SortStableFunc(l.list, func(a, b gatesItem) int {
				switch {
				case a.failed && !b.failed:
					return -1
				case b.failed && !a.failed:
					return 1
				}
				return 0
			})
		}
	}
	at := slices.IndexFunc(l.list, func(it gatesItem) bool { return it.gatesCaseID == p.cased })
	if at < 0 || !p.picked {
		at = 0
		p.cased, p.pass = gatesCaseID{-1, -1}, 0
		if len(l.list) > 0 {
			p.cased, p.pass = l.list[0].gatesCaseID, l.list[0].pass
		}
	}
	p.list.selected = at
	if p.cased.probe >= 0 {
		p.pass = max(min(p.pass, p.book.run.Setup.Probes[p.cased.probe].Passes-1), 0)
	}
}

// gatesGlyph is the sign of one answer.
func gatesGlyph(r *gates.Result) string {
	if r == nil {
		return "·"
	}
	if r.Verdict.Passed {
		return "✓"
	}
	switch r.Verdict.Fault {
	case grade.Erred:
		return "!"
	case grade.Empty:
		return "∅"
	case grade.Truncated:
		return "…"
	case grade.Replacement:
		return "\ufffd"
	}
	return "✗"
}

const gatesStrip = 6 // passes whose signs stand beside each other; of more, how many passed

// strip is the signs of the passes of a case under an arm.
func (p *Gates) strip(id gatesCaseID, arm int) string {
	n := p.book.run.Setup.Probes[id.probe].Passes
	var b strings.Builder
	passed, there := 0, 0
	for pass := range n {
		r := p.book.result(gates.Key{Arm: arm, Probe: id.probe, Case: id.of, Pass: pass})
		if r != nil {
			there++
			if r.Verdict.Passed {
				passed++
			}
		}
		if n <= gatesStrip {
			b.WriteString(gatesGlyph(r))
		}
	}
	if n > gatesStrip {
		return fmt.Sprintf("%d/%d", passed, there)
	}
	return b.String()
}

// reason is what is said of a case in a line: of the first pass that failed, or of
// the first.
func (p *Gates) reason(it *gatesItem) string {
	r := p.book.result(gates.Key{Arm: p.arm, Probe: it.probe, Case: it.of, Pass: it.pass})
	if r == nil {
		return "not asked yet"
	}
	return steady(r.Verdict.Reason)
}

// cellWords is the figures of the selected cell: n of m with the interval.
func (p *Gates) cellWords() string {
	row := p.row()
	c := p.book.sum(row.probes, p.arm)
	if c.of == 0 {
		return "nothing was answered yet"
	}
	text := fmt.Sprintf("%d of %d", c.passed, c.of)
	if c.of < c.all {
		text += fmt.Sprintf(" so far, of %d", c.all)
	}
	if s := gatesRange(p.interval(row, p.arm, &c)); s != "" {
		text += ", 95 % " + s + " %"
	}
	if row.kind == gatesProbeRow {
		text += fmt.Sprintf(", needs %.0f %%", 100*p.book.run.Setup.Probes[row.probe].Need)
	}
	if c.events > 0 {
		text += ", " + plural(c.events, "character") + " that are none"
		if c.events == 1 {
			text = strings.TrimSuffix(text, "that are none") + "that is none"
		}
	}
	return text
}

// casesHead is what the selected cell is: its name, its figures, and what is said of it.
func (p *Gates) casesHead(w, h int) []string {
	th := p.scene.Theme
	row := p.row()
	s := p.book.run.Setup
	arm := p.armName(p.arm, max(w*2/5, 8))
	title := p.partTitle(gatesCases, TruncateMiddle(row.label(s), max(w-Width(arm)-4, 4))) + "  " + arm
	lines := []string{title, th.Text.Render(Truncate(p.cellWords(), w))}
	about := ""
	pair := p.index.pairOf(row, p.arm)
	switch x := p.acceptanceAt(row, p.arm); {
	case x != nil:
		about = gatesSaid(x.Text)
	case pair != nil && pair.Verdict != "":
		about = gatesSaid(pair.Verdict)
	case row.kind == gatesProbeRow:
		about = Clean(s.Probes[row.probe].About)
	}
	if h >= 6 && about != "" {
		most := 1
		if h >= 9 {
			most = 2
		}
		lines = append(lines, wrappedTo(th.Dim, about, w, most)...)
	}
	return lines
}

// drawCases is what the selected cell is, and its cases.
func (p *Gates) drawCases(w, h int) string {
	th := p.scene.Theme
	if !p.shown() {
		return Block(nil, w, h)
	}
	row := p.row()
	s := p.book.run.Setup
	lines := p.casesHead(w, h)
	room := h - len(lines)
	if room <= 0 {
		return Block(lines, w, h)
	}
	tb := p.casesTable()
	from, to := p.list.window(len(p.items.list), room+1)
	tb.NoHeader = true
	several := len(row.probes) > 1
	for i := from; i < to; i++ {
		it := &p.items.list[i]
		name := Clean(s.Probes[it.probe].Cases[it.of].ID)
		if several {
			name = Clean(s.Probes[it.probe].ID) + " " + name
		}
		mine := p.strip(it.gatesCaseID, p.arm)
		style := th.Good
		if it.failed {
			style = th.Bad
		}
		reason := p.reason(it)
		if !it.failed {
			reason = th.Dim.Render(reason)
		}
		cells := []string{style.Render(mine), name, reason}
		if p.arm != s.Baseline() {
			cells = slices.Insert(cells, 1, th.Dim.Render(p.strip(it.gatesCaseID, s.Baseline())))
		}
		tb.Rows = append(tb.Rows, cells)
	}
	tb.Left = len(p.items.list) - len(tb.Rows)
	tb.Marked = true
	if p.cased.probe >= 0 {
		tb.Cursor = p.list.selected - from
	}
	if p.focus != gatesCases {
		tb = p.quietCursor(tb)
	}
	return Block(lines, w, len(lines)) + "\n" + tb.Render(th, w, room)
}

// quietCursor marks the row without setting it in reverse: another part has the keys.
func (p *Gates) quietCursor(tb Table) Table {
	at := tb.Cursor
	tb.Cursor = -1
	if at >= 0 && at < len(tb.Rows) {
		name := len(tb.Rows[at]) - 2
		tb.Rows[at][name] = p.scene.Theme.Title.Render(tb.Rows[at][name])
	}
	return tb
}

func (p *Gates) casesTable() Table {
	tb := Table{Cursor: -1, More: true, Dense: true, Columns: []Column{
		{Title: "", Width: p.stripWidth()}, {Title: "case", Align: Middle, Width: p.caseWidth()}, {Title: "why", Flex: 1, Min: 10, Drop: 1},
	}}
	if p.arm != p.book.run.Setup.Baseline() { // whose passes stand beside
		tb.Columns = slices.Insert(tb.Columns, 1, Column{Width: p.stripWidth(), Drop: 2})
	}
	return tb
}

// stripWidth is the room for the signs of the passes.
func (p *Gates) stripWidth() int {
	w := 1
	for _, probe := range p.row().probes {
		if n := p.book.run.Setup.Probes[probe].Passes; n > gatesStrip {
			w = max(w, 2*len(fmt.Sprint(n))+1)
		} else {
			w = max(w, n)
		}
	}
	return w
}

// caseWidth is the room for names of cases: of the first few hundred, since the width
// must not change while one scrolls.
func (p *Gates) caseWidth() int {
	s := p.book.run.Setup
	w := 2
	several := len(p.row().probes) > 1
	for i := range min(len(p.items.list), 300) {
		it := &p.items.list[i]
		n := Width(Clean(s.Probes[it.probe].Cases[it.of].ID))
		if several {
			n += Width(Clean(s.Probes[it.probe].ID)) + 1
		}
		w = max(w, n)
	}
	return min(w, 24)
}

// caseAt is the row of the list at a place.
func (p *Gates) caseAt(r rect, x, y int) (int, bool) {
	if !r.has(x, y) || !p.shown() {
		return 0, false
	}
	head := len(p.casesHead(r.w, r.h))
	from, to := p.list.window(len(p.items.list), r.h-head+1)
	row := from + y - r.y - head
	return row, row >= from && row < to
}
