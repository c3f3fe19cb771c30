package views

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"

	"quantscope/analysis/gates"
)

// gatesColumns says how the table's columns stand in a width.
type gatesColumns struct {
	name   int // cells of the names of rows
	cell   int // of what stands in a column, without the blank or bracket at either side
	count  int // of n/m
	sign   int // of the sign of characters that are none
	level  int // 0: n/m; 1: and the interval's lower end; 2: and all of it; 3: and a bar of it
	arms   []int
	before int // arms that are not shown, to the left
	behind int // and to the right
}

const (
	gatesLead     = 2 // the mark of the row
	gatesRangeW   = 6 // 94–100
	gatesLowW     = 3 // ≥76
	gatesBarW     = 8
	gatesNameMost = 26
	gatesArmLeast = 8  // what is left of an arm's name
	gatesArmWell  = 11 // int4-g128 and its mark

	acceptanceRoom = 5 // 100 %
)

// countWidth is the width of the widest n/m.
func (p *Gates) countWidth() int {
	w := 3
	for i := range p.rows {
		n := 0
		for _, probe := range p.rows[i].probes {
			n += p.book.run.Setup.Probes[probe].Answers()
			if p.book.run.Setup.Probes[probe].Measure {
				w = max(w, acceptanceRoom)
			}
		}
		w = max(w, 2*len(fmt.Sprint(n))+1)
	}
	return w
}

func (p *Gates) nameWidth() int {
	w := 5
	for i := range p.rows {
		w = max(w, Width(p.rows[i].name(p.book.run.Setup)))
	}
	return min(w, gatesNameMost)
}

// cellWidth is that of a column at a level.
func (c *gatesColumns) cellWidth(level int) int {
	w := 2 + c.count + c.sign
	switch {
	case level == 1:
		w += 1 + gatesLowW
	case level > 1:
		w += 1 + gatesRangeW
	}
	if level > 2 {
		w += 1 + gatesBarW
	}
	return max(w, gatesArmLeast)
}

// namesWidth is the room that the longest name of an arm takes, its mark included.
func (p *Gates) namesWidth() int {
	w := 0
	for i := range p.book.run.Setup.Arms {
		n := Width(Clean(p.book.run.Setup.Arms[i].Label))
		if p.ink(i) >= 0 {
			n += 2
		}
		w = max(w, n)
	}
	return w
}

// tableWidths are what the table takes without intervals and with them.
func (p *Gates) tableWidths() (narrow, wide int) {
	if !p.shown() {
		return 0, 0
	}
	c := gatesColumns{count: p.countWidth(), sign: 1}
	n := len(p.book.run.Setup.Arms)
	base := gatesLead + p.nameWidth()
	names := min(p.namesWidth(), gatesArmWell) - 1
	return base + n*(max(c.cellWidth(0), names)+2), base + n*(max(c.cellWidth(1), names)+2)
}

// columns chooses what a table of w cells shows: all arms with as much of each as
// fits, or the baseline and those around the selected one.
func (p *Gates) columns(w int) gatesColumns {
	n := len(p.book.run.Setup.Arms)
	c := gatesColumns{count: p.countWidth()}
	for _, row := range p.book.cells {
		for a := range row {
			if row[a].events > 0 {
				c.sign = 1
			}
		}
	}
	c.name = max(min(p.nameWidth(), (w-gatesLead)/3), min(w-gatesLead, 5))
	room := w - gatesLead - c.name
	for c.level = 3; c.level > 0 && n*(c.cellWidth(c.level)+2) > room; c.level-- {
	}
	c.cell = c.cellWidth(c.level)
	fit := max(room/(c.cell+2), 1)
	c.cell = max(c.cell, min(p.namesWidth()-1, room/min(fit, n)-2)) // what is left over is for names
	if fit >= n {
		for a := range n {
			c.arms = append(c.arms, a)
		}
		p.left = 0
		return c
	}
	// The baseline stays; of the others those around the selected one.
	c.arms = append(c.arms, 0)
	others := fit - 1
	if others <= 0 {
		if p.arm > 0 {
			c.arms[0] = p.arm
		}
		c.before, c.behind = c.arms[0], n-1-c.arms[0]
		return c
	}
	first := max(p.left, 1)
	if p.arm > 0 {
		first = max(min(first, p.arm), p.arm-others+1)
	}
	first = max(min(first, n-others), 1)
	p.left = first
	for a := first; a < min(first+others, n); a++ {
		c.arms = append(c.arms, a)
	}
	c.before, c.behind = first-1, n-first-others
	return c
}

