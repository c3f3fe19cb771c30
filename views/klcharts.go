package views

import (
	"fmt"
	"math"

	"github.com/muesli/termenv"

	"quantscope/analysis/yardstick"
)

// charted are the candidates whose curves are drawn, the selected one last so
// that it lies on top. The ruler's floor is orders of magnitude away, and rows of
// attribution are many. Without colours more than three curves cannot be told
// apart: then it is the selected one, its baseline and the best.
func (p *KL) charted() []int {
	r := p.rows.report
	best := -1
	for c := range r.Results {
		if q := p.rows.party(c); !q.Floor && q.Of < 0 && isNumber(r.Results[c].All.KL) && (best < 0 || r.Results[c].All.KL < r.Results[best].All.KL) {
			best = c
		}
	}
	var out []int
	for c := range r.Results {
		if q := p.rows.party(c); c == p.at || q.Floor || q.Of >= 0 {
			continue
		}
		if p.scene.Theme.Profile != termenv.Ascii || c == best || c == p.rows.party(p.at).Baseline {
			out = append(out, c)
		}
	}
	return append(out, p.at)
}

// drawSpread is how many positions have which KL, a curve a candidate, over a
// logarithmic axis that ends where the last position is.
func (p *KL) drawSpread(w, h int) string {
	th, r := p.scene.Theme, p.rows.report
	title := th.Title.Render("distribution") + th.Dim.Render(fitting(w-12, "  % of positions by KL, a logarithmic axis", "  % of positions by KL", ""))
	shown := p.charted()
	lo, hi := len(yardstick.Histogram{}.Counts), -1
	for _, c := range shown {
		for i, n := range r.Results[c].Histogram.Counts {
			// What is below the axis, exact zeros among it, would leave most of it empty.
			if n > 0 && i > 0 {
				lo, hi = min(lo, i), max(hi, i)
			}
		}
	}
	if lo > hi {
		return Block([]string{title, th.Dim.Render(Truncate("no candidate differs from the reference anywhere", w))}, w, h)
	}
	lo, hi = max(lo-1, 0), min(hi+1, len(yardstick.Histogram{}.Counts)-1)
	var series []Series
	below := false
	for _, c := range shown {
		counts := &r.Results[c].Histogram.Counts
		var all int64
		for _, n := range counts {
			all += n
		}
		if all == 0 {
			continue
		}
		values := make([]float64, hi-lo+1)
		for i := range values {
			values[i] = 100 * float64(counts[lo+i]) / float64(all)
		}
		below = below || lo > 0 && counts[0] > 0
		series = append(series, Series{Variant: p.rows.inks[c], Values: values})
	}
	from := yardstick.HistogramFrom + yardstick.HistogramStep*(float64(lo)+0.5)
	to := yardstick.HistogramFrom + yardstick.HistogramStep*(float64(hi)+0.5)
	if below {
		title += th.Dim.Render(fitting(w-Width(title), "  zeros left out", ""))
	}
	return Block([]string{title}, w, 1) + "\n" + klChart(th, series, w, h-1, func(n int) []tick { return decadeTicks(from, to, n) })
}

// decadeTicks are powers of ten on an axis of n cells whose ends are logarithms,
// as many as stand apart.
func decadeTicks(lo, hi float64, n int) []tick {
	if !(hi > lo) || n < 2 {
		return nil
	}
	const label = 6 // with a blank
	step := math.Max(math.Ceil((hi-lo)*label/float64(n-1)), 1)
	var out []tick
	for v := math.Ceil(lo/step) * step; v <= hi; v += step {
		text := minus(fmt.Sprintf("1e%.0f", v))
		if v >= -1 && v <= 2 {
			text = fmt.Sprintf("%g", math.Pow(10, v))
		}
		out = append(out, tick{int(math.Round((v - lo) / (hi - lo) * float64(n-1))), text})
	}
	return out
}

// drawPlaces is the mean KL by the position in the chunk.
func (p *KL) drawPlaces(w, h int) string {
	th, r := p.scene.Theme, p.rows.report
	title := th.Title.Render("KL by position") + th.Dim.Render(fitting(w-14, "  mean over chunks, by place in the chunk", "  by place in the chunk", ""))
	var series []Series
	for _, c := range p.charted() {
		values := make([]float64, len(r.Results[c].ByPlace))
		for i := range values {
			values[i] = r.Results[c].ByPlace[i].KL
		}
		series = append(series, Series{Variant: p.rows.inks[c], Values: values})
	}
	longest := 0
	for i := range r.Setup.Corpora {
		for _, k := range r.Setup.Corpora[i].IDs {
			longest = max(longest, len(k)-1)
		}
	}
	return Block([]string{title}, w, 1) + "\n" + klChart(th, series, w, h-1, func(n int) []tick { return rangeTicks(0, float64(max(longest, 1)), n) })
}

