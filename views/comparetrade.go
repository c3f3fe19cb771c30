package views

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"quantscope/sessions"
)

// tradeOff is why there is no trade to show, "" where there is.
func (p *Compare) tradeOff() string {
	if _, _, ok := p.sides(); !ok {
		return "there are no two variants"
	}
	if a, b := p.scene.tradeSides(p.scene.Baseline, p.scene.Variant); a == tradeNone && b == tradeNone {
		return "neither side is calibrated: v and b choose variants, +gptq and +imatrix are"
	}
	return ""
}

// showsTrade says whether the screen shows the trade.
func (p *Compare) showsTrade() bool { return p.trade && p.tradeOff() == "" }

// tradeMetric names what the maps show beside the trade.
const tradeMetric = "output error²"

// fillTrade gives the maps the output errors of both sides, and of B − A their
// relative change.
func (p *Compare) fillTrade() {
	n := len(p.pairs.changes)
	var values [3][]float64
	var states [3][]CellState
	for i := range values {
		values[i], states[i] = make([]float64, n), make([]CellState, n)
	}
	both, changes := make([]float64, 0, 2*len(p.trades.rows)), make([]float64, 0, len(p.trades.rows))
	for _, r := range p.trades.rows {
		for i, v := range [3]float64{r.outA, r.outB, 100 * (r.ratio - 1)} {
			if states[i][r.tensor] = Absent; isNumber(v) {
				values[i][r.tensor], states[i][r.tensor] = v, Measured
			}
		}
		both, changes = append(both, r.outA, r.outB), append(changes, 100*(r.ratio-1))
	}
	scale, change := RobustScale(both), SymmetricScale(changes)
	scale.NonFinite, change.NonFinite = 0, 0
	for i := range values {
		p.maps[i].SetValues(values[i], states[i])
		p.maps[i].SetScale([3]Scale{scale, scale, change}[i])
	}
}

// tradeParts are the parts of the trade, in the order in which o shows them on a
// small screen.
var tradeParts = [...]comparePart{compareTradeTable, compareTradeChart, compareTradeSums}

// Cells that the table of trades asks for, and most that it gets.
const (
	tradeTableW = 54
	tradeTableM = 66
)

// arrangeTrade is arrangeCompare for the trade: the maps stay, chart and table
// stand below them, sums at the side.
func arrangeTrade(w, h, rows int, only comparePart) compareLayout {
	l := arrangeCompare(w, h, rows, only, false)
	if l.small {
		return l
	}
	l.shared = false
	scatter, side := l.parts[compareScatter], l.parts[comparePaired]
	left := side.x - 3
	for _, part := range []comparePart{compareScatter, compareSpread, comparePlaces, comparePaired, compareWorst} {
		l.parts[part] = rect{}
	}
	table := min(max(left*5/8, tradeTableW), tradeTableM)
	l.parts[compareTradeChart] = rect{0, scatter.y, left - table - 3, scatter.h}
	l.parts[compareTradeTable] = rect{left - table, scatter.y, table, scatter.h}
	sums := min(tradeSumLines+6, max(h-side.y, 0))
	l.parts[compareTradeSums] = rect{side.x, side.y, side.w, sums}
	l.cursor = rect{side.x, side.y + sums + 1, side.w, min(8, max(h-side.y-sums-1, 0))}
	return l
}

// tradeSumLines is the height of the sums without what is said below them.
const tradeSumLines = 11

// tradeSums is what the trade comes to over all that is shown.
func tradeSums(th *Theme, l *tradeList, a, b *sessions.Variant, w, h int) string {
	row := func(label, value string) string {
		return th.Dim.Render(Fit(label, w-Width(value))) + th.Text.Render(value)
	}
	of := func(n int) string { return fmt.Sprintf("%s of %s", thousands(n), thousands(l.n)) }
	step := func(x, y float64) string { return tradeText(x) + " → " + tradeText(y) }
	lines := []string{
		th.Title.Render("the trade, A → B") + th.Dim.Render("  n = "+thousands(l.n)),
		row("weight error²", step(l.relA, l.relB)),
		row("  change of the mean", relative(quotient(l.relB-l.relA, l.relA))),
		row("output error²", step(l.outA, l.outB)),
		row("  change of the mean", relative(quotient(l.outB-l.outA, l.outA))),
		row("  median of B/A", ratioOf(l.median)),
		row("output error falls", of(l.lower)),
		row("weight error rises", of(l.heavier)),
		row("fell back", thousands(l.fell)),
		row("without both figures", thousands(l.without)),
		"",
	}
	if l.n == 0 {
		lines = slices.Delete(lines, 1, 8)
	}
	for _, text := range l.notes(a, b) {
		lines = append(lines, wrapped(th.Dim, text, w)...)
	}
	return Block(lines, w, h)
}

// notes say where figures come from that are not of a side's own calibration.
func (l *tradeList) notes(a, b *sessions.Variant) []string {
	var out []string
	for _, x := range []struct {
		side         tradeSide
		name, other  string
		label, owner string
	}{{l.sideA, a.Name, b.Name, "A", "B"}, {l.sideB, b.Name, a.Name, "B", "A"}} {
		switch x.side {
		case tradeOfOther:
			out = append(out, fmt.Sprintf("%s is not calibrated: its figures are of %s's baseline, on the inputs of %s's calibration.", x.label, x.owner, x.owner))
		case tradeNone:
			out = append(out, fmt.Sprintf("%s is not calibrated and not the baseline of %s: it has no output errors.", x.label, x.owner))
		}
	}
	return out
}

