package views

import (
	"fmt"

	"quantscope/analysis/census"
)

// auditKinds are the kinds of blocks in a word.
var auditKinds = map[string]string{"expert": "experts", "shared_expert": "shared", "mlp": "mlp", "attention": "attention"}

// auditWhere names a row of the census: L3 experts.
func auditWhere(l *census.Layer) string {
	kind := auditKinds[l.Kind]
	if kind == "" {
		kind = Clean(l.Kind)
	}
	letter := "L"
	if l.MTP {
		letter = "M"
	}
	if l.Layer < 0 {
		return kind
	}
	return fmt.Sprintf("%s%d %s", letter, l.Layer, kind)
}

// auditError writes a relative error in a table.
func auditError(v float64) string { return number("%.4f", v) }

// column places of the bars, and what stands right of them where there is a
// proof.
const auditBarColumn = 4

var auditProofColumns = []Column{
	{Title: "served", Align: Right, Width: 6, Drop: 1}, {Title: "stored", Align: Right, Width: 6, Drop: 3},
	{Title: "compens.", Align: Right, Width: 8, Drop: 2}, {Title: "clamp", Align: Right, Width: 6, Drop: 7},
}

// window scrolls a list of n rows so that its selection is seen in a table of h
// lines, and returns the rows to show.
func (l *auditList) window(n, h int) (from, to int) {
	room := Table{More: true, Rows: make([][]string, n)}.room(h)
	l.top = max(min(l.top, l.selected, n-room), 0)
	l.top = max(l.top, l.selected-room+1)
	return l.top, min(l.top+room, n)
}

// layerTable is the census by layer and set.
func (p *Audit) layerTable(r rect) string {
	th, rep := p.scene.Theme, p.rows.report
	columns := []Column{
		{Title: "layer", Width: 12}, {Title: "fused", Width: 11, Drop: 8}, {Title: "differ", Align: Right, Width: 10},
		{Title: "least ×", Align: Right, Width: 8, Drop: 6}, {Title: "", Flex: 1, Min: 9, Drop: 5}, {Title: "most ×", Align: Right, Width: 8, Drop: 4},
	}
	if p.rows.proof {
		columns = append(columns, auditProofColumns...)
	}
	list := &p.lists[auditLayers]
	tb := Table{Columns: columns, Cursor: -1, Marked: true, More: true}
	bar := tb.columnWidth(auditBarColumn, r.w)
	tb.Columns[auditBarColumn].Title = auditAxis(p.rows.limit, bar)
	from, to := list.window(len(p.rows.layers), r.h)
	for i := from; i < to; i++ {
		l := &rep.Layers[p.rows.layers[i]]
		row := []string{auditWhere(l), Clean(l.Set), fmt.Sprintf("%s of %s", thousands(l.Differing), thousands(l.Pairs))}
		if l.Differing > 0 {
			row = append(row, auditRatio(l.RatioMin), auditBar(th, l.RatioMin, l.RatioMean, l.RatioMax, p.rows.limit, bar), auditRatio(l.RatioMax))
		} else {
			row = append(row, "", auditBar(th, 1, 1, 1, p.rows.limit, bar), "")
		}
		if f := l.Proof; f != nil {
			row = append(row, auditError(f.Served), auditError(f.Stored), auditError(f.Compensated), thousands(f.Clamped+f.Underflowed))
		}
		if l.Differing == 0 {
			for k := range 3 {
				row[k] = th.Dim.Render(row[k])
			}
		}
		tb.Rows = append(tb.Rows, row)
	}
	return p.finish(tb, auditLayers, from, len(p.rows.layers), r)
}

