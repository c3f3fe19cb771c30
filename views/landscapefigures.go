package views

import (
	"fmt"
	"math"
	"strings"

	"github.com/charmbracelet/lipgloss"

	"quantscope/analysis/landscape"
)

// noStyle leaves text as it is.
var noStyle = lipgloss.NewStyle()

// landFigure is one statistic of the table: its name and how it is read from a
// group.
type landFigure struct {
	name string
	of   func(g *landscape.Group) landscape.Value
	text func(v float64) string
}

// landFigureRows are the statistics in the order of the table.
var landFigureRows = []landFigure{
	{"lowest cosine", func(g *landscape.Group) landscape.Value { return g.CosMin }, fixed(5)},
	{"highest cosine", func(g *landscape.Group) landscape.Value { return g.CosMax }, fixed(5)},
	{"mean rel2", func(g *landscape.Group) landscape.Value { return g.MeanRel2 }, digits4},
	{"worst over mean", func(g *landscape.Group) landscape.Value { return g.WorstOverMean }, fixed(3)},
	{"in the worst 1 %", func(g *landscape.Group) landscape.Value { return g.WorstShare }, percentText},
	{"experts, ANOVA F", func(g *landscape.Group) landscape.Value { return orWhy(g.Anova.F, g.Anova.Why) }, fixed(3)},
	{"  p", func(g *landscape.Group) landscape.Value { return orWhy(g.Anova.Log10P, g.Anova.Why) }, pValue},
	{"  over chance", func(g *landscape.Group) landscape.Value { return orWhy(g.Anova.OverExpected, g.Anova.Why) }, fixed(2)},
	{"  effect ω²", func(g *landscape.Group) landscape.Value { return orWhy(g.Anova.Omega2, g.Anova.Why) }, fixed(4)},
	{"  p, adjusted", func(g *landscape.Group) landscape.Value { return log10Of(orWhy(g.Anova.AdjustedP, g.Anova.Why)) }, pValue},
	{"  p, Kruskal-Wallis", func(g *landscape.Group) landscape.Value { return log10Of(orWhy(g.Anova.KruskalP, g.Anova.Why)) }, pValue},
	{"next layer's ranks", func(g *landscape.Group) landscape.Value { return orWhy(g.Neighbours.Mean, g.Neighbours.Why) }, fixed(3)},
	{"in the tail", func(g *landscape.Group) landscape.Value { return orWhy(g.Tail.Share, g.Tail.Why) }, percentText},
}

// orWhy is v, or the reason why there is nothing at all.
func orWhy(v landscape.Value, why string) landscape.Value {
	if why != "" {
		return landscape.Undefined(why)
	}
	return v
}

// log10Of is the decimal logarithm of a p value, which pValue takes.
func log10Of(v landscape.Value) landscape.Value {
	if !v.Defined() {
		return v
	}
	return landscape.Exact(math.Log10(v.V))
}

func fixed(digits int) func(float64) string {
	return func(v float64) string {
		if !isNumber(v) {
			return landOdd(v)
		}
		if s := fmt.Sprintf("%.*f", digits, v); len(s) <= 10 {
			return minus(s)
		}
		return minus(fmt.Sprintf("%.3g", v))
	}
}

// landOdd writes what is not finite.
func landOdd(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "∞"
	case math.IsInf(v, -1):
		return "−∞"
	}
	return "–"
}

// digits4 writes four significant digits.
func digits4(v float64) string {
	if !isNumber(v) {
		return landOdd(v)
	}
	if a := math.Abs(v); a != 0 && a < 1e-4 || a >= 1e6 {
		return minus(fmt.Sprintf("%.3e", v))
	}
	a := math.Abs(v)
	places := 3
	if a > 0 {
		places = min(max(3-int(math.Floor(math.Log10(a))), 0), 8)
	}
	return minus(fmt.Sprintf("%.*f", places, v))
}

func percentText(v float64) string { return percent(v) + " %" }