// armName is an arm at the head of a column of w cells: one whose name goes on
// from another candidate's leaves that out where room is short.
func (p *Gates) armName(arm, w int) string {
	th := p.scene.Theme
	a := &p.book.run.Setup.Arms[arm]
	label := Clean(a.Label)
	ink := p.ink(arm)
	if ink < 0 {
		style := th.Title
		if a.Role == gates.Placebo {
			style = th.Dim
		}
		return style.Render(TruncateMiddle(label, w))
	}
	if Width(label) > w-2 {
		for i := range p.book.run.Setup.Arms {
			o := &p.book.run.Setup.Arms[i]
			if rest, ok := strings.CutPrefix(a.Label, o.Label); ok && i != arm && strings.HasPrefix(rest, "+") && o.Role == gates.Candidate {
				label = Clean(rest)
			}
		}
	}
	return th.VariantStyle(ink).Render(shortenVariant(label, max(w-2, 1)) + " " + th.VariantMark(ink))
}

// roleWords say what an arm is there for, below its name.
func roleWords(a *gates.Arm) string {
	switch a.Role {
	case gates.Baseline:
		return "baseline"
	case gates.Placebo:
		return "placebo"
	}
	return ""
}

// tableRoom is how many rows a table of h lines shows.
func (p *Gates) tableRoom(h int) int {
	room := h - gatesTableHead
	if room > len(p.rows)+1 {
		return len(p.rows)
	}
	if h >= 6 {
		room -= 2 // a blank and the legend
	}
	return max(room, 1)
}

// window is which rows are shown.
func (p *Gates) window(h int) (from, to int) {
	room, at := p.tableRoom(h), max(gatesRowIndex(p.rows, p.at), 0)
	p.top = max(min(p.top, at, len(p.rows)-room), 0)
	p.top = max(p.top, at-room+1)
	return p.top, min(p.top+room, len(p.rows))
}

func (p *Gates) drawTable(w, h int) string {
	th := p.scene.Theme
	if len(p.rows) == 0 {
		return Block([]string{th.Dim.Render(Truncate("no probe matches "+Clean(p.filter.text)+": esc shows all", w))}, w, h)
	}
	c := p.columns(w)
	head, roles := p.tableHead(&c)
	lines := []string{head, roles}
	from, to := p.window(h)
	seen := map[gatesState]bool{}
	for i := from; i < to; i++ {
		lines = append(lines, p.tableRow(&c, &p.rows[i], seen))
	}
	if h-len(lines) >= 2 || h >= 6 {
		for len(lines) < h-1 && len(lines) < to-from+gatesTableHead+1 {
			lines = append(lines, "")
		}
		if len(lines) < h {
			lines = append(lines, p.legend(w, seen, c.sign > 0, len(p.rows)-(to-from)))
		}
	}
	return Block(lines, w, h)
}

// tableHead is the arms' names, and what they are there for.
func (p *Gates) tableHead(c *gatesColumns) (names, roles string) {
	th := p.scene.Theme
	title := "probe"
	if p.filter.match != nil {
		title = "/" + Clean(p.filter.text)
	}
	first := Fit(Truncate(title, c.name), c.name)
	names = spaces(gatesLead) + th.Dim.Render(first)
	if p.focus == gatesTable && p.filter.match == nil {
		names = spaces(gatesLead) + p.partTitle(gatesTable, "probe")
		names = Fit(names, gatesLead+c.name)
	}
	hidden := ""
	switch {
	case c.before > 0 && c.behind > 0:
		hidden = fmt.Sprintf("‹ %d  %d ›", c.before, c.behind)
	case c.before > 0:
		hidden = fmt.Sprintf("‹ %d more", c.before)
	case c.behind > 0:
		hidden = fmt.Sprintf("%d more ›", c.behind)
	}
	roles = spaces(gatesLead) + th.Accent.Render(Fit(hidden, c.name))
	for _, a := range c.arms {
		names += " " + Fit(p.armName(a, c.cell+1), c.cell+1) // a blank is before the next
		under := roleWords(&p.book.run.Setup.Arms[a])
		if under == "" && c.level > 0 {
			under = spaces(2+c.count+c.sign) + " 95%"
		}
		roles += " " + th.Dim.Render(Fit(under, c.cell)) + " "
	}
	return names, roles
}

