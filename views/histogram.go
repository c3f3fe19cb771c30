package views

import (
	"math"
	"strings"
)

// Series is the values of one variant. Values that are not finite are gaps.
type Series struct {
	Name    string
	Variant int // picks the colour and the mark
	Values  []float64
}

// Histogram draws bins as bars over an axis, several variants beside each other
// in each bin, or as marks over each other where the bins are too narrow.
type Histogram struct {
	Bins           []Series // values are counts or shares; all of the same length
	Lo, Hi         float64  // what the first bin starts and the last one ends at
	Labels         []string // of the bins, instead of Lo and Hi
	Edges          []string // of the bins' borders, one more than bins, instead of Lo and Hi
	Split          int      // a column stays free before this bin, for a mark; 0 is none
	XLabel, YLabel string
	Counts         bool // values are counts: the vertical axis has integers only
	Front          int  // 1 + the variant that is drawn as bars where there is no room for bars of all; 0 is none
	Log            bool // bar heights are logarithmic, from a decade below the smallest
	LogX           bool // Lo and Hi are powers of ten, and so are the bins' borders
}

// Render draws exactly hgt lines of exactly w cells.
func (h Histogram) Render(t *Theme, w, hgt int) string {
	bins := 0
	for _, s := range h.Bins {
		bins = max(bins, len(s.Values))
	}
	if w <= 0 || hgt <= 0 || bins == 0 {
		return Block(nil, w, hgt)
	}
	var head []string
	if legend := h.legend(t, w); legend != "" && hgt >= 5 {
		head = append(head, legend)
	}
	rows := hgt - len(head)
	if rows < 4 || w < 12 { // no room for axes: the first variant's shape says most
		for _, s := range h.Bins {
			head = append(head, t.VariantStyle(s.Variant).Render(Sparkline(s.Values, w)))
		}
		return Block(head, w, hgt)
	}
	scale := h.heights()
	labels := scale.labels(rows - 2)
	left := 0
	for _, l := range labels {
		left = max(left, Width(l.label))
	}
	left++ // the axis itself
	c := newCanvas(w, rows)
	plotW, plotH := w-left-h.extra(), rows-2
	for _, l := range labels {
		y := plotH - 1 - l.at
		c.text(left-1-Width(l.label), y, l.label, t.ink.dim)
	}
	for y := range plotH {
		c.put(left-1, y, "│", t.ink.faint)
	}
	// A bin takes whole cells; more bins than cells are added up.
	size := 1
	if bins > plotW {
		size = (bins + plotW - 1) / plotW
		bins = (bins + size - 1) / size
	}
	each := plotW / bins
	for i, s := range h.Bins {
		values := rebin(s.Values, (len(s.Values)+size-1)/size)
		h.drawSeries(t, c, values, i, each, left, plotH, scale)
	}
	c.axisX(t, left, plotH, each*bins+h.extra(), h.ticks(bins, each, size))
	return Block(append(head, c.lines(t)...), w, hgt)
}

// extra is the column that a split takes.
func (h Histogram) extra() int {
	if h.Split > 0 {
		return 1
	}
	return 0
}

// column is where bin k begins, counted from the first one.
func (h Histogram) column(k, each int) int {
	if h.Split > 0 && k >= h.Split {
		return k*each + 1
	}
	return k * each
}

// drawSeries draws one variant's bars, or marks where a bin is narrower than
// the number of variants.
func (h Histogram) drawSeries(t *Theme, c *canvas, values []float64, i, each, left, plotH int, scale heightScale) {
	wide := h.barWidth(each)
	ink, mark := t.variantInk(h.Bins[i].Variant), t.VariantMark(h.Bins[i].Variant)
	for k, v := range values {
		eighths := int(math.Round(scale.of(v) * float64(plotH*8)))
		if v > 0 && eighths == 0 {
			eighths = 1 // something is there
		}
		if wide == 0 && h.Front == h.Bins[i].Variant+1 { // bars behind the marks of the others
			h.drawBar(c, left+h.column(k, each), max(each-1, 1), plotH, eighths, mark, ink)
			continue
		}
		if wide == 0 { // over each other
			if v > 0 {
				y := min(eighths/8, plotH-1)
				c.put(left+h.column(k, each)+each/2, plotH-1-y, mark, ink+h.ground(t, k, y, plotH, scale))
			}
			continue
		}
		h.drawBar(c, left+h.column(k, each)+i*wide, wide, plotH, eighths, mark, ink)
	}
}

// ground is what is added to the ink of a mark at row y from the foot of bin k
// where it stands on the front variant's bar: the bar's colour as background.
func (h Histogram) ground(t *Theme, k, y, plotH int, scale heightScale) string {
	for _, s := range h.Bins {
		if s.Variant != h.Front-1 || k >= len(s.Values) || int(math.Round(scale.of(s.Values[k])*float64(plotH*8)))/8 <= y {
			continue
		}
		if colour, ok := strings.CutPrefix(strings.TrimPrefix(t.variantInk(s.Variant), "2;"), "38;"); ok {
			return ";48;" + colour
		}
	}
	return ""
}

