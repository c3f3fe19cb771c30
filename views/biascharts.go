package views

import (
	"math"
	"strings"
	"unicode/utf8"

	"quantscope/analysis/bias"
)

// drawError is the relative error by depth.
func (p *Bias) drawError(w, h int) string {
	th := p.scene.Theme
	title := th.Title.Render("error") + th.Dim.Render(fitting(w-5, "  ‖d‖/‖x‖ of the "+biasPartNames[p.part]+", by layer", "  of the "+biasPartNames[p.part], ""))
	return Block([]string{title}, w, 1) + "\n" + p.chart(func(row *bias.Row) float64 { return row.Rel }, 0, "", w, h-1)
}

// drawFigure is the figure that is chosen, over the same axis.
func (p *Bias) drawFigure(w, h int) string {
	th := p.scene.Theme
	of, mark, what, dots := func(row *bias.Row) float64 { return row.Bias }, 0.0, "Σd/Σ|x|", ", 0 dotted"
	switch p.figure {
	case biasGain:
		of, what = func(row *bias.Row) float64 { return row.Gain }, "Σdx/Σx²"
	case biasShift:
		of, what = func(row *bias.Row) float64 { return row.Shift }, "share of d² that is the same everywhere"
		if row := p.known.report.Row(p.at, p.layer, biasPartKeys[p.part]); row != nil && isNumber(row.Null) {
			mark, dots = row.Null, ", by chance dotted"
		}
	}
	name := biasFigureNames[p.figure]
	title := th.Title.Render(name) + th.Dim.Render(fitting(w-Width(name), "  "+what+" of the "+biasPartNames[p.part]+dots, "  "+what+dots, "  "+what, ""))
	return Block([]string{title}, w, 1) + "\n" + p.chart(of, mark, "┈", w, h-1)
}

// chart draws a figure of all candidates by depth in exactly h lines of w cells, the
// embeddings first. A line of dots stands at mark, which is always on the axis.
func (p *Bias) chart(of func(*bias.Row) float64, mark float64, dots string, w, h int) string {
	th, r := p.scene.Theme, p.known.report
	lo, hi := mark, mark
	var series []Series
	for _, c := range p.charted() {
		values := make([]float64, r.Setup.Layers+1)
		for i := range values {
			values[i] = math.NaN()
			if row := r.Row(c, i-1, biasPartKeys[p.part]); row != nil {
				if values[i] = of(row); isNumber(values[i]) {
					lo, hi = min(lo, values[i]), max(hi, values[i])
				}
			}
		}
		series = append(series, Series{Variant: p.known.inks[c], Values: values})
	}
	if lo == hi {
		lo, hi = lo-1e-6, hi+1e-6
	}
	plot, ok := plotLinesIn(th, series, w, h, false, true, lo, hi)
	if !ok {
		text := "too little room for a chart"
		if data, _ := chartData(series); len(data) == 0 {
			text = "no layer was passed yet"
		}
		return Block([]string{th.Dim.Render(Truncate(text, w))}, w, h)
	}
	lines := plot.lines
	if dots != "" && plot.hi > plot.lo {
		if i := plot.head + plot.rows - int(math.Round((mark-plot.lo)/(plot.hi-plot.lo)*float64(plot.rows))); i >= 0 && i < len(lines) {
			lines[i] = dotted(th, Fit(lines[i], w), plot.label+2, dots)
		}
	}
	for len(lines) < h-1 {
		lines = append(lines, "")
	}
	return Block(append(lines[:h-1], p.depthAxis(w, plot.label+2)), w, h)
}

// dotted puts dots in the empty cells of a line behind its first n.
func dotted(th *Theme, line string, n int, dots string) string {
	var b strings.Builder
	at := 0
	for i := 0; i < len(line); {
		if line[i] == 0x1b {
			k := sgrLen(line[i:])
			if k == 0 {
				return line
			}
			b.WriteString(line[i : i+k])
			i += k
			continue
		}
		if line[i] == ' ' && at >= n {
			k := i
			for k < len(line) && line[k] == ' ' {
				k++
			}
			b.WriteString(th.Faint.Render(strings.Repeat(dots, k-i)))
			at += k - i
			i = k
			continue
		}
		_, size := utf8.DecodeRuneInString(line[i:])
		b.WriteString(line[i : i+size])
		at++
		i += size
	}
	return b.String()
}

// depthAxis labels layers under a chart whose axis is left cells from the left: the
// one whose figures are shown in brackets, and others as they fit.
func (p *Bias) depthAxis(w, left int) string {
	th, n := p.scene.Theme, p.known.report.Setup.Layers+1
	room := max(w-left, 1)
	cells := make([]string, w)
	for i := range cells {
		cells[i] = " "
	}
	put := func(i int, text string, accent bool) bool {
		x := left
		if n > 1 {
			x += int(math.Round(float64(i) / float64(n-1) * float64(room-1)))
		}
		width := Width(text)
		x = max(min(x-(width-1)/2, w-width), 0)
		for k := max(x-1, 0); k < min(x+width+1, w); k++ {
			if cells[k] != " " {
				return false
			}
		}
		for k, c := range splitCells(text) {
			if x+k < w {
				if accent {
					c = th.Accent.Render(c)
				} else {
					c = th.Dim.Render(c)
				}
				cells[x+k] = c
			}
		}
		return true
	}
	name := func(i int) string {
		if i == 0 {
			return "emb"
		}
		return thousands(i - 1)
	}
	put(p.layer+1, "["+name(p.layer+1)+"]", true)
	step := 1
	for n/step*5 > room {
		step *= 2
	}
	put(0, name(0), false)
	put(n-1, name(n-1), false)
	for i := 1; i < n-1; i += step {
		put(i, name(i), false)
	}
	return strings.Join(cells, "")
}

// layerAt is the layer that stands at column x of a chart of w cells.
func (p *Bias) layerAt(x, w int) int {
	const left = 8 // labels and axis of most charts
	n := p.known.report.Setup.Layers
	return int(math.Round(float64(x-left)/float64(max(w-left-1, 1))*float64(n))) - 1
}
