package views

import (
	"quantscope/analysis/landscape"
	"slices"

	tea "github.com/charmbracelet/bubbletea"
)

// coarse is how many steps of the slider a coarse one is.
const coarse = 10

// Keys lists the keys of the pane.
func (p *Landscape) Keys() []Key {
	layout := p.layout()
	next := p.nextPart(1)
	other := Key{Keys: []string{"o"}, Label: "o", Help: "next part: " + landPartNames[next]}
	back := Key{Keys: []string{"O"}, Label: "O", Help: "part before"}
	kind := Key{Keys: []string{"c"}, Label: "c", Help: "next kind of matrices"}
	if r := p.report(); r == nil || r.report == nil || len(r.report.Groups) < 2 {
		kind.Disabled = "the session has one kind of matrices"
	}
	order := Key{Keys: []string{"s"}, Label: "s", Help: "largest effect first"}
	if !p.byPlace {
		order.Help = "in the order of the model"
	}
	protect := Key{Keys: []string{"x"}, Label: "x", Help: "price protection by the next variant, or the source"}
	if len(p.scene.State.Variants) < 2 {
		protect.Disabled = "the session has no other variant: the source protects"
	}
	up := Key{Keys: []string{"up", "k"}, Label: "↑ k", Help: "row above"}
	down := Key{Keys: []string{"down", "j"}, Label: "↓ j", Help: "row below"}
	if why := p.offRows(layout); why != "" {
		up.Disabled, down.Disabled = why, why
	}
	if p.listPart(layout) < 0 {
		order.Disabled = "o shows a list"
	} else {
		order.Disabled = up.Disabled
	}
	less := Key{Keys: []string{"<", "left", "h"}, Label: "< ← h", Help: "smaller budget"}
	more := Key{Keys: []string{">", "right", "l"}, Label: "> → l", Help: "larger budget"}
	muchLess := Key{Keys: []string{"H", "shift+left"}, Label: "H", Help: "much smaller budget"}
	muchMore := Key{Keys: []string{"L", "shift+right"}, Label: "L", Help: "much larger budget"}
	write := Key{Keys: []string{"w"}, Label: "w", Help: "write the answer as a recipe"}
	if why := p.offBudget(); why != "" {
		for _, k := range []*Key{&less, &more, &muchLess, &muchMore, &write} {
			k.Disabled = why
		}
	} else if p.answer == nil {
		write.Disabled = "the budget is not solved yet"
	}
	chart := Key{Keys: []string{"y"}, Label: "y", Help: "prices against the random control"}
	if p.relative {
		chart.Help = "prices as errors"
	}
	if p.pricing == nil || priceAgainst(p.pricing) < 0 {
		chart.Disabled = "there are no prices"
	}
	grain := Key{Keys: []string{"u"}, Label: "u", Help: "budgets and prices by " + grainWords(p.grain+1)}
	return []Key{less, more, muchLess, muchMore, write, other, back, up, down, order, kind, protect, grain, chart}
}

// offBudget is why the budget cannot be moved, "" where it can.
func (p *Landscape) offBudget() string {
	switch {
	case p.slider.ready():
		return ""
	case p.refusal != "":
		return p.refusal
	}
	return "nothing is measured yet that a budget could choose from"
}

// offRows is why there is no row to go to.
func (p *Landscape) offRows(l landLayout) string {
	part := p.listPart(l)
	if p.onFigures(l) {
		return ""
	}
	if part < 0 {
		return "o shows a list"
	}
	if len(p.rowsOf(part)) == 0 {
		return "the list of " + landPartNames[part] + " is empty"
	}
	return ""
}

// onFigures says that arrows go through figures that are not all shown.
func (p *Landscape) onFigures(l landLayout) bool {
	return p.listPart(l) < 0 && !l.parts[landFigures].empty() && p.figuresMost > 0
}

// listPart is the list that arrows go through: the active part, or where that is
// no list the first that is on the screen; -1 where none is.
func (p *Landscape) listPart(l landLayout) landPart {
	if p.part.list() && !l.parts[p.part].empty() {
		return p.part
	}
	for part := landLayers; part <= landTail; part++ {
		if !l.parts[part].empty() {
			return part
		}
	}
	return -1
}

// nextPart is the part that o goes to: one that is not on the screen for good, or
// another list.
func (p *Landscape) nextPart(by int) landPart {
	next := p.part
	for range landParts {
		next = (next + landPart(by) + landParts) % landParts
		l := arrangeLandscape(p.w, p.h, p.sizes(), next)
		small := p.w < landTwoColumns || p.h < landTall
		if small || next.list() || !l.parts[next].empty() && p.layout().parts[next].empty() {
			break
		}
	}
	return next
}

