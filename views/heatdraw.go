package views

// draw makes the picture.
func (h *Heat) draw() string {
	l := &h.layout
	if h.w == 0 || h.h == 0 {
		return Block(nil, h.w, h.h)
	}
	p := heatPen{buf: h.buf[:0], plain: h.inks.plain}
	row, col := -1, -1
	if h.cursor >= 0 && len(h.cells) > 0 {
		row, col = h.cellOf(h.cursor)
	}
	for y := range h.h {
		if y > 0 {
			p.buf = append(p.buf, '\n')
		}
		p.x = 0
		switch {
		case len(l.cols) == 0:
		case y < l.top:
			h.drawHeader(&p, col)
		case l.half:
			h.drawHalf(&p, y, row, col)
		default:
			h.drawRow(&p, y, row, col)
		}
		p.spaces(h.w - p.x)
		p.ink("")
	}
	h.buf = p.buf
	return string(p.buf)
}

// drawLabel writes the name of a layer.
func (h *Heat) drawLabel(p *heatPen, row, cursorRow int, line bool) {
	l := &h.layout
	if l.labelW == 0 {
		return
	}
	if !line {
		p.spaces(l.labelW)
		return
	}
	r, style := row*l.perRow, h.inks.label
	if row == cursorRow || l.half && row+1 == cursorRow {
		r, style = int(h.grid.place[h.cursor].row), h.inks.mark
	}
	label := h.grid.Rows[min(r, len(h.grid.Rows)-1)].Label
	w := Width(label)
	p.spaces(l.labelW - 1 - w)
	p.text(style, label, w)
	p.spaces(1)
}

// drawRow draws one line of a row of cells.
func (h *Heat) drawRow(p *heatPen, y, cursorRow, cursorCol int) {
	l := &h.layout
	row, in := (y-l.top)/(l.cellH+l.gapH), (y-l.top)%(l.cellH+l.gapH)
	if row >= l.rows || in >= l.cellH {
		return
	}
	h.drawLabel(p, row, cursorRow, in == (l.cellH-1)/2)
	scale := h.scaleInks()
	for i := range l.cols {
		w := h.begin(p, i)
		if w <= 0 {
			break
		}
		cell := &h.cells[row*len(l.cols)+i]
		switch {
		case h.tier != nil:
			h.drawTier(p, row, i, w, in, row == cursorRow && i == cursorCol)
		case row == cursorRow && i == cursorCol:
			h.drawCursor(p, cell, scale, w, in)
		case cell.count == 0:
			p.spaces(w)
		case !cell.state.HasValue():
			h.drawState(p, cell.state, w, in)
		case h.theme.solid:
			h.drawSolid(p, cell, scale, w, in)
		default:
			h.drawGlyph(p, cell, scale, w, in)
		}
	}
}

// begin moves the pen to a column and says how many of its cells are in sight: 0
// where it and all further ones are out of sight.
func (h *Heat) begin(p *heatPen, column int) int {
	col := &h.layout.cols[column]
	if col.x >= h.w {
		return 0
	}
	p.spaces(col.x - p.x)
	return min(col.w, h.w-col.x)
}

// drawState draws a cell without a value: its glyph once, in the middle.
func (h *Heat) drawState(p *heatPen, s CellState, w, in int) {
	if in != (h.layout.cellH-1)/2 {
		p.spaces(w)
		return
	}
	left := (w - 1) / 2
	p.spaces(left)
	p.glyphs(h.inks.states[s], stateGlyphs[s], 1)
	p.spaces(w - 1 - left)
}

// drawSolid draws a value by colour. The uppermost line of a cell leaves a thin
// gap where rows stand close.
func (h *Heat) drawSolid(p *heatPen, c *heatCell, k *scaleInks, w, in int) {
	level := h.scale.level(c.value, len(k.cells))
	switch {
	case c.fresh:
		p.glyphs(k.fresh[level], h.block(in), w)
	case c.state.marked():
		p.glyphs(k.marks(c.state)[level], stateGlyphs[c.state], w)
	default:
		p.glyphs(k.level[level], h.block(in), w)
	}
}

func (h *Heat) block(in int) string {
	if in == 0 && h.layout.gapH == 0 {
		return "▇"
	}
	return "█"
}

// drawGlyph draws a value by glyphs: a bar that rises over the lines of the
// cell, or one that grows from the left where the cell is clipped.
func (h *Heat) drawGlyph(p *heatPen, c *heatCell, k *scaleInks, w, in int) {
	level := h.scale.level(c.value, len(k.cells))
	style := k.level[level]
	if c.fresh {
		style = k.fresh[level]
	}
	switch {
	case c.state == Clipped:
		p.glyphs(style, k.cells[level].clipped, w)
		return
	case c.state == BelowRank:
		p.glyphs(style, stateGlyphs[BelowRank], w)
		return
	case h.layout.cellH == 1 || h.scale.Diverging:
		p.glyphs(style, k.cells[level].glyph, w)
		return
	}
	eighths := max(int(h.scale.Place(c.value)*float64(h.layout.cellH*8)+0.5), 1)
	here := min(eighths-8*(h.layout.cellH-1-in), 8)
	if here <= 0 {
		p.spaces(w)
		return
	}
	p.glyphs(style, bars[here-1], w)
}

// drawCursor draws the cell under the cursor: ▣ where it is one cell, else
// brackets round the value.
func (h *Heat) drawCursor(p *heatPen, c *heatCell, k *scaleInks, w, in int) {
	style, inner := h.inks.cursorNone, " "
	level := 0
	if c.count > 0 && c.state.HasValue() {
		level = h.scale.level(c.value, len(k.cells))
		style = k.cursor[level]
		if !h.theme.solid {
			inner = k.cells[level].glyph
		}
	} else if c.count > 0 {
		inner = stateGlyphs[c.state]
	}
	cellH := h.layout.cellH
	if w == 1 {
		glyph := "▣"
		if in != (cellH-1)/2 {
			glyph = "│"
		}
		p.glyphs(style, glyph, 1)
		return
	}
	left, right := "[", "]"
	if cellH > 1 {
		switch in {
		case 0:
			left, right = "┌", "┐"
		case cellH - 1:
			left, right = "└", "┘"
		default:
			left, right = "│", "│"
		}
		if in != cellH-1 && !h.theme.solid {
			inner = " "
		}
	}
	p.glyphs(style, left, 1)
	p.glyphs(style, inner, w-2)
	p.glyphs(style, right, 1)
}

func (h *Heat) scaleInks() *scaleInks {
	if h.scale.Diverging {
		return &h.inks.diverge
	}
	return &h.inks.ramp
}
