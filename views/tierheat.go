package views

import (
	"math"
	"slices"

	"quantscope/analysis/tier"
)

// tierPicture is what a map of a tier shows: which experts are hot.
type tierPicture struct {
	setup  *tier.Setup
	now    *tierNow // nil where single experts are not known
	layers []int    // hot experts by layer of the shape, where they are not
	fresh  int32    // windows up to this one are no longer new
	top    float32  // the score of the brightest
}

// tierCell is what one cell of such a map stands for.
type tierCell struct {
	n, hot, up, down int32   // experts, hot ones, and those that have just become so or ceased to be
	score            float32 // the largest, NaN where none is known
	share            float32 // of the layer's experts that are hot, where single ones are not known
}

// SetTier draws experts by precision in place of values; nil draws values again.
func (h *Heat) SetTier(t *tierPicture) {
	if (t == nil) != (h.tier == nil) {
		h.shape++
	}
	h.tier = t
	h.touch()
}

// top is the score that the brightest shade stands for: one that two of a hundred
// experts exceed.
func topScore(scores []float32) float32 {
	kept := scratch.Get().(*[]float64)
	defer scratch.Put(kept)
	known := (*kept)[:0]
	for _, s := range scores {
		if s == s {
			known = append(known, float64(s))
		}
	}
	*kept = known
	if len(known) == 0 {
		return 0
	}
	return float32(nth(known, int(0.98*float64(len(known)-1)+0.5)))
}

// addTier adds up what the cells stand for.
func (h *Heat) addTier() {
	t, l := h.tier, &h.layout
	h.tiers = h.tiers[:0]
	if t == nil || len(h.cells) == 0 {
		return
	}
	h.tiers = slices.Grow(h.tiers, len(h.cells))[:len(h.cells)]
	for i := range h.tiers {
		h.tiers[i] = tierCell{score: float32(math.NaN())}
	}
	experts := t.setup.Shape.Experts
	for i, layer := range t.setup.Shape.Layers {
		row := h.rowOf(layer)
		if row < 0 {
			continue
		}
		line := h.tiers[row/l.perRow*len(l.cols):]
		for c := h.grid.Dense; c < len(h.grid.Cols); c++ {
			e := h.grid.Cols[c].Expert
			if e < 0 || e >= experts {
				continue
			}
			cell := &line[l.first[c]]
			cell.n++
			if t.now == nil {
				if i < len(t.layers) {
					cell.share = max(cell.share, float32(t.layers[i])/float32(experts))
				}
				continue
			}
			at := i*experts + e
			hot := t.now.hot[at]
			if hot {
				cell.hot++
			}
			if t.now.moved[at] > t.fresh {
				if hot {
					cell.up++
				} else {
					cell.down++
				}
			}
			if s := t.now.score[at]; s == s && !(cell.score >= s) {
				cell.score = s
			}
		}
	}
}

// rowOf is the row of a layer of the language model, −1 where there is none.
func (h *Heat) rowOf(layer int) int {
	return slices.IndexFunc(h.grid.Rows, func(r GridRow) bool {
		return r.Layer == layer && (r.Kind == RowLayer || r.Kind == RowDense || r.Kind == RowMTP)
	})
}

// The glyphs of a tier. A hot expert fills its cell, a cold one is a low block.
const (
	glyphHot  = "█"
	glyphCold = "▁"
	glyphUp   = "▲"
	glyphDown = "▼"
)

// ink is how a cell of a tier is written: by its score where that is known.
func (h *Heat) tierInk(c *tierCell, fresh bool) (style string, level int) {
	k := &h.inks.ramp
	if !(c.score == c.score) || h.tier.top <= 0 {
		switch {
		case fresh:
			return h.inks.mark, -1
		case c.hot > 0 || h.tier.now == nil:
			return h.inks.plain, -1
		}
		return h.inks.label, -1
	}
	level = Scale{Hi: float64(h.tier.top)}.level(float64(c.score), len(k.cells))
	if fresh {
		return k.fresh[level], level
	}
	return k.level[level], level
}

// filled is how many eighths of the height of a cell are filled.
func (c *tierCell) filled(lines int) int {
	share := 0.0
	if c.n > 0 {
		share = float64(c.hot) / float64(c.n)
	}
	return 1 + int(share*float64(8*lines-1)+0.5)
}

