package views

import (
	"slices"
	"strconv"
)

// tickSteps are how many experts may lie between two numbers of the header.
var tickSteps = []int{1, 2, 4, 5, 8, 10, 16, 20, 32, 40, 50, 64, 80, 100, 128, 200, 256, 500, 512, 1000, 1024, 5000, 10000}

// columnLabel is one name in the header.
type columnLabel struct {
	x, w  int
	text  string
	style string
}

// drawHeader names the columns: as many numbers of experts as stand apart, and
// the one under the cursor, which takes precedence.
func (h *Heat) drawHeader(p *heatPen, cursorCol int) {
	labels := h.labels[:0]
	if cursorCol >= 0 {
		labels = append(labels, h.cursorLabel(cursorCol))
	}
	labels = h.denseLabels(labels, cursorCol >= 0)
	labels = h.expertLabels(labels, cursorCol >= 0)
	slices.SortFunc(labels, func(a, b columnLabel) int { return a.x - b.x })
	for _, k := range labels {
		if k.x >= p.x && k.x+k.w <= h.w {
			p.spaces(k.x - p.x)
			p.text(k.style, k.text, k.w)
		}
	}
	h.labels = labels
}

// cursorLabel names the column of the cursor.
func (h *Heat) cursorLabel(col int) columnLabel {
	l := &h.layout
	g := h.grid.Cols[h.grid.place[h.cursor].col]
	c := l.cols[col-max(l.cols[col].part, 0)]
	n := Width(g.Label)
	return columnLabel{max(min(c.x+max((l.span(col)-n)/2, 0), h.w-n), 0), n, g.Label, h.inks.mark}
}

// keep adds a label unless it would touch the first one, the cursor's.
func keep(labels []columnLabel, k columnLabel, cursor bool) []columnLabel {
	if cursor && k.x <= labels[0].x+labels[0].w && labels[0].x <= k.x+k.w {
		return labels
	}
	return append(labels, k)
}

// denseLabels names dense and shared projections, each within its own column.
func (h *Heat) denseLabels(labels []columnLabel, cursor bool) []columnLabel {
	for _, c := range h.layout.cols {
		g := h.grid.Cols[c.from]
		if g.Expert >= 0 {
			break
		}
		text := g.Label
		if Width(text) > c.w {
			text = g.Short
		}
		if n := Width(text); c.to-c.from == 1 && n <= c.w {
			labels = keep(labels, columnLabel{c.x + (c.w-n)/2, n, text, h.inks.label}, cursor)
		}
	}
	return labels
}

// expertLabels numbers experts at even steps.
func (h *Heat) expertLabels(labels []columnLabel, cursor bool) []columnLabel {
	l := &h.layout
	step, free := h.tickStep(), 0
	for i, c := range l.cols {
		if h.grid.Cols[c.from].Expert < 0 || c.part > 0 {
			continue
		}
		for _, g := range h.grid.Cols[c.from:c.to] {
			if g.Expert%step != 0 {
				continue
			}
			n := len(g.Label)
			if x := c.x + max((l.span(i)-n)/2, 0); x >= free {
				labels = keep(labels, columnLabel{x, n, g.Label, h.inks.label}, cursor)
				free = x + n + 1
			}
			break
		}
	}
	return labels
}

// span is the width of an expert's cells.
func (l *heatLayout) span(col int) int {
	c := l.cols[col]
	if c.part < 0 {
		return c.w
	}
	n := 0
	for i := col - c.part; i < len(l.cols) && l.cols[i].from == c.from; i++ {
		n += l.cols[i].w
	}
	return n
}

// tickStep is the smallest step between expert numbers that keeps them apart.
func (h *Heat) tickStep() int {
	l := &h.layout
	if h.grid.Dense >= len(h.grid.Cols) {
		return 1
	}
	last := h.grid.Cols[len(h.grid.Cols)-1].Expert
	need := len(strconv.Itoa(last)) + 1
	pitch := 1
	if i := int(l.first[h.grid.Dense]); i < len(l.cols) {
		next := i + 1
		if l.cols[i].part >= 0 {
			next = i + len(h.grid.Parts)
		}
		if next < len(l.cols) {
			pitch = l.cols[next].x - l.cols[i].x
		}
	}
	for _, s := range tickSteps {
		if s*pitch >= need*l.perCol {
			return s
		}
	}
	return tickSteps[len(tickSteps)-1]
}
