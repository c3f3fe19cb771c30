package views

import (
	"fmt"
	"math"
	"strings"

	"quantscope/analysis/stats"
	"quantscope/sessions"
)

// signed writes a step with its sign, a minus as wide as a plus; what rounds to
// nothing has none.
func signed(format string, v float64) string {
	if !isNumber(v) {
		return "–"
	}
	s := fmt.Sprintf(format, v)
	if strings.Trim(s, "+-0.") == "" {
		return strings.TrimLeft(s, "+-")
	}
	return minus(s)
}

// pValue writes a p value from its decimal logarithm, which does not underflow:
// 0.0128, 4e−41, 2e−8065.
func pValue(log10 float64) string {
	switch {
	case math.IsNaN(log10):
		return "–"
	case log10 >= -3:
		return fmt.Sprintf("%.4f", math.Pow(10, log10))
	}
	exponent := math.Floor(log10)
	digit := math.Round(math.Pow(10, log10-exponent))
	if digit >= 10 {
		digit, exponent = 1, exponent+1
	}
	return minus(fmt.Sprintf("%.0fe%.0f", digit, exponent))
}

// relative writes a relative change in per cent.
func relative(change float64) string {
	if !isNumber(change) {
		return "–"
	}
	return signed("%+.1f", 100*change) + " %"
}

// relativeWithin is a relative change with half of its interval, as far as that
// is known.
func relativeWithin(change, reach float64) string {
	if !isNumber(change) || !isNumber(reach) {
		return relative(change)
	}
	return signed("%+.1f", 100*change) + number(" ± %.1f %%", 100*reach)
}

// coverage says how many pairs there are: n = 180 of 240 pairs so far.
func (o *comparison) coverage() string {
	if o.missing == 0 {
		return fmt.Sprintf("n = %s", thousands(o.by.N))
	}
	return fmt.Sprintf("n = %s of %s pairs so far", thousands(o.by.N), thousands(o.total))
}

// pairedLines is the height of the paired table.
const pairedLines = 15

// pairedTable is the outcome over all pairs; kl is that of a measurement, nil
// without one.
func pairedTable(th *Theme, p *pairs, kl *KLCompared, a, b *sessions.Variant, w int) []string {
	o, by := &p.outcome, &p.outcome.by
	part := func(n int) string {
		if by.N == 0 {
			return "–"
		}
		return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(by.N))
	}
	row := func(label, value string) string {
		return th.Dim.Render(Fit(label, w-Width(value))) + th.Text.Render(value)
	}
	count := func(label string, n int) string {
		return row(label, thousands(n)+FitRight(part(n), 10))
	}
	lines := []string{th.Title.Render("paired by "+p.metric.Name) + th.Dim.Render("  "+o.coverage())}
	if p.metric.Worse == 0 {
		lines = append(lines, row("wins", p.metric.Name+" is neither good nor bad"), "", "")
	} else {
		lines = append(lines, count("wins B", by.Wins), count("ties", by.Ties), count("losses", by.Losses))
	}
	lines = append(lines, winBar(th, by, w), row("mean rel2, 95 %", relativeWithin(o.rel2.Change(), o.rel2Reach)))
	if kl != nil {
		lines = append(lines, row("KL, 95 %", kl.words()))
	}
	unit := p.change.unit
	if unit != "" {
		unit = " " + unit
	}
	lines = append(lines,
		row("median change", signed(p.change.format, o.median)+unit),
		row("span", signed(p.change.format, o.low)+" … "+signed(p.change.format, o.high)+unit),
		row("Wilcoxon p, two-sided", pValue(o.test.Log10P)),
		row("size", o.sizeWords()+FitRight(relative(o.sizeChange(a, b)), 10)),
		row("bits per weight", bitsWords(a, b)),
		row("deep clips", percent(share(o.deepA, o.blocksA))+" → "+percent(share(o.deepB, o.blocksB))+" %"),
		row("not measured yet", thousands(o.missing)),
		row("no finite figure", thousands(by.LeftOut)),
	)
	if o.undefined > 0 {
		lines = append(lines, row("no change from 0 defined", thousands(o.undefined)))
	}
	return lines
}