// drawTier draws one line of a cell.
func (h *Heat) drawTier(p *heatPen, row, col, w, in int, cursor bool) {
	l := &h.layout
	at := row*len(l.cols) + col
	c, under := &h.tiers[at], &h.cells[at]
	middle := in == (l.cellH-1)/2
	switch {
	case c.n == 0 && under.count == 0:
		p.spaces(w)
		return
	case c.n == 0 || under.state == Filtered:
		h.drawNoTier(p, under, c, w, middle, cursor)
		return
	}
	fresh := c.up+c.down > 0
	style, _ := h.tierInk(c, fresh)
	glyph := " "
	if h.tier.now == nil {
		glyph = h.layerBar(c, col)
	} else if here := min(c.filled(l.cellH)-8*(l.cellH-1-in), 8); here > 0 {
		glyph = bars[here-1]
	}
	if h.theme.solid && glyph == glyphHot && in == 0 && l.gapH == 0 && (l.cellH > 1 || row > 0) {
		glyph = "▇"
	}
	mark := ""
	switch {
	case !middle:
	case c.up > 0:
		mark = glyphUp
	case c.down > 0:
		mark = glyphDown
	}
	switch {
	case cursor && w == 1:
		if mark = "□"; c.hot > 0 {
			mark = "▣"
		}
		if !middle {
			mark = "│"
		}
		p.glyphs(h.inks.mark, mark, 1)
	case cursor:
		left, right := cursorEdges(l.cellH, in)
		p.glyphs(h.inks.mark, left, 1)
		h.glyphMarked(p, style, glyph, mark, w-2)
		p.glyphs(h.inks.mark, right, 1)
	default:
		h.glyphMarked(p, style, glyph, mark, w)
	}
}

// glyphMarked writes a glyph w times, with a mark in the middle where there is one.
func (h *Heat) glyphMarked(p *heatPen, style, glyph, mark string, w int) {
	if mark == "" || w <= 0 {
		h.tierGlyphs(p, style, glyph, w)
		return
	}
	left := (w - 1) / 2
	h.tierGlyphs(p, style, glyph, left)
	h.tierGlyphs(p, h.inks.mark, mark, 1)
	h.tierGlyphs(p, style, glyph, w-1-left)
}

// tierGlyphs writes a glyph, or blanks without a style.
func (h *Heat) tierGlyphs(p *heatPen, style, glyph string, w int) {
	if glyph == " " {
		p.spaces(w)
		return
	}
	p.glyphs(style, glyph, w)
}

// cursorEdges are the brackets round a cell that has room for them.
func cursorEdges(cellH, in int) (left, right string) {
	switch {
	case cellH == 1:
		return "[", "]"
	case in == 0:
		return "┌", "┐"
	case in == cellH-1:
		return "└", "┘"
	}
	return "│", "│"
}

// layerBar is the glyph of a column in a bar over all of a layer's experts.
func (h *Heat) layerBar(c *tierCell, col int) string {
	l := &h.layout
	from := int(l.first[h.grid.Dense])
	n := len(l.cols) - from
	if float32(col-from) < c.share*float32(n)-1e-4 {
		return "▆"
	}
	return glyphCold
}

// drawNoTier draws a cell that has no expert of the tier, or only filtered ones.
func (h *Heat) drawNoTier(p *heatPen, under *heatCell, c *tierCell, w int, middle, cursor bool) {
	state := NotYet
	if c.n > 0 || under.state == Filtered {
		state = Filtered
	}
	if !middle {
		p.spaces(w)
		return
	}
	left := (w - 1) / 2
	p.spaces(left)
	if cursor {
		p.glyphs(h.inks.mark, "□", 1)
	} else {
		p.glyphs(h.inks.states[state], stateGlyphs[state], 1)
	}
	p.spaces(w - 1 - left)
}

// drawTierTwo draws a line that carries two layers: what is hot is filled in its half.
func (h *Heat) drawTierTwo(p *heatPen, row, col, w int, cursor bool) {
	l := &h.layout
	at := row*len(l.cols) + col
	none := tierCell{score: float32(math.NaN())}
	up, down, count := &h.tiers[at], &none, h.cells[at].count
	if row+1 < l.rows {
		down = &h.tiers[at+len(l.cols)]
		count += h.cells[at+len(l.cols)].count
	}
	isHot := func(c *tierCell) bool { return c.n > 0 && 2*c.hot >= c.n && c.hot > 0 }
	a, b := isHot(up), isHot(down)
	if h.tier.now == nil {
		a, b = up.n > 0 && h.layerBar(up, col) != glyphCold, down.n > 0 && h.layerBar(down, col) != glyphCold
	}
	switch {
	case count == 0:
		p.spaces(w)
	case cursor:
		glyph := "□"
		if a || b {
			glyph = "▣"
		}
		p.glyphs(h.inks.mark, glyph, w)
	case up.n+down.n == 0:
		p.glyphs(h.inks.states[NotYet], stateGlyphs[NotYet], w)
	case up.up+down.up > 0:
		p.glyphs(h.inks.mark, glyphUp, w)
	case up.down+down.down > 0:
		p.glyphs(h.inks.mark, glyphDown, w)
	case a && b:
		_, i := h.tierInk(up, false)
		style, j := h.tierInk(down, false)
		if i < 0 || j < 0 || i == j {
			p.glyphs(style, glyphHot, w)
			return
		}
		k := &h.inks.ramp
		p.two(1+2*(i*len(k.cells)+j), k.cells[i].fg, k.cells[j].bg)
		p.repeat("▀", w)
	case a:
		style, _ := h.tierInk(up, false)
		p.glyphs(style, "▀", w)
	case b:
		style, _ := h.tierInk(down, false)
		p.glyphs(style, "▄", w)
	default:
		c := up
		if !(c.score >= down.score) && down.score == down.score {
			c = down
		}
		style, _ := h.tierInk(c, false)
		p.glyphs(style, glyphCold, w)
	}
}
