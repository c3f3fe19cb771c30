package views

import "quantscope/kernels"

// depthChart draws clip depths of several variants, in per cent of all blocks,
// with the limit between shallow and deep. It is exactly h lines of exactly w
// cells.
func depthChart(th *Theme, series []Series, current int, log bool, w, h int) string {
	series, hi := usedDepths(series)
	hist := Histogram{Bins: series, Hi: hi, YLabel: "clip depth, % of blocks", Log: log}
	if log {
		hist.YLabel += ", log"
	}
	return markedHistogram(th, hist, chartLook{current: current, legend: true, marks: shallowMark}, w, h)
}

// leastDepths is how many bins of clip depth are drawn at the least, so that the
// chart looks alike from one tensor to the next: up to 0.3.
const leastDepths = 6

// usedDepths leaves out the deep end where no variant has a block, in steps of a
// tenth, and says what depth the last bin that is left reaches.
func usedDepths(series []Series) ([]Series, float64) {
	n := leastDepths
	for _, s := range series {
		for i, v := range s.Values {
			if v != 0 {
				n = max(n, i+1)
			}
		}
	}
	n = min(n+n%2, kernels.DepthBins)
	out := make([]Series, len(series))
	for i, s := range series {
		s.Values = s.Values[:min(n, len(s.Values))]
		out[i] = s
	}
	return out, float64(n) / kernels.DepthBins
}

// shallowMark is the limit between shallow and deep clipping.
var shallowMark = []chartMark{{kernels.ShallowDepth, "1/16: beyond is deep"}}

// chartLook is how a histogram is drawn: the variant current bright and before
// the others, which are dim.
type chartLook struct {
	current int
	legend  bool
	marks   []chartMark
}

// chartMark is an upright line in a chart, with its name.
type chartMark struct {
	at    float64 // on the horizontal axis
	label string
}

// markedHistogram draws a histogram with upright lines in it, which need it to
// have Lo and Hi. It is exactly h lines of exactly w cells.
func markedHistogram(th *Theme, hist Histogram, look chartLook, w, h int) string {
	bins := 0
	for _, s := range hist.Bins {
		bins = max(bins, len(s.Values))
	}
	var head []string
	if legend := hist.legend(th, w); legend != "" && look.legend {
		head = append(head, legend)
	}
	rows := h - len(head)
	scale := hist.heights()
	labels := scale.labels(rows - 2)
	left := 5 // as wide as most labels, so that the plot stays where it is
	for _, l := range labels {
		left = max(left, Width(l.label)+1)
	}
	if h < 7 || bins == 0 || w < left+bins || hist.Labels == nil && !(hist.Hi > hist.Lo) {
		return hist.Render(th, w, h)
	}
	c := newCanvas(w, rows)
	plotH, each := rows-2, (w-left)/bins
	for _, l := range labels {
		c.text(left-1-Width(l.label), plotH-1-l.at, l.label, th.ink.dim)
	}
	for y := range plotH {
		c.put(left-1, y, "│", th.ink.faint)
	}
	for _, m := range look.marks {
		for y := range plotH {
			c.put(markColumn(hist, m, left, each*bins), y, "┊", th.ink.accent)
		}
	}
	for _, front := range []bool{false, true} {
		for i, s := range hist.Bins {
			if (s.Variant == look.current) == front {
				hist.drawSeries(dimmed(th, s.Variant, look.current), c, s.Values, i, each, left, plotH, scale)
			}
		}
	}
	for i, m := range look.marks {
		x := markColumn(hist, m, left, each*bins) + 2
		if n := Width(m.label); x+n > w {
			x -= n + 3
		}
		c.text(x, i, m.label, th.ink.accent)
	}
	c.axisX(th, left, plotH, each*bins, hist.ticks(bins, each, 1))
	return Block(append(head, c.lines(th)...), w, h)
}

// markColumn is the column of a mark in a plot of n cells from left on.
func markColumn(h Histogram, m chartMark, left, n int) int {
	return left + min(int((m.at-h.Lo)/(h.Hi-h.Lo)*float64(n)+0.5), n-1)
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

// percents are counts in per cent of all; 0 where there is nothing at all.
func percents(counts []int64, all int64) []float64 {
	out := make([]float64, len(counts))
	if all > 0 {
		for i, n := range counts {
			out[i] = 100 * float64(n) / float64(all)
		}
	}
	return out
}
