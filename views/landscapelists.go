package views

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"quantscope/analysis/landscape"
)

// landRow is one row of a list: a level, or a tensor of the tail.
type landRow struct {
	level   *landscape.Level // nil for a tensor
	tensor  int
	members []int
}

// landRows is where the rows of a list were drawn: the line of the first, how
// many, and which is the first.
type landRows struct{ first, room, offset int }

// rowsOf lists the rows of a list in the order in which they are shown.
func (p *Landscape) rowsOf(part landPart) []landRow {
	g := p.group()
	if g == nil {
		return nil
	}
	var levels []landscape.Level
	switch part {
	case landLayers:
		levels = g.Layers
	case landExperts:
		levels = g.Experts
	case landProjections:
		levels = g.Projections
	case landTail:
		rows := make([]landRow, 0, len(g.Tail.Items))
		for _, t := range g.Tail.Items {
			if t >= 0 && t < len(p.scene.State.Tensors) {
				rows = append(rows, landRow{tensor: t, members: []int{t}})
			}
		}
		return rows
	}
	rows := make([]landRow, len(levels))
	for i := range levels {
		rows[i] = landRow{level: &levels[i], tensor: -1, members: levels[i].Members}
	}
	if part != landProjections { // as they count, not as the checkpoint spells them
		slices.SortStableFunc(rows, func(a, b landRow) int { return cmp.Compare(p.placeOf(part, a.members), p.placeOf(part, b.members)) })
	}
	if !p.byPlace {
		slices.SortStableFunc(rows, func(a, b landRow) int { return cmp.Compare(effectOf(b.level), effectOf(a.level)) })
	}
	return rows
}

// placeOf is the layer or the expert that items belong to, −1 where none is.
func (p *Landscape) placeOf(part landPart, items []int) int {
	if len(items) == 0 || items[0] >= len(p.scene.State.Tensors) {
		return -1
	}
	r := &p.scene.State.Tensors[items[0]].Role
	if part == landLayers {
		return r.Layer
	}
	return r.Expert
}

// effectOf is how far a level is off, up or down; −1 where that is not known.
func effectOf(l *landscape.Level) float64 {
	if !l.Ratio.Defined() || !(l.Ratio.V > 0) {
		return -1
	}
	return math.Abs(math.Log(l.Ratio.V))
}

// drawList draws a list with the row that the cursor is in marked.
func (p *Landscape) drawList(part landPart, g *landscape.Group, active bool, w, h int) string {
	if part == landTail {
		return p.drawTail(g, active, w, h)
	}
	th := p.scene.Theme
	rows := p.rowsOf(part)
	off := 0
	for i := range rows {
		if k := rows[i].level.Kind; k == landscape.LevelShift || k == landscape.LevelTail {
			off++
		}
	}
	more := "none stands out"
	if off > 0 {
		more = fmt.Sprintf("%d of %d stand out", off, len(rows))
		if off == 1 {
			more = fmt.Sprintf("1 of %d stands out", len(rows))
		}
	}
	if !p.byPlace {
		more += ", largest effect first"
	}
	switch {
	case len(rows) == 0:
		return Block([]string{p.partTitle(part, ""), th.Dim.Render(Truncate("these matrices have no "+landPartNames[part], w))}, w, h)
	case len(rows) == 1:
		more = "only one: nothing to compare with"
	}
	cells := make([][]string, len(rows))
	for i, r := range rows {
		l := r.level
		kind := ""
		switch l.Kind {
		case landscape.LevelShift:
			kind = th.Warn.Render("◆ shift")
		case landscape.LevelTail:
			kind = th.Warn.Render("◆ tail") + th.Dim.Render(" "+thousands(l.Tail))
		}
		p := "–"
		if l.P.Defined() {
			p = pValue(math.Log10(l.P.V))
		}
		ratio := "–"
		if l.Ratio.Defined() {
			ratio = ratioText(l.Ratio.V)
		}
		cells[i] = []string{Clean(l.Name), thousands(l.N), valueText(l.Mean, digits4), "", ratio, interval(l.Ratio, bareRatio), p, kind}
	}
	for _, column := range []int{2, 4} {
		alignColumn(cells, column)
	}
	tb := Table{
		Columns: []Column{
			{Title: ""}, {Title: "n", Align: Right, Drop: 6}, {Title: "mean rel2", Align: Right, Drop: 1}, {Title: "", Flex: 1, Min: 8, Drop: 4},
			{Title: "ratio", Align: Right}, {Title: "95 %", Drop: 3}, {Title: "p", Align: Right, Drop: 5}, {Title: "", Drop: 2},
		},
		Rows: cells, Cursor: p.rowOfCursor(rows), Marked: true, More: true,
	}
	tb.Offset = scrolledTo(tb.Cursor, len(rows), tb.room(h-1))
	if plot := tb.columnWidth(3, w); plot > 0 {
		p.plotMeans(cells, rows, plot)
		tb.Columns[3].Title = th.Dim.Render(meansAxis(rows, plot))
	}
	p.rows[part] = landRows{first: 2, room: tb.room(h - 1), offset: tb.Offset}
	return Block([]string{p.listTitle(part, more, active)}, w, 1) + "\n" + renderList(th, tb, active, w, h-1)
}

// renderList draws a list with the row that the cursor is in marked; only where
// arrows go is it set in reverse.
func renderList(th *Theme, tb Table, active bool, w, h int) string {
	if active || tb.Cursor < 0 {
		return tb.Render(th, w, h)
	}
	at := tb.Cursor - tb.Offset + 1
	tb.Cursor = -1
	lines := strings.Split(tb.Render(th, w, h), "\n")
	if tb.lead(w) > 0 && at > 0 && at < len(lines) && strings.HasPrefix(lines[at], " ") {
		lines[at] = th.Accent.Render("▸") + lines[at][1:]
	}
	return strings.Join(lines, "\n")
}

