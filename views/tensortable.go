package views

import (
	"slices"

	"quantscope/sessions"
)

// tensorTable is the figures of one tensor, a column a variant, and for each
// variant but the baseline how far it is from it. Variants for which there is no
// room are left out and counted, a column with its steps at a time.
func tensorTable(s *Scene, tensor, w, h int) string {
	th, state := s.Theme, s.State
	if len(state.Variants) == 0 {
		return Block([]string{th.Dim.Render("no variant yet")}, w, h)
	}
	base := min(max(s.Baseline, 0), len(state.Variants)-1)
	order := []int{base}
	for v := range state.Variants {
		if v != base {
			order = append(order, v)
		}
	}
	rows := [][]string{}
	for _, m := range metrics {
		rows = append(rows, figureRow(s, m, order, tensor))
	}
	rows = append(rows, countRow(s, order, "zero blocks", tensor, func(r *sessions.Record) int64 { return r.ZeroBlocks }),
		countRow(s, order, "not finite", tensor, func(r *sessions.Record) int64 { return r.NonFinite }))
	return tensorColumns(s, order, rows, w).Render(th, w, h)
}

// tensorColumns chooses what fits of the rows, which hold a label, the baseline's
// figure, and a figure and a step for each other variant of order.
func tensorColumns(s *Scene, order []int, rows [][]string, w int) Table {
	names := shortVariants(s.State.Variants)
	shown := slices.Clone(order)
	for {
		tb := Table{Columns: []Column{{}}, Cursor: -1, More: true}
		if n := len(order) - len(shown); n > 0 {
			tb.Columns[0].Title = notShown(n)
		}
		taken := []int{0}
		for i, v := range order {
			if !slices.Contains(shown, v) {
				continue
			}
			at := max(2*i, 1) // of its figure in a row
			width := 0
			for _, row := range rows {
				width = max(width, Width(row[at]))
			}
			head := shortenVariant(names[v], max(width, 8)-2) + " " + s.Theme.VariantMark(v)
			tb.Columns = append(tb.Columns, Column{Title: head, Align: Right})
			taken = append(taken, at)
			if i > 0 {
				tb.Columns = append(tb.Columns, Column{Title: "change", Align: Right, Drop: 1})
				taken = append(taken, at+1)
			}
		}
		for _, row := range rows {
			picked := make([]string, len(taken))
			for i, at := range taken {
				picked[i] = row[at]
			}
			tb.Rows = append(tb.Rows, picked)
		}
		tb.Dense = slices.Contains(tb.widths(w), -1)
		if len(shown) <= 2 || !slices.Contains(tb.widths(w), -1) {
			return tb.spelled(s, names, shown, w)
		}
		shown = s.shed(shown)
	}
}

// spelled writes the names of variants out at the heads of their columns as far as
// there is room.
func (tb Table) spelled(s *Scene, names []string, shown []int, w int) Table {
	columns := slices.Clone(tb.Columns)
	at := 1
	for i, v := range shown {
		columns[at].Title = shortenVariant(names[v], 16) + " " + s.Theme.VariantMark(v)
		if wide := (Table{Columns: columns, Rows: tb.Rows, Dense: tb.Dense}); slices.Contains(wide.widths(w), -1) {
			columns[at].Title = tb.Columns[at].Title
		}
		at++
		if i > 0 {
			at++
		}
	}
	tb.Columns = columns
	return tb
}

// figureRow is a metric under each variant of order, and behind each but the first
// the step from that: relative ones in per cent, others in the figure's own unit.
func figureRow(s *Scene, m Metric, order []int, tensor int) []string {
	c := changeOf(m)
	row := []string{m.label()}
	first, known := s.Record(order[0], tensor)
	for i, v := range order {
		r, ok := s.Record(v, tensor)
		row = append(row, figureText(m, &r, ok))
		if i == 0 {
			continue
		}
		step := ""
		if ok && known && !r.Failed && !first.Failed {
			step = signed(c.format, c.of(m.Of(&first), m.Of(&r)))
			if c.relative && step != "–" {
				step += " " + c.unit
			}
		}
		row = append(row, step)
	}
	return row
}

// figureText is a metric's value in a table.
func figureText(m Metric, r *sessions.Record, ok bool) string {
	switch {
	case !ok:
		return stateGlyphs[NotYet]
	case r.Failed:
		return "failed"
	}
	v := m.Of(r)
	if !isNumber(v) {
		return "–"
	}
	return m.figure(v)
}

func countRow(s *Scene, order []int, label string, tensor int, of func(*sessions.Record) int64) []string {
	row := []string{label}
	for i, v := range order {
		r, ok := s.Record(v, tensor)
		text := stateGlyphs[NotYet]
		if ok && !r.Failed {
			text = thousands(of(&r))
		}
		row = append(row, text)
		if i > 0 {
			row = append(row, "")
		}
	}
	return row
}