func (p *Gates) tableRow(c *gatesColumns, row *gatesRow, seen map[gatesState]bool) string {
	th := p.scene.Theme
	here := row.gatesRowID == p.at
	style := th.Text
	switch {
	case row.kind != gatesProbeRow:
		style = th.Title
	}
	lead := spaces(gatesLead)
	if here {
		lead = th.Accent.Render("▸") + " "
		if p.focus != gatesTable {
			lead = th.Dim.Render("▸") + " "
		}
		style = th.Title
	}
	var b strings.Builder
	b.WriteString(lead)
	b.WriteString(style.Render(Fit(TruncateMiddle(row.name(p.book.run.Setup), c.name), c.name)))
	for _, a := range c.arms {
		b.WriteString(p.tableCell(c, row, a, here && a == p.arm, seen))
	}
	return b.String()
}

// tableCell is one cell with a blank, or a bracket where there are no colours, at
// either side.
func (p *Gates) tableCell(c *gatesColumns, row *gatesRow, arm int, here bool, seen map[gatesState]bool) string {
	th := p.scene.Theme
	var cell gatesCell
	if row.kind == gatesProbeRow {
		cell = p.book.cells[row.probe][arm]
	} else {
		cell = p.book.sum(row.probes, arm)
	}
	state := p.stateOf(row, arm, &cell)
	seen[state] = true
	count := fmt.Sprintf("%d/%d", cell.passed, cell.of)
	share := float64(cell.passed) / float64(max(cell.of, 1))
	low, high := p.interval(row, arm, &cell)
	if x := p.acceptanceAt(row, arm); x != nil {
		count, share, low, high = acceptanceCount(x), x.Rate, x.RateLow, x.RateHigh
	}
	if cell.of == 0 {
		count = ""
	}
	style := state.style(th)
	text := th.Text
	if p.book.run.Setup.Arms[arm].Role == gates.Placebo || row.kind == gatesGroupRow && !row.folded || state == gatesSome {
		text = th.Dim
	}
	out := style.Render(gatesStates[state].glyph) + " " + text.Render(FitRight(count, c.count))
	if c.sign > 0 {
		sign := " "
		if cell.events > 0 {
			sign = th.Bad.Render("\ufffd")
		}
		out += sign
	}
	if c.level > 0 {
		ends, room := gatesRange(low, high), gatesRangeW
		if c.level == 1 {
			ends, room = gatesLow(low), gatesLowW
		}
		out += " " + th.Dim.Render(Fit(ends, room))
		if c.level > 2 {
			out += " " + gatesBar(th, p.barStyle(arm), share, low, high, gatesBarW)
		}
	}
	out = Fit(out, c.cell)
	if !here {
		return " " + out + " "
	}
	if th.Profile == termenv.Ascii {
		return "[" + out + "]"
	}
	if p.focus != gatesTable {
		return th.Accent.Render("▏") + out + th.Accent.Render("▕")
	}
	return " " + th.reverse(out) + " "
}

// barStyle is the colour of an arm's intervals.
func (p *Gates) barStyle(arm int) lipgloss.Style {
	if ink := p.ink(arm); ink >= 0 {
		return p.scene.Theme.VariantStyle(ink)
	}
	return p.scene.Theme.Dim
}

// legend says what the signs mean that are on the screen, and how many rows are not.
func (p *Gates) legend(w int, seen map[gatesState]bool, sign bool, hidden int) string {
	th := p.scene.Theme
	text := ""
	add := func(s string) {
		if text != "" {
			s = "  " + s
		}
		if Width(text)+Width(s) <= w-gatesLead {
			text += s
		}
	}
	if hidden > 0 {
		add(moreText(hidden))
	}
	for _, s := range []gatesState{gatesErr, gatesDown, gatesShort, gatesUntold, gatesUp, gatesAsked} {
		if seen[s] {
			add(gatesStates[s].glyph + " " + gatesStates[s].word)
		}
	}
	if sign {
		add("\ufffd characters that are none")
	}
	for _, s := range []gatesState{gatesSome, gatesOK} {
		if seen[s] {
			add(gatesStates[s].glyph + " " + gatesStates[s].word)
		}
	}
	return th.Dim.Render(spaces(gatesLead) + text)
}

// cellAt is the cell at a place of the table.
func (p *Gates) cellAt(r rect, x, y int) (row, arm int, ok bool) {
	if !r.has(x, y) || !p.shown() {
		return 0, 0, false
	}
	c := p.columns(r.w)
	from, to := p.window(r.h)
	row = from + y - r.y - gatesTableHead
	if row < from || row >= to {
		return 0, 0, false
	}
	i := x - r.x - gatesLead - c.name
	if i < 0 {
		return row, p.arm, true
	}
	if i /= c.cell + 2; i < len(c.arms) {
		return row, c.arms[i], true
	}
	return row, p.arm, true
}
