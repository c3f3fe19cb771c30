package views

import (
	"fmt"
	"math"
	"strings"

	"quantscope/analysis/tier"
	"quantscope/sessions"
)

// shareMark is a place on a chart: a line from top to bottom, or with a glyph a point.
type shareMark struct {
	x, y  float64 // x from 0 to 1; y is a value
	glyph string  // "" of a line
	label string  // under the axis, of a line
}

// shareChart draws shares in per cent, from 0 to 100, as curves over an axis in exactly
// h lines of exactly w cells. A curve has a value every cell, from left to right.
func shareChart(th *Theme, series []Series, w, h int, marks []shareMark, ticks func(n int) []tick) string {
	plot, ok := plotLinesIn(th, series, w, h, false, true, 0, 100)
	if !ok {
		text := "too little room for a chart"
		if data, _ := chartData(series); len(data) == 0 {
			text = "nothing that can be drawn yet"
		}
		return Block([]string{th.Dim.Render(Truncate(text, w))}, w, h)
	}
	left := plot.label + 2
	n := max(w-left, 2)
	place := func(x float64) int { return left + min(max(int(x*float64(n-1)+0.5), 0), n-1) }
	cells := make([]styledLine, len(plot.lines))
	for i, line := range plot.lines {
		cells[i] = splitCells(line)
	}
	for _, m := range marks {
		if m.glyph != "" {
			row := plot.head + plot.rows - int(math.Round(Scale{Lo: plot.lo, Hi: plot.hi}.Place(m.y)*float64(plot.rows)))
			if row >= 0 && row < len(cells) {
				cells[row].put(place(m.x), m.glyph)
			}
			continue
		}
		for i := plot.head; i < len(cells) && m.x > 0; i++ { // the axis stands at the beginning
			cells[i].putBlank(place(m.x), th.Faint.Render("┊"))
		}
	}
	lines := make([]string, 0, h)
	for _, c := range cells {
		lines = append(lines, c.String())
	}
	for len(lines) < h-1 {
		lines = append(lines, "")
	}
	labels := ticks(n)
	for _, m := range marks {
		if m.label != "" {
			labels = append(labels, tick{place(m.x) - left, m.label})
		}
	}
	return Block(append(lines[:h-1], th.Dim.Render(axisLine(labels, left, w))), w, h)
}

// axisLine sets labels under an axis, those of marks before those of values, each at
// its place as far as they stand apart.
func axisLine(labels []tick, left, w int) string {
	taken := make([]bool, w+2)
	var line styledLine
	for i := len(labels) - 1; i >= 0; i-- {
		text := labels[i].label
		n := Width(text)
		x := min(max(left+labels[i].at-(n-1)/2, left), w-n)
		free := x >= 0
		for j := max(x-1, 0); free && j < min(x+n+1, w); j++ {
			free = !taken[j]
		}
		if !free {
			continue
		}
		for j, cell := range splitCells(text) {
			line.put(x+j, cell)
			taken[x+j] = true
		}
	}
	return line.String()
}

// hitsBetween are the hits of windows from (inclusive) to (exclusive) in per cent, NaN
// where nothing was asked.
func (a *tierArm) hitsBetween(from, to int) float64 {
	n := len(a.windows)
	from, to = min(max(from, 0), n), min(max(to, 0), n)
	if to <= from || a.pairs[to] == a.pairs[from] {
		return math.NaN()
	}
	return 100 * float64(a.hits[to]-a.hits[from]) / float64(a.pairs[to]-a.pairs[from])
}

// hitsCurves are the hits window by window and those so far, a value a cell of n over
// all windows that the workload has.
func (a *tierArm) hitsCurves(all, n int) (now, sofar []float64) {
	all = max(all, len(a.windows), 1)
	now, sofar = make([]float64, n), make([]float64, n)
	for j := range n {
		from := j * all / n
		to := max((j+1)*all/n, from+1)
		now[j], sofar[j] = math.NaN(), math.NaN()
		if from < len(a.windows) {
			now[j], sofar[j] = a.hitsBetween(from, to), a.hitsBetween(0, to)
		}
	}
	return now, sofar
}