// barWidth is the width of one variant's bar in a bin of each cells; 0 where
// there is no room for bars of all.
func (h Histogram) barWidth(each int) int {
	n := max(len(h.Bins), 1)
	if each >= n+1 {
		each-- // a gap between bins
	}
	return each / n
}

// cramped says that variants are drawn as marks over each other.
func (h Histogram) cramped(each int) bool { return h.barWidth(each) == 0 }

// drawBar draws one bar of some eighths of a cell. Without colours the variant's
// mark stands on it.
func (h Histogram) drawBar(c *canvas, first, wide, plotH, eighths int, mark, ink string) {
	for x := first; x < first+wide; x++ {
		for y := range eighths / 8 {
			c.put(x, plotH-1-y, "█", ink)
		}
		if rest := eighths % 8; rest > 0 {
			c.put(x, plotH-1-eighths/8, bars[rest-1], ink)
		}
		if len(h.Bins) > 1 && ink == "" && eighths > 0 && x == first {
			c.put(x, plotH-1-min((eighths+7)/8, plotH-1), mark, ink)
		}
	}
}

// legend names what is drawn: the label of the vertical axis, and the variants
// where there are several.
func (h Histogram) legend(t *Theme, w int) string {
	var parts []string
	if h.YLabel != "" {
		parts = append(parts, t.Dim.Render(h.YLabel))
	}
	if len(h.Bins) > 1 {
		room := w - 2*len(parts)
		for _, p := range parts {
			room -= Width(p)
		}
		parts = append(parts, t.seriesLegend(h.Bins, room))
	}
	if over := "over " + h.XLabel; h.XLabel != "" && Width(strings.Join(parts, "  "))+2+Width(over) <= w {
		parts = append(parts, t.Dim.Render(over))
	}
	return Truncate(strings.Join(parts, "  "), w)
}

// ticks are the labels under the bins: the bins' own, their borders', or round
// steps from Lo to Hi.
func (h Histogram) ticks(bins, each, size int) []tick {
	if h.Edges != nil {
		var out []tick
		for i := 0; i <= bins && i*size < len(h.Edges); i++ {
			at := h.column(i, each)
			if i == h.Split || i == bins {
				at-- // the border itself, and the last cell of the axis
			}
			out = append(out, tick{max(at, 0), h.Edges[i*size]})
		}
		return out
	}
	if h.Labels != nil {
		var out []tick
		for i := 0; i < bins && i*size < len(h.Labels); i++ {
			out = append(out, tick{i*each + each/2, h.Labels[i*size]})
		}
		return out
	}
	if h.LogX {
		return logTicks(h.Lo, h.Hi, bins*each)
	}
	return rangeTicks(h.Lo, h.Hi, bins*each)
}

// heightScale says how high a bar is, from 0 to 1.
type heightScale struct {
	lo, hi float64 // values at the foot and at the top; logarithms where log
	log    bool
	whole  bool // values are integers
}

func (h Histogram) heights() heightScale {
	top, low := 0.0, math.Inf(1)
	for _, s := range h.Bins {
		for _, v := range s.Values {
			if isNumber(v) && v > 0 {
				top, low = max(top, v), min(low, v)
			}
		}
	}
	if h.Log && top > 0 {
		return heightScale{math.Floor(math.Log10(low)) - 1, math.Log10(top), true, h.Counts}
	}
	return heightScale{0, top, false, h.Counts}
}

func (s heightScale) of(v float64) float64 {
	if !isNumber(v) || v <= 0 || s.hi <= s.lo {
		return 0
	}
	if s.log {
		v = math.Log10(v)
	}
	return min(max((v-s.lo)/(s.hi-s.lo), 0), 1)
}

// labels are round values up the axis of rows lines, decades where logarithmic;
// at counts lines from the foot.
func (s heightScale) labels(rows int) []tick {
	if s.hi <= s.lo || rows < 1 {
		return nil
	}
	if !s.log {
		return upTicks(s.lo, s.hi, rows, s.whole, false)
	}
	step := max(math.Round(niceStep((s.hi-s.lo)/max(float64(rows)/3, 1))), 1)
	var out []tick
	for v := math.Ceil(s.lo/step+1e-9) * step; v <= s.hi && len(out) < rows; v += step {
		at := min(max(int(math.Round((v-s.lo)/(s.hi-s.lo)*float64(rows)))-1, 0), rows-1)
		if len(out) == 0 || out[len(out)-1].at < at {
			out = append(out, tick{at, compact(math.Pow(10, v))})
		}
	}
	if out == nil { // no decade on the axis
		out = append(out, tick{rows - 1, compact(math.Pow(10, s.hi))})
	}
	return out
}