// listTitle is the title of a list; that of the one that arrows go through has a
// mark.
func (p *Landscape) listTitle(part landPart, more string, active bool) string {
	th := p.scene.Theme
	title := p.partTitle(part, more)
	if active && p.w >= landTwoColumns && p.h >= landTall {
		return th.Accent.Render(landPartNames[part]) + strings.TrimPrefix(title, th.Title.Render(landPartNames[part])) + th.Accent.Render("  ↑↓")
	}
	return title
}

// scrolledTo is the first row to show so that row at is seen, near the middle.
func scrolledTo(at, rows, room int) int {
	return max(min(at-room/2, rows-room), 0)
}

// meansSpan is from the lowest to the highest mean, intervals included.
func meansSpan(rows []landRow) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, r := range rows {
		m := r.level.Mean
		if !m.Defined() || !isNumber(m.V) {
			continue
		}
		a, b := m.V, m.V
		if m.HasInterval() && isNumber(m.Low) && isNumber(m.High) {
			a, b = min(a, m.Low), max(b, m.High)
		}
		lo, hi = min(lo, a), max(hi, b)
	}
	return lo, hi
}

// meansAxis is the ends of the plot of means, for the header.
func meansAxis(rows []landRow, w int) string {
	lo, hi := meansSpan(rows)
	if !(lo < hi) {
		return ""
	}
	a, b := digits4(lo), digits4(hi)
	if Width(a)+Width(b)+1 > w { // as many digits in both, so that they can be told apart
		digits := max(int(math.Ceil(-math.Log10(hi-lo))), 0)
		a, b = fixed(digits)(lo), fixed(digits)(hi)
	}
	if Width(a)+Width(b)+1 > w {
		return ""
	}
	return a + spaces(w-Width(a)-Width(b)) + b
}

// plotMeans draws each mean as a dot on its interval, all on one axis, with the
// mean of all as a line.
func (p *Landscape) plotMeans(cells [][]string, rows []landRow, w int) {
	th := p.scene.Theme
	lo, hi := meansSpan(rows)
	var sum, n float64
	for _, r := range rows {
		if r.level.Mean.Defined() && isNumber(r.level.Mean.V) {
			sum += r.level.Mean.V * float64(r.level.N)
			n += float64(r.level.N)
		}
	}
	at := func(v float64) int {
		if !(hi > lo) {
			return w / 2
		}
		return min(max(int(math.Round((v-lo)/(hi-lo)*float64(w-1))), 0), w-1)
	}
	middle := -1
	if n > 0 {
		middle = at(sum / n)
	}
	for i, r := range rows {
		m := r.level.Mean
		c := newCanvas(w, 1)
		c.put(middle, 0, "│", th.ink.faint)
		if m.Defined() && isNumber(m.V) {
			if m.HasInterval() && isNumber(m.Low) && isNumber(m.High) {
				for x := at(m.Low); x <= at(m.High); x++ {
					c.put(x, 0, "─", th.ink.dim)
				}
			}
			mark, ink := "●", th.ink.accent
			if r.level.Kind == landscape.LevelShift || r.level.Kind == landscape.LevelTail {
				mark, ink = "◆", th.ink.warn
			}
			c.put(at(m.V), 0, mark, ink)
		}
		cells[i][3] = c.lines(th)[0]
	}
}

// drawTail lists the tensors that stand out of what layer, expert and projection
// explain.
func (p *Landscape) drawTail(g *landscape.Group, active bool, w, h int) string {
	th, s := p.scene.Theme, p.scene
	t := &g.Tail
	rows := p.rowsOf(landTail)
	switch {
	case t.Why != "":
		return Block(append([]string{p.partTitle(landTail, "")}, wrapped(th.Dim, "no tail: "+Clean(t.Why), w)...), w, h)
	case len(rows) == 0:
		return Block([]string{p.partTitle(landTail, "no tensor stands out of its layer, expert and projection")}, w, h)
	}
	more := fmt.Sprintf("%s of %s tensors", thousands(t.Count), thousands(measuredOf(g)-g.LeftOut))
	if t.Ratio.Defined() {
		more += ", " + ratioText(t.Ratio.V) + " what was expected"
	}
	if t.Share.Defined() {
		more += ", " + percentText(t.Share.V) + " of the error"
	}
	cells := make([][]string, len(rows))
	for i, r := range rows {
		rel2, over := "–", "–"
		if rec, ok := s.Record(s.Variant, r.tensor); ok && !rec.Failed {
			rel2 = digits4(rec.Rel2)
			if g.MeanRel2.Defined() && g.MeanRel2.V > 0 && isNumber(rec.Rel2) {
				over = ratioText(rec.Rel2 / g.MeanRel2.V)
			}
		}
		cells[i] = []string{ShortName(&s.State.Tensors[r.tensor]), rel2, over}
	}
	for _, column := range []int{1, 2} {
		alignColumn(cells, column)
	}
	tb := Table{
		Columns: []Column{{Title: "tensor", Align: Middle, Flex: 1, Min: 12}, {Title: "rel2", Align: Right, Drop: 1}, {Title: "to the mean", Align: Right, Drop: 2}},
		Rows:    cells, Cursor: p.rowOfCursor(rows), Marked: true, More: true, Left: max(t.Count-len(rows), 0),
	}
	tb.Offset = scrolledTo(tb.Cursor, len(rows), tb.room(h-1))
	p.rows[landTail] = landRows{first: 2, room: tb.room(h - 1), offset: tb.Offset}
	return Block([]string{p.listTitle(landTail, more, active)}, w, 1) + "\n" + renderList(th, tb, active, w, h-1)
}