// pairTable lists the pairs of a layer.
func (p *Audit) pairTable(r rect) string {
	th := p.scene.Theme
	l := &p.rows.report.Layers[p.layer]
	title := th.Title.Render(auditWhere(l)) + th.Dim.Render("  "+Clean(l.Set)+" · "+auditCount(l, p.only, len(p.rows.pairs)))
	columns := []Column{
		{Title: "block", Width: 7}, {Title: "fused", Width: 9}, {Title: "scales", Align: Right, Width: 20, Drop: 8},
		{Title: "ratio ×", Align: Right, Width: 8}, {Title: "", Flex: 1, Min: 15, Drop: 5},
	}
	if p.rows.proof {
		columns = append(columns, auditProofColumns...)
	} else {
		columns = append(columns, Column{Title: "off by %", Align: Right, Width: 8, Drop: 1})
	}
	list := &p.lists[auditPairs]
	tb := Table{Columns: columns, Cursor: -1, Marked: true, More: true}
	bar := tb.columnWidth(auditBarColumn, r.w)
	tb.Columns[auditBarColumn].Title = auditAxis(p.rows.pairsLimit, bar)
	body := rect{r.x, r.y + 1, r.w, max(r.h-1, 0)}
	from, to := list.window(len(p.rows.pairs), body.h)
	for i := from; i < to; i++ {
		pair := &p.rows.pairs[i]
		block := "–"
		if e := pair.group.Expert; e >= 0 {
			block = fmt.Sprintf("e%d", e)
		}
		first, other := pair.first(), pair.other()
		row := []string{
			block, Clean(other.Projection) + "/" + Clean(first.Projection),
			number("%.3e", other.Scale) + " " + number("%.3e", first.Scale),
			auditRatio(other.Ratio), auditBar(th, min(other.Ratio, 1), other.Ratio, max(other.Ratio, 1), p.rows.pairsLimit, bar),
		}
		switch f := pair.proof; {
		case f != nil:
			row = append(row, auditError(f.Served), auditError(f.Stored), auditError(f.Compensated), thousands(f.Clamped+f.Underflowed))
		case !p.rows.proof && pair.differs():
			row = append(row, number("%.3g", 100*other.Change))
		}
		if !pair.differs() {
			for k := range 4 {
				row[k] = th.Dim.Render(row[k])
			}
		}
		tb.Rows = append(tb.Rows, row)
	}
	if len(p.rows.pairs) == 0 {
		return Block([]string{title, th.Dim.Render("no pair differs; d shows all")}, r.w, r.h)
	}
	return Block([]string{title}, r.w, 1) + "\n" + p.finish(tb, auditPairs, from, len(p.rows.pairs), body)
}

// auditCount says which pairs are listed.
func auditCount(l *census.Layer, only bool, listed int) string {
	if only {
		return fmt.Sprintf("%s that differ", thousands(listed))
	}
	return fmt.Sprintf("%s of %s differ", thousands(l.Differing), thousands(l.Pairs))
}

// finish draws the rows that are seen. The list that has the keys is marked in
// reverse, the other one with the mark alone.
func (p *Audit) finish(tb Table, level auditLevel, from, n int, r rect) string {
	at := p.lists[level].selected - from
	tb.Left = n - len(tb.Rows)
	if level == p.level {
		tb.Cursor = at
	}
	return tb.Render(p.scene.Theme, r.w, r.h)
}

// detail is the selected pair in full.
func (p *Audit) detail(w int) []string {
	th := p.scene.Theme
	row := p.lists[auditPairs].selected
	if row >= len(p.rows.pairs) {
		return nil
	}
	pair := &p.rows.pairs[row]
	first, other := pair.first(), pair.other()
	lines := []string{th.Title.Render(TruncateMiddle(Clean(other.Name), w))}
	if !pair.differs() {
		return append(lines, wrapped(th.Dim, fmt.Sprintf("has the second-level scale of %s, %s", Clean(first.Name), number("%.6g", first.Scale)), w)...)
	}
	lines = append(lines, th.Dim.Render(Truncate(fmt.Sprintf("second-level scale %s, that of %s is %s", number("%.6g", other.Scale), Clean(first.Projection), number("%.6g", first.Scale)), w)))
	text := fmt.Sprintf("a server that keeps the first decodes it %s times as large", auditRatio(1/other.Ratio))
	if f := pair.proof; f != nil {
		text = fmt.Sprintf("rel_l2 %s stored, %s served, %s compensated", auditError(f.Stored), auditError(f.Served), auditError(f.Compensated))
		if w >= auditRoomyW-auditGap {
			text += ": rounding costs " + signed("%+.5f", f.RoundingCost)
		}
		if f.Clamped > 0 {
			clamped := fmt.Sprintf("; %s of %s", thousands(f.Clamped), thousands(f.Scales))
			text += fitting(w-Width(text), clamped+" scales clamp", clamped+" clamp")
		}
		if f.Underflowed > 0 {
			text += fmt.Sprintf("; %s become 0", thousands(f.Underflowed))
		}
	}
	return append(lines, wrapped(th.Text, text, w)...)
}

// listHeight is how many rows of the list with the keys are seen.
func (p *Audit) listHeight() int {
	l := p.layout()
	switch {
	case p.level == auditPairs && !l.beside.empty():
		return max(l.beside.h-3, 1)
	case p.level == auditPairs:
		return max(l.list.h-3, 1)
	}
	return max(l.list.h-2, 1)
}

// rowAt is the row of a list at a cell.
func (p *Audit) rowAt(x, y int) (auditLevel, int, bool) {
	if p.report() == nil || len(p.rows.layers) == 0 {
		return 0, 0, false
	}
	l := p.layout()
	at := func(r rect, level auditLevel, head int) (auditLevel, int, bool) {
		from, to := p.lists[level].window(p.count(level), max(r.h-head+1, 0))
		row := from + y - r.y - head
		return level, row, row >= from && row < to
	}
	switch {
	case l.beside.has(x, y):
		return at(l.beside, auditPairs, 2)
	case !l.list.has(x, y):
	case p.level == auditPairs && l.beside.empty():
		return at(l.list, auditPairs, 2)
	default:
		return at(l.list, auditLayers, 1)
	}
	return 0, 0, false
}