// HandleKey acts on the keys that Keys lists.
func (p *Landscape) HandleKey(k tea.KeyMsg) (bool, tea.Cmd) {
	key := k.String()
	switch key {
	case "<", "left", "h":
		return p.slide(-1), nil
	case ">", "right", "l":
		return p.slide(1), nil
	case "H", "shift+left":
		return p.slide(-coarse), nil
	case "L", "shift+right":
		return p.slide(coarse), nil
	case "o":
		p.part = p.nextPart(1)
	case "O":
		p.part = p.nextPart(-1)
	case "s":
		p.byPlace = !p.byPlace
		if rows := p.rowsOf(p.listPart(p.layout())); !p.byPlace && len(rows) > 0 { // to what was asked for
			p.scene.SetCursor(p.worstOf(rows[0].members))
		}
	case "c":
		return p.nextKind(), nil
	case "x":
		if len(p.scene.State.Variants) < 2 {
			return false, nil
		}
		p.nextProtect()
		p.show(landPrices)
	case "u":
		p.grain = (p.grain + 1) % len(landGrains)
		p.show(landBudget, landPrices)
	case "y":
		if p.pricing == nil || priceAgainst(p.pricing) < 0 {
			return false, nil
		}
		p.relative = !p.relative
		p.show(landPrices)
	case "w": // the root asks for the file
		return p.answer != nil, nil
	case "up", "k":
		return p.step(-1), nil
	case "down", "j":
		return p.step(1), nil
	default:
		return false, nil
	}
	p.version++
	return true, nil
}

// slide moves the budget, and shows it where it is not on the screen.
func (p *Landscape) slide(steps int) bool {
	if !p.slider.ready() {
		return false
	}
	p.show(landBudget)
	p.slider.move(steps, &p.version)
	return true
}

// show brings the first of some parts onto the screen where none of them is.
func (p *Landscape) show(parts ...landPart) {
	l := p.layout()
	for _, part := range parts {
		if !l.parts[part].empty() {
			return
		}
	}
	p.part = parts[0]
	p.version++
}

// nextKind puts the cursor on the worst matrix of the next kind.
func (p *Landscape) nextKind() bool {
	r := p.report()
	if r == nil || r.report == nil || len(r.report.Groups) < 2 {
		return false
	}
	g := &r.report.Groups[(p.groupIndex()+1)%len(r.report.Groups)]
	worst := g.Worst
	for _, levels := range [][]landscape.Level{g.Layers, g.Projections, g.Experts} {
		if worst < 0 && len(levels) > 0 {
			worst = p.worstOf(levels[0].Members)
		}
	}
	if worst < 0 {
		return false
	}
	p.scene.SetCursor(worst)
	return true
}

// worstOf is the item of the largest error under the shown variant; the first
// where none has a figure, -1 of none.
func (p *Landscape) worstOf(items []int) int {
	worst, most := -1, 0.0
	for _, i := range items {
		r, ok := p.scene.Record(p.scene.Variant, i)
		if !ok || r.Failed || !isNumber(r.Rel2) {
			continue
		}
		if worst < 0 || r.Rel2 > most {
			worst, most = i, r.Rel2
		}
	}
	if worst < 0 && len(items) > 0 && items[0] < len(p.scene.State.Tensors) {
		return items[0]
	}
	return worst
}

// step goes through the list that arrows belong to, or the figures.
func (p *Landscape) step(by int) bool {
	l := p.layout()
	if p.onFigures(l) {
		return p.scrollFigures(by)
	}
	return p.moveIn(p.listPart(l), by)
}

// moveIn goes to another row of a list: the cursor goes to its worst tensor.
func (p *Landscape) moveIn(part landPart, by int) bool {
	if part < 0 || !part.list() {
		return false
	}
	rows := p.rowsOf(part)
	if len(rows) == 0 {
		return false
	}
	at := p.rowOfCursor(rows)
	switch {
	case at < 0:
		at = 0
	default:
		at = min(max(at+by, 0), len(rows)-1)
	}
	p.scene.SetCursor(p.worstOf(rows[at].members))
	return true
}

// click puts the cursor on the worst tensor of the row at a line of a list.
func (p *Landscape) click(part landPart, line int) bool {
	rows := p.rowsOf(part)
	i := p.rowAt(part, len(rows), line)
	if i < 0 {
		return false
	}
	p.scene.SetCursor(p.worstOf(rows[i].members))
	return true
}

// rowAt is the row of a list of so many at a line of its part, -1 where none is.
func (p *Landscape) rowAt(part landPart, rows, line int) int {
	shown := p.rows[part]
	if i := shown.offset + line - shown.first; line >= shown.first && i < min(rows, shown.offset+shown.room) {
		return i
	}
	return -1
}

// HasTensor says whether a cell of the pane is a row, which stands for a tensor.
func (p *Landscape) HasTensor(x, y int) bool {
	for part, r := range p.layout().parts {
		if part := landPart(part); part.list() && r.has(x, y) {
			return p.rowAt(part, len(p.rowsOf(part)), y-r.y) >= 0
		}
	}
	return false
}

// rowOfCursor is the row that the scene's cursor is in, -1 where none is.
func (p *Landscape) rowOfCursor(rows []landRow) int {
	return slices.IndexFunc(rows, func(r landRow) bool { return slices.Contains(r.members, p.scene.Cursor) })
}
