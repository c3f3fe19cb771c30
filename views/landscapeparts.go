package views

import (
	"fmt"
	"math"
	"strings"

	"quantscope/analysis/landscape"
)

// drawNeighbours is how the ranks of experts in one layer go with those in the
// next.
func (p *Landscape) drawNeighbours(g *landscape.Group, w, h int) string {
	th, n := p.scene.Theme, &g.Neighbours
	if n.Why != "" || len(n.Pairs) == 0 {
		why := n.Why
		if why == "" {
			why = "no two layers follow one another"
		}
		return Block(append([]string{p.partTitle(landNeighbours, "")}, wrapped(th.Dim, "no correlation of ranks: "+Clean(why), w)...), w, h)
	}
	more := "experts' ranks, layer to layer"
	if n.Mean.Defined() {
		more += ": mean ρ " + fixed(3)(n.Mean.V) + " " + interval(n.Mean, fixed(2))
	}
	rows := make([][]string, len(n.Pairs))
	for i, r := range n.Pairs {
		rows[i] = []string{Clean(r.A) + " → " + Clean(r.B), thousands(r.N), valueText(r.Rho, fixed(3)), interval(r.Rho, fixed(2)), pText(r.P), p.rhoBar(r.Rho, 17)}
		if !r.Rho.Defined() {
			rows[i][3] = th.Dim.Render(Clean(r.Rho.Why))
		}
	}
	alignColumn(rows, 2)
	return Block([]string{p.partTitle(landNeighbours, more)}, w, 1) + "\n" + Table{
		Columns: []Column{{Title: ""}, {Title: "experts", Align: Right, Drop: 3}, {Title: "ρ", Align: Right}, {Title: "95 %", Drop: 2}, {Title: "p", Align: Right, Drop: 1}, {Title: "−1      0      +1", Width: 17, Drop: 4}},
		Rows:    rows, Cursor: -1, More: true,
	}.Render(th, w, h-1)
}

// rhoBar is a correlation on an axis from −1 to 1 of an odd number of cells.
func (p *Landscape) rhoBar(v landscape.Value, w int) string {
	th := p.scene.Theme
	c := newCanvas(w, 1)
	c.put(w/2, 0, "│", th.ink.faint)
	at := func(x float64) int {
		return min(max(int(math.Round((x+1)/2*float64(w-1))), 0), w-1)
	}
	if v.Defined() && isNumber(v.V) {
		if v.HasInterval() && isNumber(v.Low) && isNumber(v.High) {
			for x := at(v.Low); x <= at(v.High); x++ {
				c.put(x, 0, "─", th.ink.dim)
			}
		}
		c.put(at(v.V), 0, "●", th.ink.accent)
	}
	return c.lines(th)[0]
}

// pText is a p value.
func pText(v landscape.Value) string {
	if !v.Defined() {
		return "–"
	}
	return pValue(math.Log10(v.V))
}

// drawSelectors is how well cheap figures of the source find the worst list.
func (p *Landscape) drawSelectors(g *landscape.Group, w, h int) string {
	th := p.scene.Theme
	if len(g.Selectors) == 0 {
		return Block([]string{p.partTitle(landSelectors, ""), th.Dim.Render(Truncate("no figure of the source could choose", w))}, w, h)
	}
	rows := make([][]string, len(g.Selectors))
	var notes []string
	for i, s := range g.Selectors {
		hits := fmt.Sprintf("%s of %s", thousands(s.Hits), thousands(s.K))
		if !s.Overlap.Defined() {
			hits = "–"
		}
		rows[i] = []string{Clean(s.Name), hits, valueText(s.Overlap, percentText), valueText(s.Expected, percentText), pText(s.P), valueText(s.Rho, fixed(3)), interval(s.Rho, fixed(2))}
		if !s.Overlap.Defined() && !s.Rho.Defined() {
			notes = append(notes, th.Dim.Render(Truncate(Clean(s.Name)+": "+Clean(s.Overlap.Why), w)))
		}
	}
	table := max(min(len(rows)+1, h-1), 0)
	lines := []string{p.partTitle(landSelectors, "do cheap figures find the worst list?")}
	lines = append(lines, strings.Split(Table{
		Columns: []Column{
			{Title: ""}, {Title: "found"}, {Title: "overlap", Align: Right, Drop: 3}, {Title: "by chance", Align: Right, Drop: 2},
			{Title: "p", Align: Right, Drop: 1}, {Title: "ρ", Align: Right, Drop: 4}, {Title: "95 %", Drop: 5},
		},
		Rows: rows, Cursor: -1, More: true,
	}.Render(th, w, table), "\n")...)
	return Block(append(lines, notes...), w, h)
}

// drawClamps is where block scales were clamped.
func (p *Landscape) drawClamps(g *landscape.Group, w, h int) string {
	th, c := p.scene.Theme, &g.Clamps
	if c.High+c.Low == 0 {
		more := "none of " + thousands(c.Blocks)
		if c.Blocks == 0 {
			more = "the records have no block scales"
		}
		return Block([]string{p.partTitle(landClamps, more)}, w, h)
	}
	more := fmt.Sprintf("%s high, %s low of %s (%s %%)", thousands(c.High), thousands(c.Low), thousands(c.Blocks), percent(share(c.High+c.Low, c.Blocks)))
	rows := make([][]string, len(c.Places))
	for i, r := range c.Places {
		rows[i] = []string{Clean(r.Layer) + " " + Clean(r.Projection), thousands(r.Tensors), thousands(r.High), thousands(r.Low), percent(share(r.High+r.Low, r.Blocks))}
	}
	alignColumn(rows, 4)
	return Block([]string{p.partTitle(landClamps, more)}, w, 1) + "\n" + Table{
		Columns: []Column{{Title: ""}, {Title: "tensors", Align: Right, Drop: 1}, {Title: "high", Align: Right}, {Title: "low", Align: Right}, {Title: "of the blocks, %", Align: Right}},
		Rows:    rows, Cursor: -1, More: true,
	}.Render(th, w, h-1)
}
