package views

import (
	"slices"

	"quantscope/analysis/calibrate"
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
	coded := s.coded(order, tensor)
	for _, m := range metrics {
		if !m.Calibrated() && (!m.codebook || coded) {
			rows = append(rows, figureRow(s, m, order, tensor))
		}
	}
	rows = append(rows, countRow(s, order, "zero blocks", tensor, func(r *sessions.Record) int64 { return r.ZeroBlocks }),
		countRow(s, order, "not finite", tensor, func(r *sessions.Record) int64 { return r.NonFinite }))
	if coded {
		rows = append(rows, s.codebookRow(order, tensor))
	}
	if calibrated := tradeRows(s, order, tensor); len(calibrated) > 0 { // what the person came for stands first
		rows = slices.Concat(rows[:2], calibrated, rows[2:])
	}
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
		row = append(row, s.figureText(m, v, tensor, &r, ok))
		if i == 0 {
			continue
		}
		step := ""
		if ok && known && !r.Failed && !first.Failed {
			step = signed(c.format, c.of(s.value(m, order[0], tensor, &first), s.value(m, v, tensor, &r)))
			if c.relative && step != "–" {
				step += " " + c.unit
			}
		}
		row = append(row, step)
	}
	return row
}

// figureText is a metric's value in a table.
func (s *Scene) figureText(m Metric, variant, tensor int, r *sessions.Record, ok bool) string {
	switch {
	case !ok:
		return stateGlyphs[NotYet]
	case r.Failed:
		return "failed"
	}
	v := s.value(m, variant, tensor, r)
	if !isNumber(v) {
		return "–"
	}
	return m.figure(v)
}

// tradeRows are what calibration did to a tensor, where it did something under one
// of the variants.
func tradeRows(s *Scene, order []int, tensor int) [][]string {
	if !slices.ContainsFunc(order, func(v int) bool { return s.Trade(v, tensor) != nil }) {
		return nil
	}
	row := func(label string, of func(v int, tr *calibrate.Trade) string) []string {
		out := []string{label}
		for i, v := range order {
			text := ""
			if tr := s.Trade(v, tensor); tr != nil {
				text = of(v, tr)
			}
			if out = append(out, text); i > 0 {
				out = append(out, "")
			}
		}
		return out
	}
	rows := [][]string{row("ran as", func(v int, tr *calibrate.Trade) string { return effective(&s.State.Variants[v], tr, 14) })}
	for _, f := range tradeFigures {
		rows = append(rows, row(f.label, func(v int, tr *calibrate.Trade) string {
			tokens, _ := s.tradesOf(v).tokens(&s.State.Tensors[tensor], tr)
			return f.of(tr, tokens)
		}))
	}
	return append(rows, row("dead columns", func(_ int, tr *calibrate.Trade) string { return thousands(tr.Dead) }))
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
