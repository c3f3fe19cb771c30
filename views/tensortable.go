package views

import (
	"fmt"

	"quantscope/sessions"
)

// tensorTable is the figures of one tensor, a column a variant, and for each
// variant but the baseline how far it is from it.
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
	names := shortVariants(state.Variants)
	columns := []Column{{Title: ""}}
	for i, v := range order {
		drop := i
		if v == s.Variant || i == 0 {
			drop = 0
		}
		columns = append(columns, Column{Title: Truncate(names[v], 16) + " " + th.VariantMark(v), Align: Right, Drop: drop})
		if i > 0 {
			columns = append(columns, Column{Title: "change", Align: Right, Drop: drop})
		}
	}
	var rows [][]string
	for _, m := range metrics {
		c := changeOf(m)
		row := []string{m.Name}
		if c.unit == "dB" {
			row[0] += ", dB"
		}
		first, known := s.Record(base, tensor)
		for i, v := range order {
			r, ok := s.Record(v, tensor)
			row = append(row, figureText(m, &r, ok))
			if i == 0 {
				continue
			}
			step := ""
			if ok && known && !r.Failed && !first.Failed {
				step = signed(c.format, c.of(m.Of(&first), m.Of(&r)))
				if c.unit != "" && step != "–" {
					step += " " + unitMark(c.unit)
				}
			}
			row = append(row, step)
		}
		rows = append(rows, row)
	}
	rows = append(rows, countRow(s, order, "zero blocks", tensor, func(r *sessions.Record) int64 { return r.ZeroBlocks }),
		countRow(s, order, "not finite", tensor, func(r *sessions.Record) int64 { return r.NonFinite }))
	for column := 2; column < len(columns); column++ {
		if columns[column].Title == "change" {
			alignColumn(rows, column)
		}
	}
	for i := range columns {
		if i > 0 && columns[i].Title != "change" {
			alignColumn(rows, i)
		}
	}
	return Table{Columns: columns, Rows: rows, Cursor: -1}.Render(th, w, h)
}

// unitMark is a unit as it stands in a cell.
func unitMark(unit string) string {
	if unit == "points" {
		return "pt"
	}
	return unit
}

// figureText is a metric's value in a table.
func figureText(m Metric, r *sessions.Record, ok bool) string {
	switch {
	case !ok:
		return "·"
	case r.Failed:
		return "failed"
	}
	v := m.Of(r)
	if !isNumber(v) {
		return "–"
	}
	return fmt.Sprintf(m.Format, v)
}

func countRow(s *Scene, order []int, label string, tensor int, of func(*sessions.Record) int64) []string {
	row := []string{label}
	for i, v := range order {
		r, ok := s.Record(v, tensor)
		text := "·"
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