// tierHits is the chart of hits by window, with the phases of the workload.
func tierHits(th *Theme, r *sessions.TierRun, a *tierArm, w, h int) string {
	title := th.Title.Render("hits") + th.Dim.Render(fitting(w-4,
		"  % of what the tokens asked that hot experts served, by token", "  % served by hot experts, by token", "  %"))
	const label = 8 // cells of the axis
	now, sofar := a.hitsCurves(windowsOf(r.Setup), max(w-label, 2))
	series := []Series{{Name: "window", Variant: 0, Values: now}, {Name: "so far", Variant: 1, Values: sofar}}
	legend := "  " + th.VariantStyle(0).Render("── window") + "  " + th.VariantStyle(1).Render("╌╌ so far")
	if Width(title)+Width(legend) <= w {
		title += legend
	}
	tokens := float64(max(r.Setup.Workload.Tokens, 1))
	var marks []shareMark
	for _, p := range r.Setup.Workload.Phases {
		marks = append(marks, shareMark{x: float64(p.First) / tokens, label: Clean(p.Name)})
	}
	return Block([]string{title}, w, 1) + "\n" + shareChart(th, series, w, h-1, marks, func(n int) []tick {
		if len(marks) > 0 {
			return nil
		}
		return rangeTicks(0, tokens, n)
	})
}

// tierHitsLine is the hits in a line.
func tierHitsLine(th *Theme, a *tierArm, w int) string {
	n := len(a.windows)
	if n == 0 {
		return th.Dim.Render(Truncate("hits: no window yet", w))
	}
	head := fmt.Sprintf("%.1f %%", a.hitsBetween(n-1, n))
	room := w - Width(head) - 7
	now, _ := a.hitsCurves(n, max(min(room, n), 1))
	for i := range now {
		if !isNumber(now[i]) {
			now[i] = 0
		}
	}
	return th.Dim.Render("hits  ") + head + " " + th.VariantStyle(0).Render(shareSpark(now))
}

// shareSpark draws per cents as bars from 0 to 100.
func shareSpark(values []float64) string {
	var b strings.Builder
	for _, v := range values {
		b.WriteString(bars[min(max(int(v/100*float64(len(bars))), 0), len(bars)-1)])
	}
	return b.String()
}

// tierCurve is the chart of hits against budget: what the best fixed map of each size
// would have served, the line of even routing, the runs, and the knee.
func tierCurve(th *Theme, r *sessions.TierRun, shown, w, h int) string {
	title := th.Title.Render("hits by budget") + th.Dim.Render(fitting(w-14, "  %, of the best fixed map, in hindsight", "  % of the best fixed map", "  %"))
	c := r.End.Curve
	n := max(w-8, 2)
	best, even := make([]float64, n), make([]float64, n)
	for j := range n {
		x := float64(j) / float64(n-1)
		best[j], even[j] = 100*budgetCurveAt(c, x), 100*x
	}
	var marks []shareMark
	if c.Knee >= 0 {
		marks = append(marks, shareMark{x: c.Knee, label: fmt.Sprintf("knee %.3g %%", 100*c.Knee)})
	}
	for _, res := range r.End.Results {
		if res.Budget < 0 || res.Budget >= len(r.Setup.Budgets) {
			continue
		}
		glyph := th.VariantStyle(1).Render("●")
		if res.Budget == shown {
			glyph = th.Accent.Render("◆")
		}
		marks = append(marks, shareMark{x: min(r.Setup.Budgets[res.Budget].Share, 1), y: 100 * res.Hits, glyph: glyph})
	}
	legend := th.VariantStyle(0).Render("── hindsight") + "  " + th.VariantStyle(4).Render("··") + th.Dim.Render(" even routing") + "  " + th.VariantStyle(1).Render("●") + th.Dim.Render(" managed")
	chart := shareChart(th, []Series{{Name: "even", Variant: 4, Values: even}, {Name: "best", Variant: 0, Values: best}}, w, max(h-2, 1), marks, func(n int) []tick {
		return []tick{{0, "0"}, {(n - 1) / 4, "25"}, {(n - 1) / 2, "50"}, {3 * (n - 1) / 4, "75"}, {n - 1, "100"}}
	})
	return Block([]string{title, Truncate(legend, w)}, w, 2) + "\n" + chart
}