// ratioText writes a factor: ×1.060.
func ratioText(v float64) string { return "×" + bareRatio(v) }

func bareRatio(v float64) string {
	if isNumber(v) && v >= 100 {
		return compact(v)
	}
	return fixed(3)(v)
}

// valueText writes a figure, a dash where there is none.
func valueText(v landscape.Value, text func(float64) string) string {
	if !v.Defined() {
		return "–"
	}
	return text(v.V)
}

// interval writes the interval of a figure: [1.051, 1.069]; "" where it has none.
func interval(v landscape.Value, text func(float64) string) string {
	if !v.HasInterval() {
		return ""
	}
	return "[" + text(v.Low) + ", " + text(v.High) + "]"
}

// drawFigures is the table of statistics over the shown variant with intervals,
// and the others beside it; under it the shares of the variance.
func (p *Landscape) drawFigures(g *landscape.Group, w, h int) string {
	th, s := p.scene.Theme, p.scene
	if measuredOf(g) == g.LeftOut {
		why := "nothing is measured yet"
		if g.LeftOut > 0 {
			why = "no record has finite figures"
		}
		return Block([]string{p.partTitle(landFigures, ""), th.Dim.Render(Truncate(why, w))}, w, h)
	}
	names := shortVariants(s.State.Variants)
	columns := []Column{{Title: ""}, {Title: shortenVariant(Clean(s.State.Variants[s.Variant].Name), 16), Align: Right}, {Title: "95 % interval"}}
	others := []*landscape.Group{}
	for v := range s.State.Variants {
		if v != s.Variant {
			if o := p.groupIn(v, g.Role); o != nil {
				columns = append(columns, Column{Title: shortenVariant(names[v], 12), Align: Right, Drop: 2 + v})
				others = append(others, o)
			}
		}
	}
	// Where room is short the shares give up their bar, then themselves.
	all := len(landFigureRows) + 2 // with title and header
	variance, gap := p.drawVariance(g, w, false), 1
	if h < all+gap+len(variance) {
		variance = p.drawVariance(g, w, true)
		gap = min(max(h-all-len(variance), 0), 1)
	}
	lines := min(h-1-gap-len(variance), all-1)
	if lines < 6 {
		variance, lines = nil, h-1
	}
	var rows [][]string
	for _, f := range landFigureRows {
		v := f.of(g)
		row := []string{th.Dim.Render(f.name), valueText(v, f.text), interval(v, f.text)}
		if !v.Defined() {
			row[2] = th.Dim.Render(Truncate(Clean(v.Why), max(w-34, 8)))
		}
		for _, o := range others {
			row = append(row, valueText(f.of(o), f.text))
		}
		rows = append(rows, row)
	}
	title := p.partTitle(landFigures, fmt.Sprintf("of %s", plural(measuredOf(g)-g.LeftOut, "matrix")))
	if n := measuredOf(g) - g.LeftOut; n != 1 {
		title = p.partTitle(landFigures, "of "+thousands(n)+" matrices, errors as rel2")
	}
	table := Table{Columns: columns, Rows: rows, Cursor: -1, More: true}
	p.figuresMost = max(len(rows)-table.room(max(lines, 1)), 0)
	table.Offset = min(p.figuresTop, p.figuresMost)
	out := append([]string{title}, strings.Split(table.Render(th, w, max(lines, 1)), "\n")...)
	if variance != nil {
		out = append(append(out, make([]string, gap)...), variance...)
	}
	return Block(out, w, h)
}

// scrollFigures goes through the figures where there is no room for all.
func (p *Landscape) scrollFigures(by int) bool {
	top := min(max(min(p.figuresTop, p.figuresMost)+by, 0), p.figuresMost)
	if top == p.figuresTop {
		return false
	}
	p.figuresTop = top
	p.version++
	return true
}

