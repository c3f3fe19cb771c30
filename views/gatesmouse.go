package views

import tea "github.com/charmbracelet/bubbletea"

// HandleMouse selects by click and scrolls by wheel the part under the mouse.
func (p *Gates) HandleMouse(x, y int, m tea.MouseMsg) (bool, tea.Cmd) {
	p.refresh()
	if !p.shown() {
		return false, nil
	}
	step := 0
	switch {
	case m.Button == tea.MouseButtonWheelUp:
		step = -3
	case m.Button == tea.MouseButtonWheelDown:
		step = 3
	case m.Action == tea.MouseActionPress && m.Button == tea.MouseButtonLeft:
		return p.click(x, y), nil
	default:
		return false, nil
	}
	if p.full {
		if to := max(min(p.scroll+step, len(p.fullLines())-p.h), 0); to != p.scroll {
			p.scroll = to
			p.version++
		}
		return true, nil
	}
	l := p.layout()
	switch {
	case l.table.has(x, y):
		p.give(gatesTable)
	case l.cases.has(x, y), l.text.has(x, y):
		p.give(gatesCases)
	case l.checks.has(x, y):
		p.give(gatesChecks)
	case l.arms.has(x, y):
		return false, nil
	}
	at, _ := p.selected()
	p.moveTo(at + step)
	return true, nil
}

// give gives a part the keys, where it has anything to select.
func (p *Gates) give(part gatesPart) {
	if p.focus != part && !(part == gatesCases && len(p.items.list) == 0) {
		p.focus = part
		p.version++
	}
}

// click selects what is drawn at a place.
func (p *Gates) click(x, y int) bool {
	if p.full {
		return false
	}
	l := p.layout()
	if row, arm, ok := p.cellAt(l.table, x, y); ok {
		p.give(gatesTable)
		if arm != p.arm {
			p.arm = arm
			p.other()
		}
		p.moveTo(row)
		return true
	}
	if row, ok := p.caseAt(l.cases, x, y); ok {
		p.give(gatesCases)
		p.moveTo(row)
		return true
	}
	if item, ok := p.checkAt(l.checks, x, y); ok {
		p.give(gatesChecks)
		p.moveTo(item)
		return true
	}
	return false
}
