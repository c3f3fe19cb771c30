package views

// drawHalf draws a line that carries two layers, one in each half.
func (h *Heat) drawHalf(p *heatPen, y, cursorRow, cursorCol int) {
	l := &h.layout
	row := 2 * (y - l.top)
	if row >= l.rows {
		return
	}
	h.drawLabel(p, row, cursorRow, true)
	k := h.scaleInks()
	for i := range l.cols {
		w := h.begin(p, i)
		if w <= 0 {
			break
		}
		if h.tier != nil {
			h.drawTierTwo(p, row, i, w, i == cursorCol && (row == cursorRow || row+1 == cursorRow))
			continue
		}
		upper := &h.cells[row*len(l.cols)+i]
		lower := &heatCell{}
		if row+1 < l.rows {
			lower = &h.cells[(row+1)*len(l.cols)+i]
		}
		if i == cursorCol && row == cursorRow {
			h.drawCursor(p, upper, k, w, 0)
			continue
		}
		if i == cursorCol && row+1 == cursorRow {
			h.drawCursor(p, lower, k, w, 0)
			continue
		}
		h.drawTwo(p, upper, lower, k, w)
	}
}

// drawTwo draws two values in one line of cells. Where one of them is marked
// there is no room for its mark beside the other value: the worse value takes
// the whole line, under the mark.
func (h *Heat) drawTwo(p *heatPen, upper, lower *heatCell, k *scaleInks, w int) {
	up, down := upper.count > 0 && upper.state.HasValue(), lower.count > 0 && lower.state.HasValue()
	bad := NotYet
	for _, c := range [2]*heatCell{upper, lower} {
		if c.count > 0 && !c.state.HasValue() && stateRank[c.state] >= stateRank[bad] {
			bad = c.state
		}
	}
	switch {
	case up && down:
		a, b := h.scale.level(upper.value, len(k.cells)), h.scale.level(lower.value, len(k.cells))
		fg := k.cells[a].fg
		if upper.fresh {
			fg = k.cells[a].fresh
		}
		if mark := max(upper.state, lower.state); mark.marked() {
			if h.scale.worse(upper.value, lower.value) {
				b = a
			}
			p.glyphs(k.marks(mark)[b], stateGlyphs[mark], w)
			return
		}
		key := 1 + 2*(a*len(k.cells)+b)
		if upper.fresh {
			key++
		}
		p.two(key, fg, k.cells[b].bg)
		p.repeat("▀", w)
	case (up || down) && bad.listed():
		c := upper
		if down {
			c = lower
		}
		level := h.scale.level(c.value, len(k.cells))
		p.two(-1-int(bad)*len(k.cells)-level, h.inks.stateOver[bad], k.cells[level].bg)
		p.repeat(stateGlyphs[bad], w)
	case up && upper.state.marked(), down && lower.state.marked():
		c := upper
		if down {
			c = lower
		}
		p.glyphs(k.marks(c.state)[h.scale.level(c.value, len(k.cells))], stateGlyphs[c.state], w)
	case up:
		p.glyphs(h.halfInk(upper, k), "▀", w)
	case down:
		p.glyphs(h.halfInk(lower, k), "▄", w)
	case upper.count == 0 && lower.count == 0:
		p.spaces(w)
	default:
		state := upper.state
		if upper.count == 0 || lower.count > 0 && stateRank[lower.state] > stateRank[upper.state] {
			state = lower.state
		}
		h.drawState(p, state, w, 0)
	}
}

func (h *Heat) halfInk(c *heatCell, k *scaleInks) string {
	level := h.scale.level(c.value, len(k.cells))
	if c.fresh {
		return k.fresh[level]
	}
	return k.level[level]
}
