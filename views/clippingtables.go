package views

import (
	"math"
	"strings"
)

// clipMeasure is a figure by which clipping is compared from place to place.
type clipMeasure struct {
	name, help string
	of         func(c *clipSum) float64 // a share; NaN where there is nothing to share
}

var clipMeasures = []clipMeasure{
	{"deep", "% of blocks clipped deep", func(c *clipSum) float64 { return c.blockShare(c.deep) }},
	{"shallow", "% of blocks clipped shallow", func(c *clipSum) float64 { return c.blockShare(c.shallow) }},
	{"deep L2", "% of L2 mass in deeply clipped elements", func(c *clipSum) float64 { return c.massShare(c.deepMass) }},
	{"shallow L2", "% of L2 mass in shallowly clipped elements", func(c *clipSum) float64 { return c.massShare(c.shallowMass) }},
	{"subnormal", "% of blocks clipped under a subnormal scale", func(c *clipSum) float64 { return c.blockShare(c.subnormal) }},
	{"clamped", "% of block scales clamped, high or low", func(c *clipSum) float64 { return c.blockShare(c.clampHigh + c.clampLow) }},
	{"zero", "% of blocks that are all zero", func(c *clipSum) float64 { return c.blockShare(c.zero) }},
}

// clipRow is one variant's row in the table of variants.
type clipRow struct {
	id    int
	name  string
	short string // in the head of a column
	sum   clipSum
	total int
}

// clipTable is the table of variants, with the shown one marked and in sight.
func clipTable(th *Theme, rows []clipRow, shown, w, h int) string {
	const barWidth = 16
	top := 0.0
	cells := make([][]string, len(rows))
	for i := range rows {
		c := &rows[i].sum
		if share := c.blockShare(c.deep + c.shallow); isNumber(share) {
			top = max(top, share)
		}
		mark := " "
		if rows[i].id == shown {
			mark = th.Accent.Render("▸")
		}
		cells[i] = []string{
			mark, th.VariantTag(rows[i].name, rows[i].id), percent(c.blockShare(c.deep)), percent(c.blockShare(c.shallow)), "",
			percent(c.massShare(c.deepMass)), percent(c.massShare(c.shallowMass)), percent(c.blockShare(c.subnormal)),
			thousands(c.clampHigh), thousands(c.clampLow), thousands(c.zero), thousands(c.tensors) + " of " + thousands(rows[i].total),
		}
	}
	for _, column := range []int{2, 3, 5, 6, 7} {
		alignColumn(cells, column)
	}
	for i := range rows {
		c := &rows[i].sum
		cells[i][4] = th.VariantStyle(rows[i].id).Render(stackedBar(c.blockShare(c.deep), c.blockShare(c.shallow), top, barWidth))
	}
	offset := 0
	if room := h - 2; len(rows) > h-1 && shown >= room {
		offset = shown - room + 1
	}
	return Table{
		Columns: []Column{
			{Title: ""}, {Title: "variant"}, {Title: "deep %", Align: Right}, {Title: "shallow %", Align: Right},
			{Title: "█ deep ░ shallow", Width: barWidth, Drop: 4},
			{Title: "deep L2 %", Align: Right, Drop: 1}, {Title: "shallow L2 %", Align: Right, Drop: 3}, {Title: "subnormal %", Align: Right, Drop: 5},
			{Title: "scales high", Align: Right, Drop: 6}, {Title: "low", Align: Right, Drop: 6}, {Title: "zero blocks", Align: Right, Drop: 7},
			{Title: "tensors", Align: Right, Drop: 2},
		},
		Rows: cells, Cursor: -1, More: true, Offset: offset,
	}.Render(th, w, h)
}

// alignColumn sets the numbers of one column on their decimal points.
func alignColumn(rows [][]string, column int) {
	numbers := make([]string, len(rows))
	for i := range rows {
		numbers[i] = rows[i][column]
	}
	for i, s := range AlignDecimal(numbers) {
		rows[i][column] = s
	}
}

