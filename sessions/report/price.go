package report

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"

	"quantscope/analysis/landscape"
)

// priceCharts are the error against the size of every way of choosing, and how
// much better than a random choice of the same size each of them is.
func priceCharts(n *ids, p *landscape.Pricing) (curves, gain template.HTML, why string) {
	var x, y span
	for _, c := range p.Curves {
		for _, pt := range c.Points {
			x.add(pt.BitsPerWeight)
			y.add(pt.MeanRel2)
			y.add(pt.Low)
			y.add(pt.High)
		}
	}
	if x.n == 0 || x.lo == x.hi {
		return "", "", "There is nothing to draw: no list changes the size."
	}
	if y.hi <= 0 {
		return "", "", "Nothing is lost, so there is nothing to protect."
	}
	y.add(0)
	who := fmt.Sprintf("%s with %s for what is exempted", p.Base, p.Protect)
	ch := newChart(n, x.padded(0.02), span{y.lo, y.hi * 1.06, y.n}, "bits per weight", "mean rel2", "Price of exemption lists: "+who,
		fmt.Sprintf("%d curves of mean rel2 against bits per weight, from %s without exemptions. Verdicts follow below.", len(p.Curves), sig(y.hi, 4)))
	for _, c := range p.Curves {
		if c.Control {
			ch.band(c.Points, func(pt landscape.Point) (float64, float64) { return pt.Low, pt.High })
		}
	}
	for i, c := range p.Curves {
		ch.curve(i, p.Curves, c.Points, func(pt landscape.Point) float64 { return pt.MeanRel2 })
	}
	curves = ch.end()

	random := slices.IndexFunc(p.Curves, func(c landscape.Curve) bool { return c.Control && c.Name == "random" })
	if random < 0 || len(p.Curves[random].Points) == 0 || !(p.Curves[random].Points[0].MeanRel2 > 0) {
		return curves, "", ""
	}
	base := p.Curves[random].Points
	none := base[0].MeanRel2
	better := func(pt landscape.Point) float64 {
		return 100 * (meanAt(base, pt.Bytes) - pt.MeanRel2) / none
	}
	var d span
	d.add(0)
	for _, c := range p.Curves {
		for _, pt := range c.Points {
			d.add(better(pt))
		}
	}
	for _, pt := range base {
		d.add(100 * (pt.MeanRel2 - pt.Low) / none)
		d.add(100 * (pt.MeanRel2 - pt.High) / none)
	}
	ch = newChart(n, x.padded(0.02), d.padded(0.08), "bits per weight", "less error than at random, % of all",
		"Gain over random lists of the same size: "+who,
		fmt.Sprintf("For each way of choosing, how much less error than a random list at the same bytes, in percent of the error without exemptions: from %s to %s.", sig(d.lo, 2), sig(d.hi, 2)))
	ch.band(base, func(pt landscape.Point) (float64, float64) {
		return 100 * (pt.MeanRel2 - pt.High) / none, 100 * (pt.MeanRel2 - pt.Low) / none
	})
	for i, c := range p.Curves {
		if i == random {
			ch.line("k"+lineClass(i, p.Curves), ch.x.from, ch.y.at(0), ch.x.to, ch.y.at(0))
			continue
		}
		ch.curve(i, p.Curves, c.Points, better)
	}
	return curves, ch.end(), ""
}

// meanAt is the mean error of a curve at a size between two of its points.
func meanAt(points []landscape.Point, bytes int64) float64 {
	i, found := slices.BinarySearchFunc(points, bytes, func(p landscape.Point, b int64) int {
		switch {
		case p.Bytes < b:
			return -1
		case p.Bytes > b:
			return 1
		}
		return 0
	})
	switch {
	case found:
		return points[i].MeanRel2
	case i == 0:
		return points[0].MeanRel2
	case i == len(points):
		return points[len(points)-1].MeanRel2
	}
	a, b := points[i-1], points[i]
	return a.MeanRel2 + (b.MeanRel2-a.MeanRel2)*float64(bytes-a.Bytes)/float64(b.Bytes-a.Bytes)
}

// lineClass is the look of a curve: lists and controls have a family of looks
// each, told apart by dashes as well as by colours.
func lineClass(i int, curves []landscape.Curve) string {
	nth := 0
	for _, c := range curves[:i] {
		if c.Control == curves[i].Control {
			nth++
		}
	}
	if curves[i].Control {
		return "c" + strconv.Itoa(nth%3)
	}
	return "l" + strconv.Itoa(nth%4)
}

func (c *chart) curve(i int, curves []landscape.Curve, points []landscape.Point, y func(landscape.Point) float64) {
	var at [][2]float64
	for _, p := range points {
		at = append(at, [2]float64{c.x.at(p.BitsPerWeight), c.y.at(y(p))})
	}
	c.path("k"+lineClass(i, curves), polyline(at))
}

// band fills what the repeats of a control span.
func (c *chart) band(points []landscape.Point, of func(landscape.Point) (lo, hi float64)) {
	var at [][2]float64
	wide := false
	for _, p := range points {
		_, hi := of(p)
		at = append(at, [2]float64{c.x.at(p.BitsPerWeight), c.y.at(hi)})
	}
	for _, p := range slices.Backward(points) {
		lo, hi := of(p)
		wide = wide || lo < hi
		at = append(at, [2]float64{c.x.at(p.BitsPerWeight), c.y.at(lo)})
	}
	if wide {
		c.path("band", polyline(at)+"z")
	}
}

// key is one entry of the legend of price charts.
type key struct {
	Name  string
	Gloss string
	Line  template.HTML
}

// priceKeys are the legend of price charts.
func priceKeys(p *landscape.Pricing) []key {
	gloss := map[string]string{
		"rel2": "worst error first", "amax": "largest magnitude first", "layer": "whole layers, worst first", "projection": "whole projections, worst first",
		"random": "control: any tensors; the band holds 5 to 95 % of the repeats", "uniform": "control: spread evenly", "reversed": "control: least error first",
	}
	var out []key
	for i, c := range p.Curves {
		var s svg
		s.raw(`<svg class="sample" viewBox="0 0 34 10" aria-hidden="true">`)
		if c.Control && c.Name == "random" {
			s.rect("band", 0, 1, 34, 8)
		}
		s.line("k"+lineClass(i, p.Curves), 1, 5, 33, 5)
		out = append(out, key{c.Name, gloss[c.Name], s.end()})
	}
	return out
}
