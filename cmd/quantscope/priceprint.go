package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/muesli/termenv"

	"quantscope/analysis/landscape"
	"quantscope/views"
)

// priceShares are the rows of the table: shares of what exempting everything
// adds.
var priceShares = []float64{0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1}

// printPrice prints curves, verdicts and answers as plain text.
func printPrice(w io.Writer, d *priceDocument) error {
	t := newReport(w)
	p := d.Pricing
	t.line("%s", views.Clean(d.Checkpoint))
	t.line("  %s", views.Clean(d.summary))
	t.line("  targets   %s", views.Clean(d.Targets))
	t.line("  session   %s (%s)", d.Session, d.State)
	t.line("  measured  %d of %d", d.Done, d.Total)
	t.line("  lists     what is exempted from %s is stored as %s; decided on by %s", p.Base, p.Protect, p.By)
	t.line("  tensors   %d, of which %d have no finite figures under both and are left out", p.Tensors+p.LeftOut, p.LeftOut)
	if p.NoAmax > 0 {
		t.line("  amax      %s without a largest magnitude, last in that list", counted(p.NoAmax, "tensor", "tensors"))
	}
	t.line("")
	t.line("mean rel2 at equal size, with controls (random: %d repeats, seed %d)", p.Repeats, p.Seed)
	printCurves(t, p)
	t.line("")
	for _, chart := range priceCharts(p) {
		for line := range strings.SplitSeq(strings.TrimRight(chart, "\n"), "\n") {
			t.line("%s", strings.TrimRight(line, " "))
		}
		t.line("")
	}
	for _, v := range p.Verdicts {
		t.line("%s", v)
	}
	t.line("")
	t.line("a budget can be %d to %d bytes, %.4f to %.4f bits per weight", d.Range.Least, d.Range.Most, d.Range.LeastBits, d.Range.MostBits)
	if d.Answer != nil {
		t.line("")
		t.line("the best within %d bytes", d.Answer.Budget)
		printAnswer(t, d.Answer)
	}
	if d.Recipe != nil {
		t.line("  recipe    %s: %s in %s", d.Recipe.Path, counted(d.Recipe.Patterns, "pattern", "patterns"), counted(d.Recipe.Groups, "group", "groups"))
	}
	if d.WithRecipe != nil {
		t.line("")
		printRecipe(t, d.WithRecipe)
	}
	return t.err
}

func printCurves(t *textReport, p *landscape.Pricing) {
	header := []string{">added", ">exempted", ">bits/weight"}
	for _, c := range p.Curves {
		header = append(header, ">"+c.Name)
		if c.Name == "random" {
			header = append(header, ">5 to 95 %")
		}
	}
	var rows [][]string
	for _, share := range priceShares {
		var row []string
		for i := range p.Curves {
			pt := p.Curves[i].At(share)
			if i == 0 {
				row = append(row, fmt.Sprintf("%.4g %%", 100*share), fmt.Sprint(pt.Exempted), fmt.Sprintf("%.4f", pt.BitsPerWeight))
			}
			row = append(row, fmt.Sprintf("%.6f", pt.MeanRel2))
			if p.Curves[i].Name == "random" {
				row = append(row, fmt.Sprintf("%.6f to %.6f", pt.Low, pt.High))
			}
		}
		rows = append(rows, row)
	}
	t.table(header, rows)
}

// chartColumns is how many sizes a chart shows, chartWidth and chartHeight the
// cells that it takes. Differences below leastApart percent are not drawn.
const (
	leastApart   = 0.01
	chartColumns = 60
	chartWidth   = 76
	chartHeight  = 14
)