// budgetCurveAt is what a curve says of a share, between its points along straight lines.
func budgetCurveAt(c *tier.Curve, x float64) float64 {
	n := min(len(c.Share), len(c.Hits))
	for i := 1; i < n; i++ {
		if a, b := c.Share[i-1], c.Share[i]; x <= b {
			if !(b > a) {
				return c.Hits[i]
			}
			return c.Hits[i-1] + (c.Hits[i]-c.Hits[i-1])*min(max((x-a)/(b-a), 0), 1)
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return c.Hits[n-1]
}

// tierLayers is how many experts are hot in each layer: a bar a layer where there is
// room, else a line of them.
func tierLayers(th *Theme, r *sessions.TierRun, w *tier.Window, width, room int) []string {
	if w == nil || room < 2 || len(w.PerLayer) == 0 {
		return nil
	}
	title := th.Title.Render("hot by layer") + th.Dim.Render(fmt.Sprintf("  of %d experts", r.Setup.Shape.Experts))
	n := min(len(w.PerLayer), len(r.Setup.Shape.Layers))
	experts := float64(max(r.Setup.Shape.Experts, 1))
	if n+1 > room {
		values := make([]float64, n)
		least, most := math.MaxInt, 0
		for i, hot := range w.PerLayer[:n] {
			values[i] = 100 * float64(hot) / experts
			least, most = min(least, hot), max(most, hot)
		}
		line := shareSpark(meanBins(values, max(width-18, 4)))
		return []string{title, th.VariantStyle(0).Render(line) + th.Dim.Render(fmt.Sprintf("  %d to %d", least, most))}
	}
	lines := []string{title}
	digits := Width(fmt.Sprint(r.Setup.Shape.Experts))
	for i, hot := range w.PerLayer[:n] {
		label := FitRight(fmt.Sprintf("L%d", r.Setup.Shape.Layers[i]), 4)
		bar := Bar(float64(hot)/experts, max(width-7-digits, 1))
		lines = append(lines, th.Dim.Render(label)+" "+th.VariantStyle(0).Render(bar)+" "+FitRight(fmt.Sprint(hot), digits))
	}
	return lines
}

// meanBins is neighbouring values in at most n means.
func meanBins(values []float64, n int) []float64 {
	if len(values) <= n {
		return values
	}
	out := make([]float64, n)
	for j := range n {
		from, to := j*len(values)/n, (j+1)*len(values)/n
		for _, v := range values[from:to] {
			out[j] += v
		}
		out[j] /= float64(to - from)
	}
	return out
}

// tierSpread is how many layers have how many hot experts.
func tierSpread(th *Theme, w *tier.Window, experts, width int) []string {
	if w == nil || len(w.PerLayer) == 0 || width < 20 {
		return nil
	}
	bins := make([]float64, experts+1)
	for _, hot := range w.PerLayer {
		if hot >= 0 && hot <= experts {
			bins[hot]++
		}
	}
	ends := fmt.Sprintf("%d", experts)
	return []string{
		th.Title.Render("layers") + th.Dim.Render("  by their number of hot experts"),
		th.Dim.Render("0 ") + th.VariantStyle(0).Render(strings.TrimRight(Sparkline(bins, width-3-Width(ends)), " ")) + th.Dim.Render(" "+ends),
	}
}
