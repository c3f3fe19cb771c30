package views

import (
	"fmt"
	"slices"
	"strings"

	"quantscope/analysis/landscape"
)

// layout is where everything stands now.
func (p *Landscape) layout() landLayout {
	return arrangeLandscape(p.w, p.h, p.sizes(), p.part)
}

// sizes is how many lines the parts can use, with their titles.
func (p *Landscape) sizes() landSizes {
	n := landSizes{head: len(p.head()), figures: len(landFigureRows) + 7, budget: 15 + len(p.scene.State.Variants)}
	notes := 1 // there is room for one whether there is any, so that nothing jumps while the slider moves
	if p.answer != nil {
		notes = max(notes, len(p.answer.Assignment.Notes))
	}
	n.budget += 2 * notes
	g := p.group()
	if g == nil {
		n.layers, n.projections, n.experts, n.tail, n.neighbours, n.selectors, n.clamps = 3, 3, 3, 3, 3, 3, 3
		return n
	}
	n.layers, n.projections, n.experts = len(g.Layers)+2, len(g.Projections)+2, len(g.Experts)+2
	n.tail = len(g.Tail.Items) + 2
	undefined := 0
	for i := range g.Selectors {
		if !g.Selectors[i].Overlap.Defined() && !g.Selectors[i].Rho.Defined() {
			undefined++
		}
	}
	n.neighbours, n.selectors, n.clamps = len(g.Neighbours.Pairs)+2, len(g.Selectors)+2+undefined, len(g.Clamps.Places)+3
	return n
}

// headLines is how many lines the verdict takes at most.
func (p *Landscape) headLines() int {
	switch {
	case p.h < 8:
		return 1
	case p.h < 16:
		return 2
	case p.h < landTall:
		return 3
	}
	return 5
}

// head is the verdict in lines, and what was found that it does not name.
func (p *Landscape) head() []string {
	th, w := p.scene.Theme, p.w
	if w <= 0 || p.h <= 0 {
		return nil
	}
	text, effects := p.verdict()
	lines := wrappedTo(th.Title, text, w, p.headLines())
	effects = slices.DeleteFunc(slices.Clone(effects), func(e landscape.Effect) bool { return strings.Contains(text, Clean(e.Name)) })
	if len(effects) > 0 && p.h >= 16 {
		lines = append(lines, th.Warn.Render("▸ ")+th.Text.Render(effectLine(effects, w-2)))
	}
	return lines
}

// verdict is the sentence on top, in plain words where there is none, and the
// effects that it speaks of.
func (p *Landscape) verdict() (string, []landscape.Effect) {
	s := p.scene
	r := p.report()
	switch {
	case len(s.State.Variants) == 0 || s.Variant < 0 || s.Variant >= len(s.State.Variants):
		return "no variant is measured yet: there is no landscape", nil
	case len(s.State.Tensors) == 0:
		return "the session has no matrices: there is no landscape", nil
	case r == nil || r.report == nil && r.why == "":
		return "the landscape of " + Clean(s.State.Variants[s.Variant].Name) + " is being computed" + ellipsis, nil
	case r.report == nil:
		return "there is no landscape: " + Clean(r.why), nil
	}
	g := p.group()
	if g == nil {
		return "nothing is measured yet under " + Clean(s.State.Variants[s.Variant].Name), nil
	}
	text := Clean(g.Verdict.Sentence)
	if text == "" {
		text = "no verdict: too little is known of " + Clean(g.Role)
	}
	return text, g.Verdict.Effects
}

// effectLine names effects with their ratios and intervals in one line, as many
// as there is room for.
func effectLine(effects []landscape.Effect, w int) string {
	var b strings.Builder
	for i, e := range effects {
		text := Clean(e.Name)
		if e.Ratio.Defined() {
			text += " " + ratioText(e.Ratio.V)
			if e.Ratio.HasInterval() {
				text += " " + interval(e.Ratio, bareRatio)
			}
		}
		if i > 0 {
			text = " · " + text
		}
		more := ""
		if left := len(effects) - i - 1; left > 0 {
			more = fmt.Sprintf(" · %d more", left)
		}
		if Width(b.String())+Width(text)+Width(more) > w {
			rest := fmt.Sprintf(" · %d more", len(effects)-i)
			if i == 0 {
				return Truncate(text, w)
			}
			return Truncate(b.String()+rest, w)
		}
		b.WriteString(text)
	}
	return b.String()
}

// draw is the whole screen.
func (p *Landscape) draw() string {
	if p.w <= 0 || p.h <= 0 {
		return ""
	}
	clear(p.rows)
	layout := p.layout()
	blocks := []placed{{layout.head, Block(p.head(), layout.head.w, layout.head.h)}}
	for part, r := range layout.parts {
		if !r.empty() {
			blocks = append(blocks, placed{r, p.drawPart(landPart(part), r, &layout)})
		}
	}
	return compose(p.w, p.h, blocks)
}

func (p *Landscape) drawPart(part landPart, r rect, l *landLayout) string {
	switch part {
	case landPrices:
		return p.drawPrices(r.w, r.h)
	case landBudget:
		return p.drawBudget(r.w, r.h)
	}
	g := p.group()
	if g == nil {
		return Block([]string{p.partTitle(part, ""), p.scene.Theme.Dim.Render(Truncate(p.nothing(), r.w))}, r.w, r.h)
	}
	switch part {
	case landFigures:
		return p.drawFigures(g, r.w, r.h)
	case landSpread:
		return p.drawSpread(g, r.w, r.h)
	case landNeighbours:
		return p.drawNeighbours(g, r.w, r.h)
	case landSelectors:
		return p.drawSelectors(g, r.w, r.h)
	case landClamps:
		return p.drawClamps(g, r.w, r.h)
	}
	return p.drawList(part, g, p.listPart(*l) == part, r.w, r.h)
}

// nothing says why a part is empty.
func (p *Landscape) nothing() string {
	if p.busy {
		return "being computed" + ellipsis
	}
	return "nothing is measured yet"
}

// partTitle is the line above a part.
func (p *Landscape) partTitle(part landPart, more string) string {
	th := p.scene.Theme
	title := th.Title.Render(landPartNames[part])
	if more != "" {
		title += th.Dim.Render("  " + more)
	}
	return title
}