// klChart draws curves over an axis in exactly h lines of exactly w cells; ticks
// gives the axis' labels for its width. The curves' strokes and colours are those
// of the table.
func klChart(th *Theme, series []Series, w, h int, ticks func(n int) []tick) string {
	plot, ok := plotLines(th, series, w, h, false, true)
	if !ok {
		text := "too little room for a chart"
		if data, _ := chartData(series); len(data) == 0 {
			text = "nothing that can be drawn yet"
		}
		return Block([]string{th.Dim.Render(Truncate(text, w))}, w, h)
	}
	lines := plot.lines
	for len(lines) < h-1 {
		lines = append(lines, "")
	}
	left := plot.label + 2
	var axis styledLine
	end := 0
	for _, k := range ticks(max(w-left, 2)) {
		text := k.label
		x := min(max(left+k.at-(Width(text)-1)/2, end), w-Width(text))
		if x < end {
			continue
		}
		for _, cell := range splitCells(text) {
			axis.put(x, cell)
			x++
		}
		end = x + 1
	}
	return Block(append(lines[:h-1], th.Dim.Render(axis.String())), w, h)
}

// klLine is a bar of a share in w cells beside a figure, as rows of tables have
// them.
func (p *KL) klLine(v, limit float64, w int) string {
	share := 0.0
	if limit > 0 && isNumber(v) {
		share = v / limit
	}
	return p.scene.Theme.VariantStyle(p.rows.inks[p.at]).Render(Bar(share, w))
}

// drawWhere is the KL of the selected candidate by the reference's confidence
// and by the class of the token that is to be predicted.
func (p *KL) drawWhere(w, h int) string {
	th, r := p.scene.Theme, p.rows.report
	res := &r.Results[p.at]
	limit := 0.0
	for _, list := range [][]yardstick.Summary{res.Buckets, res.Classes} {
		for i := range list {
			if isNumber(list[i].KL) {
				limit = max(limit, list[i].KL)
			}
		}
	}
	tb := Table{Cursor: -1, More: true, Dense: w < klRoomyW, Columns: []Column{
		{Title: p.of()}, {Title: "positions", Align: Right, Drop: 2}, {Title: "KL ± se"}, {Title: "", Flex: 1, Min: 4, Drop: 3}, {Title: "top-1", Align: Right, Drop: 1},
	}}
	head := func(text string) { tb.Rows = append(tb.Rows, []string{th.Dim.Render(text)}) }
	var means []string
	var at []int
	add := func(s *yardstick.Summary) {
		at = append(at, len(tb.Rows))
		mean := klMean(s.KL, s.KLErr)
		if s.Positions == 0 && s.NaN == 0 {
			mean = "–"
		}
		means = append(means, mean)
		tb.Rows = append(tb.Rows, []string{"  " + Clean(s.Name), thousands(s.Positions), "", "", klShare(s.Top1)})
	}
	if len(res.Buckets) > 0 {
		head("confidence")
		for i := range res.Buckets {
			add(&res.Buckets[i])
		}
	}
	if len(res.Classes) > 0 {
		head("next token")
		for i := range res.Classes {
			add(&res.Classes[i])
		}
	}
	for i, text := range AlignDecimal(means) {
		tb.Rows[at[i]][2] = text
	}
	const column = 3
	bar := tb.columnWidth(column, w)
	i := 0
	for _, list := range [][]yardstick.Summary{res.Buckets, res.Classes} {
		for j := range list {
			tb.Rows[at[i]][column] = p.klLine(list[j].KL, limit, max(bar, 0))
			i++
		}
	}
	return tb.Render(th, w, h)
}

// of names the selected candidate at the head of a part.
func (p *KL) of() string { return "of " + Clean(p.rows.party(p.at).Label) }

// klPercent is a share in per cent: 92 %, 99.2 %, <0.1 %. What is not all is not
// written as if it were.
func klPercent(v float64) string {
	switch {
	case !isNumber(v):
		return "–"
	case v > 0 && v < 0.001:
		return "<0.1 %"
	case v < 0.0995 && v > 0 || v > 0.99 && v < 1:
		return fmt.Sprintf("%.1f %%", math.Floor(1000*v)/10)
	}
	return fmt.Sprintf("%.0f %%", 100*v)
}
