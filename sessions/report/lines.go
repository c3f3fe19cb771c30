package report

import (
	"html/template"
	"math"
	"slices"
	"strconv"
)

// lookPart is what one look at biases or one run of a hot tier says.
type lookPart struct {
	Title, Note string
	Says        []string
	Keys        []key
	Figures     []lookFigure
	Tables      []table
}

type lookFigure struct {
	Name    string
	Picture template.HTML
	Why     string // there is none
}

// series is one line of a chart.
type series struct {
	class string // of the line
	at    [][2]float64
}

// lineLook is the look of line i: told apart by dashes as well as by colours.
func lineLook(i int) string { return "kl" + strconv.Itoa(i%8) }

// lineChart draws some lines over common axes. zero marks 0; a line is broken where a
// figure is not finite. "" where there is nothing to draw.
func lineChart(n *ids, x, y span, xName, yName, title, desc string, zero bool, lines []series) template.HTML {
	for _, l := range lines {
		for _, p := range l.at {
			x.add(p[0])
			y.add(p[1])
		}
	}
	if x.n == 0 || y.n == 0 {
		return ""
	}
	c := newChart(n, x, y.padded(0.06), xName, yName, title, desc)
	if zero && c.y.lo <= 0 && c.y.hi >= 0 {
		c.line("mean", c.x.from, c.y.at(0), c.x.to, c.y.at(0))
	}
	for _, l := range lines {
		c.draw(l)
	}
	return c.end()
}

// draw draws a line, in pieces between what is not finite; a point alone is a dot.
func (c *chart) draw(l series) {
	var piece [][2]float64
	flush := func() {
		switch {
		case len(piece) == 1:
			c.path(l.class, mark(0, piece[0][0], piece[0][1], 1.2))
		case len(piece) > 1:
			c.path(l.class, polyline(piece))
		}
		piece = nil
	}
	for _, p := range l.at {
		if math.IsNaN(p[1]) || math.IsInf(p[1], 0) {
			flush()
			continue
		}
		piece = append(piece, [2]float64{c.x.at(p[0]), c.y.at(p[1])})
	}
	flush()
}

// lineKeys are the legend of lines by their names.
func lineKeys(names []string, gloss func(i int) string) []key {
	var out []key
	for i, name := range names {
		var s svg
		s.raw(`<svg class="sample" viewBox="0 0 34 10" aria-hidden="true">`)
		s.line(lineLook(i), 1, 5, 33, 5)
		out = append(out, key{name, gloss(i), s.end()})
	}
	return out
}

// finite is the cell of a figure, which need not be one.
func finite(x float64, write func(float64) string) td {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return numeric(none, math.NaN())
	}
	return numeric(write(x), x)
}

// least is the smallest and the largest finite figure in words; "" of none.
func least(lines []series, write func(float64) string) string {
	var all []float64
	for _, l := range lines {
		for _, p := range l.at {
			if !math.IsNaN(p[1]) && !math.IsInf(p[1], 0) {
				all = append(all, p[1])
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	return write(slices.Min(all)) + " to " + write(slices.Max(all))
}