// stackedBar is two shares after each other in w cells, of which top fills all.
func stackedBar(first, second, top float64, w int) string {
	if !(top > 0) || !isNumber(first) || !isNumber(second) {
		return spaces(w)
	}
	cellsOf := func(share float64) int {
		n := int(share/top*float64(w) + 0.5)
		if share > 0 {
			n = max(n, 1)
		}
		return n
	}
	n := min(cellsOf(first), w)
	m := min(cellsOf(second), w-n)
	return strings.Repeat("█", n) + strings.Repeat("░", m) + spaces(w-n-m)
}

// clipPlace is one row of the table of places.
type clipPlace struct {
	label string
	here  bool // the shown projection, or the layer of the cursor
	total int
	sums  []clipSum // by variant
}

// trackMark is a variant's mark on a line from lo to hi in w cells: where a
// place stands among others, when their bars would all look alike.
func trackMark(th *Theme, v, lo, hi float64, variant, w int) string {
	if !isNumber(v) || !(hi > lo) {
		return th.Faint.Render(strings.Repeat("·", w))
	}
	at := Scale{Lo: lo, Hi: hi}.level(v, w)
	return th.Faint.Render(strings.Repeat("·", at)) + th.VariantStyle(variant).Render(th.VariantMark(variant)) + th.Faint.Render(strings.Repeat("·", w-1-at))
}

// placesTable shows a measure for each place and variant, and where the shown
// variant stands among the places. The first row stays, the rest scrolls so that
// row keep is seen; rows without room are counted, and so are variants.
func placesTable(th *Theme, m clipMeasure, places []clipPlace, variants []clipRow, shown, keep, w, h int) (table string, hidden int) {
	const track = 14
	lo, hi := math.Inf(1), math.Inf(-1)
	for i := range places {
		if v := m.of(&places[i].sums[shown]); isNumber(v) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	columns := []Column{{Title: ""}, {Title: "where"}}
	for _, v := range variants {
		drop := 1
		if v.id == shown {
			drop = 0
		}
		columns = append(columns, Column{Title: v.short, Align: Right, Drop: drop})
	}
	columns = append(columns, Column{Title: "less ↔ more", Width: track, Drop: 2}, Column{Title: "tensors", Align: Right, Drop: 3})
	rows := make([][]string, len(places))
	for i, p := range places {
		mark := " "
		if p.here {
			mark = th.Accent.Render("▸")
		}
		row := []string{mark, p.label}
		for v := range variants {
			row = append(row, percent(m.of(&p.sums[v])))
		}
		rows[i] = append(row, trackMark(th, m.of(&p.sums[shown]), lo, hi, shown, track), thousands(p.total))
	}
	for v := range variants {
		alignColumn(rows, 2+v)
	}
	// Header and the first row stand still.
	tb := Table{Columns: columns, Rows: rows, Cursor: -1, More: true}
	room := max(tb.room(h)-1, 0)
	offset := max(min(keep-room/2, len(rows)-room), 1)
	if offset > 1 && offset < len(rows) {
		tb.Rows, tb.Left = append(rows[:1:1], rows[offset:]...), offset-1
	}
	for _, width := range tb.widths(w)[2 : 2+len(variants)] {
		if width < 0 {
			hidden++
		}
	}
	return tb.Render(th, w, h), hidden
}

// besideTable sets the tensor under the cursor beside everything that is shown.
func besideTable(th *Theme, tensor, whole *clipSum, w, h int) string {
	rows := make([][]string, 0, len(clipMeasures)+1)
	for _, m := range clipMeasures {
		t, all := m.of(tensor), m.of(whole)
		times := ""
		if all > 0 && isNumber(t/all) {
			times = "×" + compact(t/all)
		}
		rows = append(rows, []string{m.name, percent(t), percent(all), times})
	}
	alignColumn(rows, 1)
	alignColumn(rows, 2)
	return Table{
		Columns: []Column{{Title: "%"}, {Title: "this tensor", Align: Right}, {Title: "all shown", Align: Right}, {Title: "", Align: Right, Drop: 1}},
		Rows:    rows, Cursor: -1, More: true,
	}.Render(th, w, h)
}
