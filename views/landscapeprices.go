package views

import (
	"math"
	"slices"
	"strings"

	"quantscope/analysis/landscape"
)

// landMark is the mark of the solver's answer.
const landMark = "◆"

// drawPrices is what each way of choosing loses at each size: as errors, as what
// it saves against the random control, or where there is room as both.
func (p *Landscape) drawPrices(w, h int) string {
	th, c := p.scene.Theme, p.pricing
	if c == nil || len(c.Curves) == 0 {
		why := p.nothing()
		if p.priced != "" {
			why = "there are no prices: " + Clean(p.priced)
		}
		return Block(append([]string{p.partTitle(landPrices, "")}, wrapped(th.Dim, why, w)...), w, h)
	}
	of := Clean(c.Base) + " → " + Clean(c.Protect)
	if p.grain > 0 {
		of += " by " + grainWords(p.grain)
	}
	var said []string
	if h >= 12 {
		said = p.priceVerdicts(c, w, max(h/4, 5))
	}
	room := h - len(said)
	relative := p.relative && priceAgainst(c) >= 0
	both := room >= 26 && priceAgainst(c) >= 0
	var out []string
	if both || !relative {
		part := room
		if both {
			part = room * 5 / 9
		}
		out = append(out, p.priceTitle(w, "mean rel2 against size, "+of, "mean rel2, "+of, "mean rel2"))
		out = append(out, p.priceChart(c, false, p.priceLegend(c, len(said) > 0, w), w, part-1)...)
		room -= part
	}
	if both || relative {
		legend := p.priceLegend(c, len(said) > 0, w)
		if both { // it stands above
			legend = nil
		}
		out = append(out, p.priceTitle(w, "less error than random, % of all error, "+of, "less than random, % of all error, "+of,
			"less than random, % of all error", "less than random, %"))
		out = append(out, p.priceChart(c, true, legend, w, room-1)...)
	}
	return Block(append(out, said...), w, h)
}

// priceVerdicts says of each list whether it beats its controls, in at most so
// many lines.
func (p *Landscape) priceVerdicts(c *landscape.Pricing, w, most int) []string {
	th := p.scene.Theme
	if len(c.Against) == 0 {
		var out []string
		for _, v := range c.Verdicts {
			out = append(out, wrapped(th.Text, "· "+Clean(v), w)...)
		}
		return out[:min(len(out), most)]
	}
	rows := make([][]string, 0, len(c.Against))
	for _, a := range c.Against {
		word, where := th.Dim.Render("no better than chance"), ""
		switch {
		case a.Beats && a.Pays:
			word = th.Good.Render("better")
		case a.Beats:
			word = th.Warn.Render("better, too little to pay")
		case a.Worse:
			word = th.Bad.Render("worse than chance")
		}
		gain := "–"
		if a.Beats || a.Worse {
			gain = signed("%+.2f", 100*a.Gain) + " %"
			where = "at " + bitsText(a.At)
		}
		span := ""
		if a.Beats {
			span = bitsText(a.From) + " to " + bitsText(a.To)
		}
		name := "  " + Clean(a.List)
		if i := slices.IndexFunc(c.Curves, func(x landscape.Curve) bool { return x.Name == a.List }); i >= 0 {
			name = p.curveTag(i, Clean(a.List))
		}
		rows = append(rows, []string{name, word, gain, where, span})
	}
	alignColumn(rows, 2)
	h := min(len(rows)+1, most)
	return strings.Split(Table{
		Columns: []Column{{Title: "  list"}, {Title: "against its controls"}, {Title: "gain at most", Align: Right, Drop: 1}, {Title: "b/w", Drop: 2}, {Title: "better from, b/w", Drop: 3}},
		Rows:    rows, Cursor: -1, More: true,
	}.Render(th, w, h), "\n")
}

// priceTitle says what a chart shows, in as many words as there is room for.
func (p *Landscape) priceTitle(w int, wordings ...string) string {
	return p.partTitle(landPrices, fitting(w-Width(landPartNames[landPrices])-2, wordings...))
}

// priceAgainst is the curve that others are measured against: the random
// control; -1 where there is none.
func priceAgainst(c *landscape.Pricing) int {
	return slices.IndexFunc(c.Curves, func(x landscape.Curve) bool { return x.Name == "random" && len(x.Points) > 1 })
}

// chartSamples is how many points of a curve are drawn; a chart has fewer cells.
const chartSamples = 240

// priceLine is a curve read at chartSamples sizes, with the ends of its spread.
type priceLine struct{ mean, low, high []float64 }

// priceLines reads all curves, as errors.
func priceLines(c *landscape.Pricing, lo, hi float64) []priceLine {
	out := make([]priceLine, len(c.Curves))
	for i, curve := range c.Curves {
		mean := sampled(curve.Points, lo, hi, func(p landscape.Point) float64 { return p.MeanRel2 })
		out[i] = priceLine{mean, mean, mean}
		if spreads(&c.Curves[i]) {
			out[i].low = sampled(curve.Points, lo, hi, func(p landscape.Point) float64 { return p.Low })
			out[i].high = sampled(curve.Points, lo, hi, func(p landscape.Point) float64 { return p.High })
		}
	}
	return out
}

