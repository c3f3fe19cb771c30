package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"quantscope/analysis/landscape"
)

// chart is the frame that charts share.
type chart struct {
	svg
	x, y axis
}

const (
	chartHeight = 200.0
	chartLeft   = 56.0
	chartRight  = 10.0
	chartTop    = 26.0
	chartBottom = 36.0
)

// newChart opens a picture with axes over two spans and names them.
func newChart(n *ids, x, y span, xName, yName, title, desc string) *chart {
	c := &chart{x: axis{x, chartLeft, pictureWidth - chartRight}, y: axis{y, chartHeight - chartBottom, chartTop}}
	c.start(n, pictureWidth, chartHeight, title, desc)
	for _, t := range y.ticks(3) {
		c.svg.line("gridline", c.x.from, c.y.at(t.v), c.x.to, c.y.at(t.v))
		c.text("end", c.x.from-6, c.y.at(t.v)+4, t.label)
	}
	if xName != "" {
		for _, t := range x.ticks(3) {
			c.svg.line("axis", c.x.at(t.v), c.y.from, c.x.at(t.v), c.y.from+4)
			c.text("mid", c.x.at(t.v), c.y.from+17, t.label)
		}
		c.text("name end", c.x.to, chartHeight-3, xName)
	}
	c.svg.line("axis", c.x.from, c.y.from, c.x.to, c.y.from)
	c.text("name", 2, 11, yName)
	return c
}

// values are the finite figures of the measured tensors of an arm.
func values(arm *landscape.Arm, of func(*landscape.Sample) float64) []float64 {
	var out []float64
	for i := range arm.Samples {
		if s := &arm.Samples[i]; s.State == landscape.Measured {
			if v := of(s); !math.IsNaN(v) && !math.IsInf(v, 0) {
				out = append(out, v)
			}
		}
	}
	return out
}

// histogram is how rel2 is spread over the tensors of an arm, with ticks under
// it for the worst. "" and the reason where there is nothing to draw.
func histogram(n *ids, arm *landscape.Arm, variant int) (template.HTML, string) {
	v := values(arm, func(s *landscape.Sample) float64 { return s.Rel2 })
	if len(v) == 0 {
		return "", "Nothing is measured with a finite error."
	}
	slices.Sort(v)
	lo, hi := v[0], v[len(v)-1]
	if lo == hi {
		return "", fmt.Sprintf("All %s have the same rel2, %s.", counted(len(v), "tensor", "tensors"), sig(lo, 4))
	}
	bins := make([]int, max(12, min(48, int(math.Sqrt(float64(len(v)))*1.6))))
	sum := 0.0
	for _, x := range v {
		bins[min(int((x-lo)/(hi-lo)*float64(len(bins))), len(bins)-1)]++
		sum += x
	}
	mean := sum / float64(len(v))
	c := newChart(n, span{lo, hi, len(v)}.padded(0.04), span{0, float64(slices.Max(bins)) * 1.12, len(v)}, "rel2", "tensors",
		"How rel2 is spread under "+arm.Name,
		fmt.Sprintf("Histogram of %d tensors: from %s to %s, mean %s.", len(v), sig(lo, 4), sig(hi, 4), sig(mean, 4)))
	var b strings.Builder
	width := (hi - lo) / float64(len(bins))
	for i, k := range bins {
		if k == 0 {
			continue
		}
		x0, x1, y := c.x.at(lo+float64(i)*width), c.x.at(lo+float64(i+1)*width), c.y.at(float64(k))
		fmt.Fprintf(&b, "M%s %sV%sH%sV%sz", num(x0+0.3), num(c.y.from), num(y), num(x1-0.3), num(c.y.from))
	}
	c.path("bar v"+strconv.Itoa(variant%8), b.String())
	at := c.x.at(mean)
	c.line("mean", at, c.y.from, at, chartTop-6)
	anchor, dx := "note", 4.0
	if at > pictureWidth-90 {
		anchor, dx = "note end", -4
	}
	c.text(anchor, at+dx, chartTop-1, "mean "+sig(mean, 4))
	worst := max(1, len(v)/100)
	b.Reset()
	for _, x := range v[len(v)-min(worst, 200):] {
		fmt.Fprintf(&b, "M%s %sv5", num(c.x.at(x)), num(c.y.from))
	}
	c.path("rug", b.String())
	return c.end(), ""
}