func ratioOf(v float64) string {
	if !isNumber(v) {
		return "–"
	}
	return number("%.3f", v)
}

// sentence says what the trade is worth.
func (l *tradeList) sentence(a, b *sessions.Variant) string {
	if l.n == 0 {
		yet := " yet"
		if l.sideA == tradeNone || l.sideB == tradeNone {
			yet = "" // and none will have
		}
		return fmt.Sprintf("%s against %s: no matrix has output errors under both%s.", Clean(b.Name), Clean(a.Name), yet)
	}
	words := func(from, to float64) string {
		c := quotient(to-from, from)
		if c > 0 {
			return strings.TrimLeft(relative(c), "+−") + " more"
		}
		return strings.TrimLeft(relative(c), "+−") + " less"
	}
	return fmt.Sprintf("%s has %s weight error and %s output error on the calibration text than %s; output error falls on %s of %s.",
		Clean(b.Name), words(l.relA, l.relB), words(l.outA, l.outB), Clean(a.Name), thousands(l.lower), matricesText(l.n))
}

func matricesText(n int) string {
	if n == 1 {
		return "1 matrix"
	}
	return thousands(n) + " matrices"
}

// tradeChart sets weight error against output error of both sides, logarithmic.
func tradeChart(th *Theme, l *tradeList, cursor, a, b, w, h int) string {
	name, legend := "weight → output error²", "  A ∘ "+th.VariantMark(a)+"  B ⠿ "+th.VariantMark(b)
	marks := fitting(w-Width(name), legend+"  · equal", legend, "")
	if marks == "" {
		name, marks = "errors²", fitting(w-7, legend, "")
	}
	title := th.Title.Render(name) + th.Dim.Render(marks)
	if l.n == 0 {
		return Block([]string{title, th.Dim.Render("no pair yet")}, w, h)
	}
	s := Scatter{XLabel: "weights", YLabel: "output", Diagonal: true, Free: true, Log: true, Mark: -1, Ink: th.variantInk(b), Other: &Cloud{Ink: th.variantInk(a), Mark: -1}}
	for _, v := range []*[]float64{&s.X, &s.Y, &s.Other.X, &s.Other.Y} {
		*v = make([]float64, 0, l.n)
	}
	for _, r := range l.rows {
		if math.IsNaN(r.ratio) {
			continue
		}
		if r.tensor == cursor {
			s.Mark, s.Other.Mark = len(s.X), len(s.X)
		}
		s.X, s.Y = append(s.X, r.relB), append(s.Y, r.outB)
		s.Other.X, s.Other.Y = append(s.Other.X, r.relA), append(s.Other.Y, r.outA)
	}
	return Fit(title, w) + "\n" + s.Render(th, w, h-1)
}

// tradeWindow scrolls the rows so that the cursor's is seen.
func (l *tradeList) tradeWindow(cursor, h int) (from, to, at int) {
	at = slices.IndexFunc(l.rows, func(r tradeRow) bool { return r.tensor == cursor })
	room := Table{More: true, Left: len(l.rows)}.room(h)
	from = max(min(at-room/2, len(l.rows)-room), 0)
	return from, min(from+room, len(l.rows)), at
}

// tradeTable lists the matrices, the largest ratio of output errors first.
func tradeTable(th *Theme, l *tradeList, tensors []sessions.Tensor, cursor, w, h int) string {
	if len(l.rows) == 0 {
		return Block([]string{th.Dim.Render("no figure of calibration yet")}, w, h)
	}
	from, to, at := l.tradeWindow(cursor, h)
	tb := Table{Cursor: at - from, Marked: true, More: true, Left: len(l.rows) - (to - from), Dense: w < 60, Columns: []Column{
		{Title: "tensor", Align: Middle, Flex: 1, Min: 11}, {Title: "rel2 A", Align: Right, Drop: 2}, {Title: "rel2 B", Align: Right, Drop: 1},
		{Title: "out2 A", Align: Right}, {Title: "out2 B", Align: Right}, {Title: "B/A", Align: Right},
	}}
	if at < from || at >= to {
		tb.Cursor = -1
	}
	for _, r := range l.rows[from:to] {
		tb.Rows = append(tb.Rows, []string{ShortName(&tensors[r.tensor]), tradeText(r.relA), tradeText(r.relB), tradeText(r.outA), tradeText(r.outB), ratioOf(r.ratio)})
	}
	for column := 1; column < len(tb.Columns); column++ {
		alignColumn(tb.Rows, column)
	}
	return tb.Render(th, w, h)
}

func tradeText(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v >= 0.001 && v < 10:
		return number("%.5f", v)
	}
	return compact(v)
}

// row is what is known of a tensor, nil where nothing is.
func (l *tradeList) row(tensor int) *tradeRow {
	if i := slices.IndexFunc(l.rows, func(r tradeRow) bool { return r.tensor == tensor }); i >= 0 {
		return &l.rows[i]
	}
	return nil
}

// nextLoss moves the cursor to the matrix after the one it is on whose output
// error is larger under B, or to the one that loses most.
func (p *Compare) nextLoss() bool {
	l := &p.trades
	n := l.losses()
	if n == 0 {
		return false
	}
	at := slices.IndexFunc(l.rows[:n], func(r tradeRow) bool { return r.tensor == p.scene.Cursor })
	p.scene.SetCursor(l.rows[(at+1)%n].tensor)
	return true
}

// losses is how many rows have a larger output error under B; they come first.
func (l *tradeList) losses() int {
	n := 0
	for n < len(l.rows) && l.rows[n].ratio > 1 {
		n++
	}
	return n
}
