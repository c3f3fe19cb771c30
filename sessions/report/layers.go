package report

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"quantscope/analysis/landscape"
)

// inOrder are levels as layers are counted, L2 before L10 and those of the MTP
// part last; others keep their order behind them.
func inOrder(levels []landscape.Level) []landscape.Level {
	rank := func(name string) (part, n int) {
		n, err := strconv.Atoi(strings.TrimLeft(name, "LM"))
		switch {
		case err != nil:
			return 2, 0
		case strings.HasPrefix(name, "M"):
			return 1, n
		}
		return 0, n
	}
	out := slices.Clone(levels)
	slices.SortStableFunc(out, func(a, b landscape.Level) int {
		pa, na := rank(a.Name)
		pb, nb := rank(b.Name)
		return cmp.Or(cmp.Compare(pa, pb), cmp.Compare(na, nb))
	})
	return out
}

// layerChart is the mean error of each layer of a group, with its interval; layers
// that stand out are filled and named. "" and the reason where there is nothing
// to draw.
func layerChart(n *ids, g *landscape.Group, who string, variant int) (template.HTML, string) {
	layers := inOrder(g.Layers)
	var y span
	for _, l := range layers {
		if l.Mean.Defined() {
			y.add(l.Mean.V)
			if l.Mean.HasInterval() {
				y.add(l.Mean.Low)
				y.add(l.Mean.High)
			}
		}
	}
	if y.n == 0 {
		return "", "No layer has a mean."
	}
	count := len(layers)
	c := newChart(n, span{-0.6, float64(count) - 0.4, count}, y.padded(0.12), "", "mean rel2",
		fmt.Sprintf("Mean rel2 of each layer under %s: %s", who, g.Role),
		fmt.Sprintf("%d layers, means from %s to %s, with intervals at the level of %g %%. The figures are in the table of layers.", count, sig(y.lo, 4), sig(y.hi, 4), 100*landscape.Confidence))
	if g.MeanRel2.Defined() && g.MeanRel2.V >= c.y.lo && g.MeanRel2.V <= c.y.hi {
		at := c.y.at(g.MeanRel2.V)
		c.line("mean", c.x.from, at, c.x.to, at)
	}
	step := 1
	for (c.x.to-c.x.from)/float64(count)*float64(step) < 30 {
		step++
	}
	step = round(step)
	r := max(1.6, min(4, 90/float64(count)))
	var whiskers, even, odd strings.Builder
	for i, l := range layers {
		x := c.x.at(float64(i))
		if i%step == 0 {
			c.text("mid", x, c.y.from+17, l.Name)
		}
		if !l.Mean.Defined() {
			c.text("mid", x, c.y.from-4, none)
			continue
		}
		at := c.y.at(l.Mean.V)
		if l.Mean.HasInterval() {
			fmt.Fprintf(&whiskers, "M%s %sV%s", num(x), num(c.y.at(l.Mean.Low)), num(c.y.at(l.Mean.High)))
		}
		if l.Kind == landscape.LevelEven || l.Kind == "" {
			even.WriteString(mark(variant, x, at, r))
			continue
		}
		odd.WriteString(mark(variant, x, at, r+1.5))
		c.text("note mid", x, max(at-r-8, chartTop-4), l.Name)
	}
	class := " v" + strconv.Itoa(variant%8)
	c.path("whisker"+class, whiskers.String())
	c.path("dot"+class, even.String())
	c.path("dot odd"+class, odd.String())
	return c.end(), ""
}