// spreads says whether a curve is of a control with repeats.
func spreads(c *landscape.Curve) bool {
	return c.Control && slices.ContainsFunc(c.Points, func(p landscape.Point) bool { return p.High > p.Low })
}

// standAgainst turns errors into how much less they are than the control's at
// the same size, in per cent of all, the error without exemptions.
func standAgainst(lines []priceLine, control []float64, all float64) {
	turn := func(values []float64) []float64 {
		out := make([]float64, len(values))
		for k, v := range values {
			out[k] = lessThan(v, control[k], all)
		}
		return out
	}
	for i := range lines {
		lines[i] = priceLine{mean: turn(lines[i].mean), low: turn(lines[i].high), high: turn(lines[i].low)}
	}
}

// lessThan is how much less v is than the control's error, in per cent of all.
func lessThan(v, control, all float64) float64 { return 100 * (control - v) / all }

// priceChart is a chart in h lines with its axis, under a legend: curves, the
// band of the random control, and where the answer stands.
func (p *Landscape) priceChart(c *landscape.Pricing, relative bool, legend []string, w, h int) []string {
	th := p.scene.Theme
	lo, hi := priceSpan(c)
	say := func(text string) []string { return strings.Split(Block(wrapped(th.Dim, text, w), w, h), "\n") }
	if !(hi > lo) {
		return say("the sizes do not differ: protection costs nothing here and there is no curve")
	}
	values := priceLines(c, lo, hi)
	var control []float64 // the errors that the values stand against
	all := 0.0
	if relative {
		against := priceAgainst(c)
		control, all = values[against].mean, c.Curves[against].Points[0].MeanRel2
		if !(all > 0) {
			return say("there is no error without exemptions to compare with")
		}
		standAgainst(values, control, all)
	}
	// What is drawn last hides the rest: lists before controls, the first on top.
	var series []Series
	for _, i := range drawnCurves(c) {
		series = append(series, Series{Name: Clean(c.Curves[i].Name), Variant: p.curveID(i), Values: values[i].mean})
	}
	if h < len(legend)+6 {
		legend = nil
	}
	plot, ok := plotLines(th, series, w, h-len(legend), false, true)
	if !ok {
		return say("no room for a chart")
	}
	var cells []styledLine
	for _, line := range plot.lines[plot.head:] {
		cells = append(cells, splitCells(line))
	}
	axis := axisColumn(cells)
	width := w - axis - 1
	sample := func(x int) int {
		return int(math.Round(float64(x) / float64(max(width-1, 1)) * float64(chartSamples-1)))
	}
	for i, curve := range c.Curves {
		if !spreads(&curve) {
			continue
		}
		for x := range width {
			low, high := values[i].low[sample(x)], values[i].high[sample(x)]
			if !isNumber(low) || !isNumber(high) {
				continue
			}
			for y := max(plot.row(high), 0); y <= min(plot.row(low), len(cells)-1); y++ {
				cells[y].putBlank(axis+1+x, th.Faint.Render("░"))
			}
		}
	}
	p.markAnswer(cells, plot, axis, width, lo, hi, func(v float64, x int) float64 {
		if relative {
			return lessThan(v, control[sample(x)], all)
		}
		return v
	})
	lines := slices.Clone(legend)
	for _, line := range cells {
		lines = append(lines, line.String())
	}
	lines = append(lines, spaces(axis+1)+th.Dim.Render(bitsAxis(lo, hi, width)))
	return strings.Split(Block(lines, w, h), "\n")
}

// drawnCurves orders curves from the one at the bottom to the one on top: the
// controls, then the lists from the last to the first.
func drawnCurves(c *landscape.Pricing) []int {
	var lists, controls []int
	for i := range c.Curves {
		if c.Curves[i].Control {
			controls = append(controls, i)
		} else {
			lists = append(lists, i)
		}
	}
	slices.Reverse(lists)
	return append(controls, lists...)
}

// curveID is the colour and the stroke of a curve: those of variants that the
// session does not have, as long as there are any.
func (p *Landscape) curveID(i int) int { return len(p.scene.State.Variants) + i }

// curveTag is a name after the stroke of its curve.
func (p *Landscape) curveTag(i int, name string) string {
	id := p.curveID(i)
	return p.scene.Theme.VariantStyle(id).Render(strokes[id%len(strokes)].Horizontal + " " + name)
}

// shortCurves are what the names of curves become where the legend has no room.
var shortCurves = map[string]string{"projection": "proj", "random": "rand", "uniform": "unif", "reversed": "rev"}

