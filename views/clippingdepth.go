package views

import (
	"math"

	"quantscope/kernels"
)

// depthChart draws clip depths of several variants, in per cent of all blocks,
// with the limit between shallow and deep as an upright line. The variant
// current is drawn bright, the others dim. It is exactly h lines of exactly w
// cells.
func depthChart(th *Theme, series []Series, current int, log bool, w, h int) string {
	hist := Histogram{Bins: series, Hi: 1, YLabel: "clip depth, % of blocks", Log: log}
	if log {
		hist.YLabel += ", log"
	}
	if w < 24 || h < 7 || len(series) == 0 {
		return hist.Render(th, w, h)
	}
	lines := []string{hist.legend(th, w)}
	rows := h - len(lines)
	scale := hist.heights()
	labels := scale.labels(rows - 2)
	left := 5 // as wide as most labels, so that the plot stays where it is
	for _, l := range labels {
		left = max(left, Width(l.label)+1)
	}
	c := newCanvas(w, rows)
	plotH := rows - 2
	each := max((w-left)/kernels.DepthBins, 1)
	for _, l := range labels {
		c.text(left-1-Width(l.label), plotH-1-l.at, l.label, th.ink.dim)
	}
	for y := range plotH {
		c.put(left-1, y, "│", th.ink.faint)
	}
	limit := left + int(math.Round(kernels.ShallowDepth*float64(kernels.DepthBins*each)))
	for y := range plotH {
		c.put(limit, y, "┊", th.ink.accent)
	}
	for i := range series {
		hist.drawSeries(dimmed(th, series[i].Variant, current), c, series[i].Values, i, each, left, plotH, scale)
	}
	c.text(limit+2, 0, "1/16: beyond is deep", th.ink.accent)
	c.axisX(th, left, plotH, each*kernels.DepthBins, rangeTicks(0, 1, each*kernels.DepthBins))
	return Block(append(lines, c.lines(th)...), w, h)
}

// depthWidth is how wide a chart of n variants must be to show bars, one cell a
// variant and bin, instead of marks.
func depthWidth(n int) int { return 6 + n*kernels.DepthBins }

// dimmed is a theme in which a variant other than the current one is drawn
// faintly, in its own colour.
func dimmed(th *Theme, variant, current int) *Theme {
	if variant == current || len(th.variantInks) == 0 || th.ink.dim == "" {
		return th
	}
	faint := *th
	faint.variantInks = make([]string, len(th.variantInks))
	for i, ink := range th.variantInks {
		faint.variantInks[i] = "2;" + ink
	}
	return &faint
}

// depthShares are the bins of a clip depth histogram in per cent of blocks.
func depthShares(depth []int64, blocks int64) []float64 {
	out := make([]float64, len(depth))
	if blocks > 0 {
		for i, n := range depth {
			out[i] = 100 * float64(n) / float64(blocks)
		}
	}
	return out
}