// varianceParts are what the variance of the error is shared out over, each with
// the glyph that stands for it.
var varianceParts = []struct {
	name, glyph string
	of          func(d *landscape.Decomposition) landscape.Value
	style       func(t *Theme) lipgloss.Style
}{
	{"layer", "█", func(d *landscape.Decomposition) landscape.Value { return d.Layer }, func(t *Theme) lipgloss.Style { return t.Accent }},
	{"expert", "▓", func(d *landscape.Decomposition) landscape.Value { return d.Expert }, func(t *Theme) lipgloss.Style { return t.Good }},
	{"projection", "▒", func(d *landscape.Decomposition) landscape.Value { return d.Projection }, func(t *Theme) lipgloss.Style { return t.Warn }},
	{"either", "╱", func(d *landscape.Decomposition) landscape.Value { return d.Confounded }, func(t *Theme) lipgloss.Style { return t.Dim }},
	{"remainder", "░", func(d *landscape.Decomposition) landscape.Value { return d.Remainder }, func(t *Theme) lipgloss.Style { return t.Faint }},
}

// varianceShares is how the variance is shared out over varianceParts, each with
// its words, "" where there is nothing to say of it; the reason where there are no
// shares.
func varianceShares(d *landscape.Decomposition) (shares []float64, words []string, why string) {
	total := 0.0
	for _, part := range varianceParts {
		v := part.of(d)
		share, text := 0.0, ""
		switch {
		case v.Defined() && isNumber(v.V):
			share = max(v.V, 0)
			if part.name == "either" && share < 0.0005 {
				share = 0 // a balanced design has none of it
				break
			}
			text = part.name + " " + roughPercent(v.V)
		case part.name != "either":
			text = part.name + " –"
			if why == "" {
				why = Clean(v.Why)
			}
		}
		shares, words = append(shares, share), append(words, text)
		total += share
	}
	if total > 0 {
		return shares, words, ""
	}
	return nil, nil, "no part: " + why
}

// drawVariance is the shares of the variance as a bar with its labels, or where
// it has to be brief in words.
func (p *Landscape) drawVariance(g *landscape.Group, w int, brief bool) []string {
	th := p.scene.Theme
	shares, words, why := varianceShares(&g.Decomposition)
	head := th.Dim.Render("the variance of rel2 lies in")
	if shares == nil {
		return []string{head, th.Dim.Render(Truncate(why, w))}
	}
	var labels []string
	for i, text := range words {
		switch part := &varianceParts[i]; {
		case text == "":
		case brief:
			labels = append(labels, th.Text.Render(text))
		case part.of(&g.Decomposition).Defined():
			labels = append(labels, part.style(th).Render(part.glyph)+" "+th.Text.Render(text))
		default:
			labels = append(labels, th.Dim.Render(part.glyph+" "+text))
		}
	}
	if brief {
		return flow(append([]string{th.Dim.Render("variance:")}, labels...), w, 2)
	}
	var bar strings.Builder
	for i, n := range wholeShares(shares, w) {
		bar.WriteString(varianceParts[i].style(th).Render(strings.Repeat(varianceParts[i].glyph, n)))
	}
	return append([]string{head, bar.String()}, flow(labels, w, 2)...)
}

// wholeShares shares w cells out; what has any share has a cell while there is
// room.
func wholeShares(shares []float64, w int) []int {
	out := make([]int, len(shares))
	total, used, largest := 0.0, 0, 0
	for _, s := range shares {
		total += s
	}
	for i, s := range shares {
		out[i] = int(math.Round(s / total * float64(w)))
		if s > 0 {
			out[i] = max(out[i], 1)
		}
		used += out[i]
		if out[i] > out[largest] {
			largest = i
		}
	}
	out[largest] = max(out[largest]+w-used, 0)
	return out
}

// flow sets words side by side in lines of at most w cells, at most so many.
func flow(words []string, w, most int) []string {
	var out []string
	line := ""
	for _, word := range words {
		next := word
		if line != "" {
			next = line + "  " + word
		}
		if Width(next) > w && line != "" {
			out = append(out, line)
			next = word
		}
		line = next
	}
	out = append(out, line)
	return out[:min(len(out), most)]
}
