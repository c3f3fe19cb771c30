package views

import (
	"fmt"
	"math"
	"slices"

	"quantscope/kernels"
	"quantscope/sessions"
)

// tensorChart is one histogram of a tap record, of all variants that have one.
type tensorChart struct {
	title  string
	labels []string // of the bins
	edges  []string // of the bins' borders, instead
	split  int      // bin before which a mark stands; 0 is none
	marks  []chartMark
	series []Series // per cent of what the title counts
	others int      // variants left out, since their formats have another axis
	note   string   // instead of a chart
}

// tapOf is a variant's tap record and the variant.
type tapOf struct {
	tap     *kernels.Tap
	variant *sessions.Variant
}

// errorChart is |w−q| in scales of the block. FP8 counts by the widest distance
// of its codes, which is 32 scales.
func errorChart(taps []tapOf) tensorChart {
	c := tensorChart{labels: make([]string, kernels.ErrorBins)}
	c.labels[0], c.labels[4], c.labels[8], c.labels[12], c.labels[16] = "0", "1/4", "1/2", "3/4", "≥1"
	units := map[float64]bool{}
	for _, t := range taps {
		units[formatOf(t.variant).ErrorScales()] = true
		c.series = append(c.series, Series{Clean(t.variant.Name), t.variant.ID, percents(t.tap.Errors[:], t.tap.Elements)})
	}
	wide := kernels.Format{Element: "e4m3"}.ErrorScales()
	switch {
	case !units[wide]:
		c.title = "|error| in scales, % of elements"
	case len(units) == 1:
		c.title = fmt.Sprintf("|error| in %.0f scales, the widest step, %% of elements", wide)
	default:
		c.title = fmt.Sprintf("|error| in scales (fp8: in %.0f), %% of elements", wide)
	}
	return c
}

// clipChart is the clip depths, as on the clipping screen.
func clipChart(taps []tapOf) tensorChart {
	c := tensorChart{title: "clip depth, % of blocks", marks: shallowMark}
	apart := false
	for _, t := range taps {
		depth := splitDepths(&t.tap.Depth, t.tap.Shallow, t.tap.Deep)
		c.series = append(c.series, Series{Clean(t.variant.Name), t.variant.ID, percents(depth[:], t.tap.Blocks)})
		apart = apart || t.tap.SubnormalClipped > 0
	}
	if apart {
		c.title += ", subnormal scales left out"
	}
	c.series, c.edges = usedDepths(c.series)
	c.split = deepFrom
	return c
}

// render draws the chart in exactly h lines of exactly w cells.
func (c *tensorChart) render(th *Theme, current int, log bool, w, h int) string {
	title := c.title
	if log {
		title += ", log"
	}
	title = Truncate(title, w)
	head := th.Title.Render(title)
	if c.others > 0 {
		head += th.Dim.Render(fitting(w-Width(title), fmt.Sprintf("  %d of other formats not shown", c.others), "  "+notShown(c.others), ""))
	}
	if c.note != "" || len(c.series) == 0 {
		return Block([]string{head, th.Dim.Render(Truncate(c.note, w))}, w, h)
	}
	hist := Histogram{Bins: c.series, Labels: c.labels, Edges: c.edges, Split: c.split, Log: log}
	return Fit(head, w) + "\n" + markedHistogram(th, hist, chartLook{current: current, marks: c.marks}, w, h-1)
}

// rowChart is the error of each row under each variant, with the worst row of
// the current one in its caption.
func rowChart(th *Theme, d *Detail, variants []sessions.Variant, current, w, h int) string {
	title := th.Title.Render("rel_l2 of each row")
	var series []Series
	n, finite := 0, false
	for v, rows := range d.Rows {
		if v >= len(variants) || len(rows) == 0 {
			continue
		}
		n = max(n, len(rows))
		finite = finite || slices.ContainsFunc(rows, isNumber)
		series = append(series, Series{Clean(variants[v].Name), v, rows})
	}
	switch {
	case len(series) == 0 && d.RowErr != "":
		lines := []string{title, th.Dim.Render(Truncate("rows are read from the checkpoint", w))}
		return Block(append(lines, wrapped(th.Warn, Clean(d.RowErr), w)...), w, h)
	case len(series) == 0:
		return Block([]string{title, th.Dim.Render(Truncate("not read from the checkpoint yet", w))}, w, h)
	case !finite:
		return Block([]string{title, th.Dim.Render(Truncate("no row has a finite error", w))}, w, h)
	}
	caption := "row 0 … " + thousands(n-1)
	if current >= 0 && current < len(d.Rows) && current < len(variants) {
		if row, v := worstRow(d.Rows[current]); row >= 0 {
			caption += fmt.Sprintf("; worst of %s: row %s, %.4f", Clean(variants[current].Name), thousands(row), v)
		}
	}
	return Fit(title, w) + "\n" + LineChart(th, series, w, h-1, caption)
}

// worstRow is the row with the largest error of one variant.
func worstRow(rows []float64) (row int, value float64) {
	row, value = -1, math.NaN()
	for i, v := range rows {
		if isNumber(v) && (row < 0 || v > value) {
			row, value = i, v
		}
	}
	return row, value
}