// winBar is the shares of wins, ties and losses in w cells.
func winBar(th *Theme, by *stats.Paired, w int) string {
	n := by.Wins + by.Ties + by.Losses
	if n == 0 || w <= 0 {
		return th.Faint.Render(strings.Repeat("·", max(w, 0)))
	}
	part := func(count int) int {
		c := int(math.Round(float64(count) / float64(n) * float64(w)))
		if count > 0 {
			c = max(c, 1)
		}
		return c
	}
	losses := part(by.Losses)
	ties := min(part(by.Ties), w-losses)
	wins := w - losses - ties
	return th.Good.Render(strings.Repeat("█", wins)) + th.Faint.Render(strings.Repeat("▒", ties)) + th.Bad.Render(strings.Repeat("░", losses))
}

// worstTable lists the worst regressions, and counts those that it has no room
// for; none says so.
func worstTable(th *Theme, p *pairs, tensors []sessions.Tensor, cursor, w, h int) string {
	o := &p.outcome
	title := th.Title.Render("worst regressions")
	switch {
	case p.metric.Worse == 0:
		return Block([]string{title + th.Dim.Render("  none: "+p.metric.Name+" has no better side")}, w, h)
	case o.by.N == 0:
		return Block([]string{title + th.Dim.Render("  no pair yet")}, w, h)
	case len(o.worst) == 0:
		return Block([]string{title + th.Dim.Render("  none")}, w, h)
	}
	title += th.Dim.Render(fmt.Sprintf("  %s of %s", thousands(o.by.Losses), thousands(o.by.N)))
	change := "change"
	if p.change.unit != "" {
		change += " " + p.change.unit
	}
	rows := make([][]string, len(o.worst))
	for i, r := range o.worst {
		mark := " "
		if r.tensor == cursor {
			mark = th.Accent.Render("▸")
		}
		step := signed(p.change.format, r.change)
		if math.IsNaN(r.change) {
			step = "from 0"
		}
		rows[i] = []string{
			mark, ShortName(&tensors[r.tensor]), p.metric.text(r.a), p.metric.text(r.b), step,
		}
	}
	for column := 2; column <= 4; column++ {
		alignColumn(rows, column)
	}
	return Block([]string{title}, w, 1) + "\n" + Table{
		Columns: []Column{{Title: ""}, {Title: "tensor", Align: Middle, Flex: 1, Min: 13}, {Title: "A", Align: Right, Drop: 2}, {Title: "B", Align: Right, Drop: 1}, {Title: change, Align: Right}},
		Rows:    rows, Cursor: -1, More: true, Left: o.by.Losses - len(rows),
	}.Render(th, w, h-1)
}

// comparePlacesTable is the outcome by projection and by layer. It scrolls so
// that row keep is seen.
func comparePlacesTable(th *Theme, p *pairs, only, layer, w, h int) string {
	o := &p.outcome
	var rows [][]string
	keep := 0
	add := func(label string, by, rel2 *stats.Paired, here bool) {
		mark := " "
		if here {
			mark = th.Accent.Render("▸")
			keep = len(rows)
		}
		rows = append(rows, []string{mark, label, thousands(by.N), thousands(by.Wins), thousands(by.Losses), relative(rel2.Change())})
	}
	add("all", &o.by, &o.rel2, false)
	for i := range o.projections {
		add(p.places.projectionLabel(i), &o.projections[i], &o.projectionRel2[i], i == only)
	}
	for i := range o.layers {
		add(p.places.grid.Rows[i].Label, &o.layers[i], &o.layerRel2[i], i == layer)
	}
	alignColumn(rows, 5)
	columns := []Column{
		{Title: ""}, {Title: "where"}, {Title: "n", Align: Right, Drop: 3}, {Title: "wins B", Align: Right, Drop: 1},
		{Title: "losses", Align: Right, Drop: 2}, {Title: "mean rel2", Align: Right},
	}
	tb := Table{Columns: columns, Rows: rows, Cursor: -1, More: true}
	room := tb.room(h)
	tb.Offset = max(min(keep-room/2, len(rows)-room), 0)
	return tb.Render(th, w, h)
}