// priceLegend names the curves with their strokes, controls in brackets, in one
// line or two; lists are left out where the table below names them.
func (p *Landscape) priceLegend(c *landscape.Pricing, tabled bool, w int) []string {
	words := func(long bool) []string {
		var out []string
		for i, curve := range c.Curves {
			if tabled && slices.ContainsFunc(c.Against, func(a landscape.Comparison) bool { return a.List == curve.Name }) {
				continue
			}
			name := Clean(curve.Name)
			if short := shortCurves[curve.Name]; short != "" && !long {
				name = short
			}
			if curve.Control {
				name = "(" + name + ")"
			}
			out = append(out, p.curveTag(i, name))
		}
		if p.answer != nil {
			out = append(out, p.scene.Theme.Accent.Render(landMark+" budget"))
		}
		return out
	}
	for _, long := range []bool{true, false} {
		if lines := flow(words(long), w, 2); len(lines) == 1 {
			return lines
		}
	}
	return flow(words(true), w, 2)
}

// priceSpan is from the least to the most bits per weight of all curves.
func priceSpan(c *landscape.Pricing) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, curve := range c.Curves {
		for _, pt := range curve.Points {
			if isNumber(pt.BitsPerWeight) {
				lo, hi = min(lo, pt.BitsPerWeight), max(hi, pt.BitsPerWeight)
			}
		}
	}
	return lo, hi
}

// sampled reads a curve at equal steps of size, linear between its points; NaN
// outside of them. Points go up or down in size.
func sampled(points []landscape.Point, lo, hi float64, of func(landscape.Point) float64) []float64 {
	if n := len(points); n > 1 && points[n-1].BitsPerWeight < points[0].BitsPerWeight {
		points = slices.Clone(points)
		slices.Reverse(points)
	}
	out := make([]float64, chartSamples)
	k := 0
	for i := range out {
		x := lo + (hi-lo)*float64(i)/float64(chartSamples-1)
		for k+1 < len(points) && points[k+1].BitsPerWeight < x {
			k++
		}
		out[i] = curveAt(points, k, x, of)
	}
	return out
}

// curveAt reads a curve at x, between points k and k+1.
func curveAt(points []landscape.Point, k int, x float64, of func(landscape.Point) float64) float64 {
	const slack = 1e-9 // of the rounding of x
	if k >= len(points) || x < points[k].BitsPerWeight-slack*math.Abs(x) {
		return math.NaN()
	}
	if k+1 >= len(points) {
		if x > points[k].BitsPerWeight+slack*math.Abs(x) {
			return math.NaN()
		}
		return of(points[k])
	}
	a, b := points[k], points[k+1]
	if !(b.BitsPerWeight > a.BitsPerWeight) {
		return of(b)
	}
	f := min(max((x-a.BitsPerWeight)/(b.BitsPerWeight-a.BitsPerWeight), 0), 1)
	return of(a) + f*(of(b)-of(a))
}

// markAnswer puts the mark of the answer on its size and error, which scaled
// turns into the value of the chart at a cell.
func (p *Landscape) markAnswer(cells []styledLine, plot linePlot, axis, w int, lo, hi float64, scaled func(v float64, x int) float64) {
	if p.answer == nil {
		return
	}
	a := &p.answer.Assignment
	if !isNumber(a.Bits) || !isNumber(a.Error) || a.Bits < lo || a.Bits > hi {
		return
	}
	x := int(math.Round((a.Bits - lo) / (hi - lo) * float64(w-1)))
	v := scaled(a.Error, x)
	if !isNumber(v) {
		return
	}
	mark := landMark
	switch { // off the chart
	case v < plot.lo:
		mark = "▼"
	case v > plot.hi:
		mark = "▲"
	}
	if y := plot.row(min(max(v, plot.lo), plot.hi)); y >= 0 && y < len(cells) {
		cells[y].put(axis+1+x, p.scene.Theme.Accent.Render(mark))
	}
}

// row is the line of a value, counted from the first line of curves.
func (p *linePlot) row(v float64) int {
	if !(p.hi > p.lo) {
		return 0
	}
	return p.rows - int(math.Round((v-p.lo)/(p.hi-p.lo)*float64(p.rows)))
}

// bitsAxis is an axis of bits per weight in w cells.
func bitsAxis(lo, hi float64, w int) string {
	line := []rune(spaces(max(w, 0)))
	end := 0
	values, step := roundValues(lo, hi, max(w/12, 1), false)
	labels := axisLabels(values, step)
	const unit = " bits/weight"
	for i, v := range values {
		x := int(math.Round((v - lo) / (hi - lo) * float64(w-1)))
		text := labels[i]
		if i == 0 && Width(text)+len(unit) < 12*w/max(w, 1)+20 {
			text += unit
		}
		x = min(x, w-len([]rune(text)))
		if x < end || x < 0 {
			continue
		}
		copy(line[x:], []rune(text))
		end = x + len([]rune(text)) + 1
	}
	return string(line)
}