// priceCharts draw what is lost against the size, and, since that is nearly a
// straight line, how much less a list loses than random ones.
func priceCharts(p *landscape.Pricing) []string {
	theme, err := views.NewTheme("", termenv.Ascii, true)
	if err != nil {
		return nil
	}
	first, last := p.Curves[0].At(0), p.Curves[0].At(1)
	sizes := fmt.Sprintf("%.4g to %.4g bits per weight", first.BitsPerWeight, last.BitsPerWeight)
	if first.Bytes == last.Bytes {
		sizes = fmt.Sprintf("0 to %d exempted of the same size", last.Exempted)
	}
	var random *landscape.Curve
	for i := range p.Curves {
		if p.Curves[i].Name == "random" {
			random = &p.Curves[i]
		}
	}
	line := func(name string, mark int, of func(share float64) float64) views.Series {
		s := views.Series{Name: name, Variant: mark}
		for x := range chartColumns + 1 {
			s.Values = append(s.Values, of(float64(x)/chartColumns))
		}
		return s
	}
	lost := []views.Series{line("rel2", 0, func(x float64) float64 { return p.Curves[0].At(x).MeanRel2 })}
	if random == nil || first.MeanRel2 == 0 {
		return []string{views.LineChart(theme, lost, chartWidth, chartHeight, "mean rel2; "+sizes)}
	}
	lost = append(lost, line("random", 1, func(x float64) float64 { return random.At(x).MeanRel2 }))
	less := func(x, mean float64) float64 { return 100 * (random.At(x).MeanRel2 - mean) / first.MeanRel2 }
	gained := []views.Series{
		line("random 5 %", 4, func(x float64) float64 { return less(x, random.At(x).Low) }),
		line("95 %", 4, func(x float64) float64 { return less(x, random.At(x).High) }),
	}
	for i := range p.Curves {
		if c := &p.Curves[i]; !c.Control {
			gained = append(gained, line(c.Name, i%4, func(x float64) float64 { return less(x, c.At(x).MeanRel2) }))
		}
	}
	charts := []string{views.LineChart(theme, lost, chartWidth, chartHeight, "mean rel2; "+sizes)}
	apart := 0.0
	for _, s := range gained {
		for _, v := range s.Values {
			apart = max(apart, math.Abs(v))
		}
	}
	if apart < leastApart {
		return append(charts, fmt.Sprintf("no list is more than %g %% of all error from random ones", leastApart))
	}
	return append(charts,
		views.LineChart(theme, gained, chartWidth, chartHeight, "less than random, % of all error; "+sizes))
}

func printAnswer(t *textReport, a *priceAnswer) {
	t.line("  size      %d bytes, %.4f bits per weight", a.Bytes, a.Bits)
	figure := "mean rel2"
	if a.Objective == landscape.WeightedError.String() {
		figure = "Σe²/Σw²"
	}
	if a.Exact {
		t.line("  error     %s %.6g: the least that this size allows, to within %.1g", figure, a.Value, a.Slack)
	} else {
		t.line("  error     %s %.6g; none of this size is below %.6g, so at most %.2g %% could be gained", figure, a.Value, a.Bound, 100*a.Gap)
	}
	if figure != "mean rel2" {
		t.line("            mean rel2 %.6g", a.Error)
	}
	t.line("  variants  %s", armsText(a.Arms))
	for _, c := range a.Controls {
		pt := c.Points[0]
		span := ""
		if pt.High > pt.Low {
			span = fmt.Sprintf(", %.6g to %.6g", pt.Low, pt.High)
		}
		t.line("  %-9s %.6g%s (%d bytes)", c.Name, pt.MeanRel2, span, pt.Bytes)
	}
	t.line("  %s", a.Sentence)
	for _, n := range a.Notes {
		t.line("  note      %s", n)
	}
}

func armsText(arms []armCount) string {
	var parts []string
	for _, a := range arms {
		parts = append(parts, fmt.Sprintf("%s %d", a.Arm, a.Tensors))
	}
	return strings.Join(parts, ", ")
}

func printRecipe(t *textReport, r *recipePriced) {
	name := ""
	if r.Name != "" {
		name = " (" + views.Clean(r.Name) + ")"
	}
	t.line("recipe %s%s", r.Path, name)
	t.line("  size      %d bytes, %.4f bits per weight", r.Bytes, r.Bits)
	t.line("  error     mean rel2 %.6g, Σe²/Σw² %.6g", r.MeanRel2, r.Weighted)
	t.line("  variants  %s", armsText(r.Arms))
	for i, g := range r.Groups {
		t.line("  group %-3d %s: %s", i+1, g.Variant, counted(g.Tensors, "tensor", "tensors"))
	}
	t.line("  others    %d untargeted, %d ignored, %d exempted", r.Untargeted, r.Ignored, r.Exempted)
	for _, n := range r.Notes {
		t.line("  note      %s", views.Clean(n))
	}
	if r.AtBytes != nil {
		t.line("the best within as many bytes")
		printAnswer(t, r.AtBytes)
	}
}
