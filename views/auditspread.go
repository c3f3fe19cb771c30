package views

import (
	"math"
	"strconv"
)

// spread is the distribution of the ratios that differ, over a logarithmic axis
// with 1 in the middle.
func (p *Audit) spread(w, h int) string {
	th, logs := p.scene.Theme, p.rows.logs
	title := th.Title.Render("spread")
	note := "  " + fitting(w-Width(title)-2, plural(len(logs), "ratio")+" that differ, over the whole checkpoint, logarithmic", plural(len(logs), "ratio")+" that differ", "")
	limit := 0.0
	for _, l := range logs {
		limit = max(limit, math.Abs(l))
	}
	bins := max(min((w-8)/2, spreadBins, 2*int(math.Ceil(math.Sqrt(float64(len(logs)))))), 8) / 2 * 2
	if !(limit > 0) || w < 9+2*bins || h < 6 {
		return Block([]string{title + th.Dim.Render(note)}, w, h)
	}
	limit *= 1.02 // so that the furthest stand inside
	counts := make([]float64, bins)
	for _, l := range logs {
		counts[min(max(int((l+limit)/(2*limit)*float64(bins)), 0), bins-1)]++
	}
	digits := max(2, int(math.Ceil(-math.Log10(limit)))+1)
	edges := make([]string, bins+1)
	for i := range edges {
		edges[i] = strconv.FormatFloat(math.Exp2(limit*(2*float64(i)/float64(bins)-1)), 'f', digits, 64)
		if i == bins/2 {
			edges[i] = "1"
		}
	}
	hist := Histogram{Bins: []Series{{Values: counts}}, Lo: -limit, Hi: limit, Edges: edges, Counts: true, Split: bins / 2}
	chart := markedHistogram(th, hist, chartLook{marks: []chartMark{{0, ""}}}, w, h-1)
	return Fit(title+th.Dim.Render(note), w) + "\n" + chart
}
