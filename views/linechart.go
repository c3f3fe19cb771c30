package views

import (
	"math"
	"strings"

	"github.com/guptarohit/asciigraph"
)

// LineChart draws series over each other, in exactly h lines of exactly w
// cells, with a legend and a caption. Series differ by colour and by the
// strokes of their lines. Values that are not finite are gaps.
func LineChart(t *Theme, series []Series, w, h int, caption string) string {
	plot, ok := plotLines(t, series, w, h, true, caption != "")
	if !ok {
		return Block([]string{t.Dim.Render(Truncate(caption, w))}, w, h)
	}
	lines := plot.lines
	if caption != "" {
		for len(lines) < h-1 {
			lines = append(lines, "")
		}
		lines = append(lines[:h-1], spaces(plot.label+2)+t.Dim.Render(Truncate(caption, w-plot.label-2)))
	}
	return Block(lines, w, h)
}

// linePlot is series drawn over each other: a legend of head lines, then rows+1
// lines of curves, from hi down to lo, behind labels and an axis of label+2 cells.
type linePlot struct {
	lines             []string
	head, rows, label int
	lo, hi            float64
}

// plotLines draws series in h lines of w cells, of which one is left free where
// there is a foot, under a legend where it is headed and has room for one; false
// where there is no room or nothing to draw.
func plotLines(t *Theme, series []Series, w, h int, headed, footed bool) (linePlot, bool) {
	return plotLinesIn(t, series, w, h, headed, footed, math.Inf(1), math.Inf(-1))
}

// plotLinesIn is plotLines over a vertical axis from lo to hi, whatever the values
// are; where lo is above hi they say it.
func plotLinesIn(t *Theme, series []Series, w, h int, headed, footed bool, lo, hi float64) (linePlot, bool) {
	data, shown := chartData(series)
	if w < 20 || h < 4 || len(data) == 0 {
		return linePlot{}, false
	}
	var head []string
	if headed && len(shown) > 1 && h >= 6 {
		tags := make([]string, len(shown))
		for i, s := range shown {
			tags[i] = t.VariantTag(s.Name, s.Variant) + t.Dim.Render(" "+strokes[s.Variant%len(strokes)].Horizontal)
		}
		head = append(head, strings.Join(tags, "  "))
	}
	foot := 0
	if footed {
		foot = 1
	}
	// Values are scaled to 0 … 1, so that no magnitude upsets the library.
	if lo > hi {
		lo, hi = bounds(data)
	}
	rows := max(h-len(head)-foot-1, 1)
	lo, hi, ticks := evenTicks(lo, hi, rows)
	for _, values := range data {
		for i, v := range values {
			values[i] = Scale{Lo: lo, Hi: hi}.Place(v)
		}
	}
	labels, label := make([]string, rows+1), 6
	for _, k := range ticks {
		labels[k.at], label = k.label, max(label, Width(k.label))
	}
	opts := []asciigraph.Option{
		asciigraph.Height(rows),
		asciigraph.Width(max(w-label-2, 2)),
		asciigraph.Offset(2),
		asciigraph.LowerBound(0), asciigraph.UpperBound(1),
		asciigraph.YAxisValueFormatter(func(f float64) string {
			return FitRight(labels[min(max(int(math.Round(f*float64(rows))), 0), rows)], label)
		}),
	}
	// The library knows 256 colours; ours are put in their places afterwards.
	var colors []asciigraph.AnsiColor
	var chars []asciigraph.CharSet
	var swap []string
	for i, s := range shown {
		color := asciigraph.AnsiColor(16 + i%200)
		colors = append(colors, color)
		chars = append(chars, strokes[s.Variant%len(strokes)])
		swap = append(swap, color.String(), t.open(t.variantInk(s.Variant)))
	}
	opts = append(opts, asciigraph.SeriesColors(colors...), asciigraph.SeriesChars(chars...))
	if t.ink.dim == "" {
		swap = append(swap, asciigraph.Default.String(), "")
	}
	plot := strings.NewReplacer(swap...).Replace(asciigraph.PlotMany(data, opts...))
	return linePlot{append(head, strings.Split(plot, "\n")...), len(head), rows, label, lo, hi}, true
}

// strokes are how the lines of variants differ without colour.
var strokes = []asciigraph.CharSet{
	asciigraph.DefaultCharSet,
	{Horizontal: "╌", VerticalLine: "╎"},
	{Horizontal: "━", VerticalLine: "┃", ArcDownRight: "┏", ArcDownLeft: "┓", ArcUpRight: "┗", ArcUpLeft: "┛"},
	{Horizontal: "═", VerticalLine: "║", ArcDownRight: "╔", ArcDownLeft: "╗", ArcUpRight: "╚", ArcUpLeft: "╝"},
	asciigraph.CreateCharSet("·"),
	asciigraph.CreateCharSet("+"),
	asciigraph.CreateCharSet("x"),
	asciigraph.CreateCharSet("o"),
}

// chartData copies the series that have anything to draw, with NaN for what is
// not finite.
func chartData(series []Series) (data [][]float64, shown []Series) {
	for _, s := range series {
		any := false
		values := make([]float64, len(s.Values))
		for i, v := range s.Values {
			values[i] = math.NaN()
			if isNumber(v) {
				values[i], any = v, true
			}
		}
		if any {
			data, shown = append(data, values), append(shown, s)
		}
	}
	return data, shown
}

// bounds spans the finite values. A flat line gets room on both sides.
func bounds(data [][]float64) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, values := range data {
		for _, v := range values {
			if isNumber(v) {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	if lo == hi {
		pad := max(math.Abs(lo)*0.05, 1e-12)
		lo, hi = lo-pad, hi+pad
	}
	return lo, hi
}
