package views

import (
	"math"
	"slices"
)

// spreadBins is the number of bins of the spread of changes, fewer where there
// is no room.
const spreadBins = 40

// spreadChart is the distribution of the changes, with no change and the median
// marked. What lies beyond the limits is counted in the outermost bins.
func spreadChart(th *Theme, p *pairs, variant, w, h int) string {
	o := &p.outcome
	title := th.Title.Render("spread")
	if len(p.finite) == 0 || h < 3 || w < 20 {
		return Block([]string{title, th.Dim.Render("no pair yet")}, w, h)
	}
	limits := RobustScale(p.finite)
	lo, hi := min(limits.Lo, 0), max(limits.Hi, 0)
	pad := (hi - lo) * 0.04
	if !(pad > 0) {
		pad = 1
	}
	lo, hi = lo-pad, hi+pad
	if !isNumber(hi - lo) {
		return Block([]string{title, th.Dim.Render(Truncate("changes are too far apart to be drawn", w))}, w, h)
	}
	bins := max(min((w-8)/2, spreadBins), 4)
	counts := make([]float64, bins)
	beyond := 0
	for _, c := range p.finite {
		at := int(math.Floor((c - lo) / (hi - lo) * float64(bins)))
		if at < 0 || at >= bins {
			beyond++
		}
		counts[min(max(at, 0), bins-1)]++
	}
	note := "B − A"
	if p.change.unit != "" {
		note += ", " + p.change.unit
	}
	if beyond > 0 {
		note += "; " + thousands(beyond) + " beyond"
	}
	note = "  " + fitting(w-Width(title)-2, "tensors by "+note, note)
	hist := Histogram{Bins: []Series{{Variant: variant, Values: counts}}, Lo: lo, Hi: hi, Counts: true}
	marks := []chartMark{{0, "no change"}}
	if isNumber(o.median) && o.median >= lo && o.median <= hi {
		marks = append(marks, chartMark{o.median, "median " + signed(p.change.format, o.median)})
	}
	return Fit(title+th.Dim.Render(note), w) + "\n" + markedHistogram(th, hist, chartLook{current: variant, marks: marks}, w, h-1)
}

// scatterChart sets A against B, one dot a tensor.
func scatterChart(th *Theme, p *pairs, cursor, variant int, w, h int) string {
	title := th.Title.Render("A against B")
	title += th.Dim.Render("  " + fitting(w-Width(title)-2, p.metric.Name+"; below the line B is less", "below the line B is less", "below: B is less"))
	x, y := slices.Grow(p.scatterA[:0], len(p.changes)), slices.Grow(p.scatterB[:0], len(p.changes))
	mark := -1
	for t, s := range p.states {
		if s != Measured {
			continue
		}
		if t == cursor {
			mark = len(x)
		}
		x, y = append(x, p.left.metric[t]), append(y, p.right.metric[t])
	}
	p.scatterA, p.scatterB = x, y
	if len(x) == 0 {
		return Block([]string{title, th.Dim.Render("no pair yet")}, w, h)
	}
	return Fit(title, w) + "\n" + Scatter{
		X: x, Y: y, XLabel: "A", YLabel: "B", Diagonal: true, Mark: mark, Ink: th.variantInk(variant),
	}.Render(th, w, h-1)
}
