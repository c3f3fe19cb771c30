package views

import (
	"fmt"
	"math"

	"quantscope/kernels"
)

// depthChart draws clip depths of several variants, in per cent of all blocks,
// with the limit between shallow and deep. It is exactly h lines of exactly w
// cells.
func depthChart(th *Theme, series []Series, current int, log bool, w, h int) string {
	series, edges := usedDepths(series)
	hist := Histogram{Bins: series, Edges: edges, Split: deepFrom, YLabel: "clip depth, % of blocks", Log: log}
	if log {
		hist.YLabel += ", log"
	}
	return markedHistogram(th, hist, chartLook{current: current, legend: true, marks: shallowMark}, w, h)
}

// depthParts are what clip depths are drawn in: the bins of a record, of which
// the one that holds the limit between shallow and deep is cut in two there.
type depthParts [kernels.DepthBins + 1]int64

// straddling is the bin that holds the limit, and deepFrom the first part that
// lies beyond it.
const (
	straddling = 1
	deepFrom   = straddling + 1
)

// bins are the parts as equally wide bins, for a sparkline.
func (p *depthParts) bins() []int64 {
	return append([]int64{p[0], p[straddling] + p[deepFrom]}, p[deepFrom+1:]...)
}

// splitDepths tells by a record's own counts which blocks of a bin are shallow
// and which deep; those with a subnormal scale are neither and left out. Without
// such blocks the parts follow from the counts. With them the bins do not say
// which are theirs: shallow ones are then taken from the shallow end on, and
// deep ones in proportion to what is left, so that a record without deep blocks
// has nothing beyond the limit, and the parts add up to the counts.
func splitDepths[N uint32 | int64](bins *[kernels.DepthBins]N, shallow, deep int64) (parts depthParts) {
	var left, before float64
	for i, n := range bins {
		of := max(int64(n), 0)
		if i <= straddling {
			take := max(min(of, shallow), 0)
			parts[i], shallow, of = take, shallow-take, of-take
		}
		if i >= straddling {
			parts[i+1] = of // shared out below
			left += float64(of)
		}
	}
	deep = max(deep, 0)
	given := int64(0)
	for i := deepFrom; i < len(parts); i++ {
		before += float64(parts[i])
		upTo := int64(0)
		if left > 0 {
			upTo = int64(math.Round(before / left * min(float64(deep), left)))
		}
		parts[i], given = upTo-given, upTo
	}
	return parts
}

// leastDepths is how many bins of clip depth are drawn at the least, so that the
// chart looks alike from one tensor to the next: up to 0.3.
const leastDepths = 6

// usedDepths leaves out the deep end where no variant has a block, in steps of a
// tenth, and names the borders of the parts that are left: tenths, and the
// limit. Parts are drawn equally wide.
func usedDepths(series []Series) (out []Series, edges []string) {
	bins := leastDepths
	for _, s := range series {
		for i, v := range s.Values {
			if v != 0 {
				bins = max(bins, i)
			}
		}
	}
	bins = min(bins+bins%2, kernels.DepthBins)
	out = make([]Series, len(series))
	for i, s := range series {
		s.Values = s.Values[:min(bins+1, len(s.Values))]
		out[i] = s
	}
	for i := range bins + 1 {
		switch {
		case i == straddling:
			edges = append(edges, fmt.Sprintf("%.2f", float64(i)/kernels.DepthBins), fmt.Sprintf("1/%d", int(1/kernels.ShallowDepth)))
		case i%2 == 0:
			edges = append(edges, fmt.Sprintf("%.2f", float64(i)/kernels.DepthBins))
		default:
			edges = append(edges, "")
		}
	}
	edges[0] = "0"
	return out, edges
}

// shallowMark is the limit between shallow and deep clipping: the border at
// which the histogram is split.
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
	at    float64 // on the horizontal axis; where the histogram is split, the mark stands there
	label string
}

// markedHistogram draws a histogram with upright lines in it, which need it to
// have Lo and Hi or to be split. It is exactly h lines of exactly w cells.
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
	if h < 7 || bins == 0 || w < left+bins+hist.extra() || hist.Labels == nil && hist.Edges == nil && !(hist.Hi > hist.Lo) {
		return hist.Render(th, w, h)
	}
	c := newCanvas(w, rows)
	plotH, each := rows-2, (w-left-hist.extra())/bins
	for _, l := range labels {
		c.text(left-1-Width(l.label), plotH-1-l.at, l.label, th.ink.dim)
	}
	for y := range plotH {
		c.put(left-1, y, "│", th.ink.faint)
	}
	for _, m := range look.marks {
		for y := range plotH {
			c.put(markColumn(hist, m, left, each, bins), y, "┊", th.ink.accent)
		}
	}
	hist.Front = look.current + 1
	marksOnly := hist.cramped(each)
	for _, front := range []bool{marksOnly, !marksOnly} { // bars stand before other bars, and behind marks
		for i, s := range hist.Bins {
			if (s.Variant == look.current) == front {
				hist.drawSeries(dimmed(th, s.Variant, look.current), c, s.Values, i, each, left, plotH, scale)
			}
		}
	}
	for i, m := range look.marks {
		x := markColumn(hist, m, left, each, bins) + 2
		if n := Width(m.label); x+n > w {
			x -= n + 3
		}
		c.text(x, i, m.label, th.ink.accent)
	}
	c.axisX(th, left, plotH, each*bins+hist.extra(), hist.ticks(bins, each, 1))
	return Block(append(head, c.lines(th)...), w, h)
}

// markColumn is the column of a mark in a plot of bins from left on.
func markColumn(h Histogram, m chartMark, left, each, bins int) int {
	if h.Split > 0 {
		return left + h.column(h.Split, each) - 1
	}
	n := each * bins
	return left + min(int((m.at-h.Lo)/(h.Hi-h.Lo)*float64(n)+0.5), n-1)
}

// depthWidth is how wide a chart of n variants must be to show bars, one cell a
// variant and bin, instead of marks.
func depthWidth(n int) int { return 7 + n*len(depthParts{}) }

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
