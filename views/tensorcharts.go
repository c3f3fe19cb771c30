package views

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

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
	note   string   // instead of a chart
}

// tapOf is a variant's tap record and the variant.
type tapOf struct {
	tap     *kernels.Tap
	variant *sessions.Variant
}

// scaleChart is the stored block scales by value. Bins are half octaves, which
// is four E4M3 codes; the chart spans those that are used, in whole octaves.
func scaleChart(taps []tapOf) tensorChart {
	lo, hi := kernels.ScaleBins, 0
	for _, t := range taps {
		for i, n := range t.tap.Scales {
			if n > 0 {
				lo, hi = min(lo, i), max(hi, i+1)
			}
		}
	}
	c := tensorChart{title: "block scales, % of blocks"}
	if lo >= hi {
		c.note = "no block has a scale"
		return c
	}
	lo, hi = lo&^1, (hi+1)&^1
	for i := lo; i < hi; i++ {
		c.labels = append(c.labels, scaleLabel(i))
	}
	for _, t := range taps {
		c.series = append(c.series, Series{Clean(t.variant.Name), t.variant.ID, percents(t.tap.Scales[lo:hi], t.tap.ScaleCount)})
	}
	return c
}

// scaleLabel is the value at which an even bin of block scales begins, "" for
// odd ones. Code 8·e of E4M3 is 2^(e−7) (kernels.ScaleBins: four codes a bin).
func scaleLabel(bin int) string {
	if bin%2 != 0 {
		return ""
	}
	switch k := bin/2 - 7; {
	case bin == 0:
		return "0"
	case k < 0:
		return "1/" + strconv.Itoa(1<<-k)
	default:
		return strconv.Itoa(1 << k)
	}
}

// errorChart is |w−q| in units of the block's step.
func errorChart(taps []tapOf) tensorChart {
	c := tensorChart{title: "|error| in steps, % of elements", labels: make([]string, kernels.ErrorBins)}
	c.labels[0], c.labels[4], c.labels[8], c.labels[12], c.labels[16] = "0", "1/4", "1/2", "3/4", "≥1"
	for _, t := range taps {
		c.series = append(c.series, Series{Clean(t.variant.Name), t.variant.ID, percents(t.tap.Errors[:], t.tap.Elements)})
	}
	return c
}

// fp4Values are the magnitudes of E2M1 codes 0 to 7; codes 8 to 15 are their
// negatives.
var fp4Values = [8]string{"0", ".5", "1", "1.5", "2", "3", "4", "6"}

// codeChart is the use of codes, by value where the variants' codes are E2M1,
// else by number.
func codeChart(taps []tapOf) tensorChart {
	c := tensorChart{title: "codes by value, % of elements"}
	byValue := true
	for _, t := range taps {
		byValue = byValue && strings.Contains(t.variant.Scheme, "fp4")
	}
	order := make([]int, 16)
	for i := range order {
		code := i
		if byValue {
			if code = i - 8; i < 8 {
				code = 15 - i
			}
		}
		order[i] = code
		switch {
		case !byValue:
			c.title = "codes, % of elements"
			c.labels = append(c.labels, strconv.Itoa(code))
		case code >= 8:
			c.labels = append(c.labels, "−"+fp4Values[code-8])
		default:
			c.labels = append(c.labels, fp4Values[code])
		}
	}
	for _, t := range taps {
		values := make([]float64, 16)
		for i, v := range percents(t.tap.Codes[:], t.tap.Elements) {
			values[slices.Index(order, i)] = v
		}
		c.series = append(c.series, Series{Clean(t.variant.Name), t.variant.ID, values})
	}
	return c
}

// multiplierChart is the multipliers that scale searches have chosen. Variants
// that search over different ones share an axis of all of them; one that has no
// choice does not search, and is left out.
func multiplierChart(taps []tapOf) tensorChart {
	c := tensorChart{title: "chosen multipliers, % of blocks"}
	taps = slices.DeleteFunc(slices.Clone(taps), func(t tapOf) bool { return len(t.variant.Multipliers) < 2 })
	for _, t := range taps {
		for _, l := range t.variant.Multipliers {
			if !slices.Contains(c.labels, l) {
				c.labels = append(c.labels, l)
			}
		}
	}
	slices.SortStableFunc(c.labels, func(a, b string) int {
		x, errX := strconv.ParseFloat(a, 64)
		y, errY := strconv.ParseFloat(b, 64)
		switch {
		case errX != nil || errY != nil || x == y:
			return 0
		case x < y:
			return -1
		}
		return 1
	})
	for _, t := range taps {
		var all int64
		for _, n := range t.tap.Multipliers {
			all += n
		}
		if all == 0 {
			continue
		}
		values := make([]float64, len(c.labels))
		for i, l := range t.variant.Multipliers[:min(len(t.variant.Multipliers), kernels.MultBins)] {
			values[slices.Index(c.labels, l)] = percents(t.tap.Multipliers[:], all)[i]
		}
		c.series = append(c.series, Series{Clean(t.variant.Name), t.variant.ID, values})
	}
	if len(c.series) == 0 {
		c.note = "no variant searches over multipliers"
	}
	for i, l := range c.labels {
		c.labels[i] = Clean(l)
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
	if c.note != "" || len(c.series) == 0 {
		return Block([]string{th.Title.Render(title), th.Dim.Render(Truncate(c.note, w))}, w, h)
	}
	hist := Histogram{Bins: c.series, Labels: c.labels, Edges: c.edges, Split: c.split, Log: log}
	return Fit(th.Title.Render(title), w) + "\n" + markedHistogram(th, hist, chartLook{current: current, marks: c.marks}, w, h-1)
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
