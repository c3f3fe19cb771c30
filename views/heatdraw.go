package views

// heatInks are the escape sequences a map is drawn with, made once a theme; all
// are "" without colours.
type heatInks struct {
	plain                              string
	ramp, diverge                      scaleInks
	states                             [Failed + 1]string
	stateOver                          [Failed + 1]string // parameters of a state's glyph
	label, mark                        string
	cursorOn, cursorNone, emptyOn, dim string
}

// scaleInks are the sequences for the steps of a scale.
type scaleInks struct {
	level, fresh, clipped, cursor []string
	cells                         []cell
}

func newHeatInks(t *Theme) heatInks {
	k := heatInks{
		plain: t.open(), label: t.open(t.ink.dim), mark: t.open(t.ink.accent, "1"), dim: t.open(t.ink.faint),
		cursorNone: t.open(t.ink.accent, "1"),
	}
	for s := range k.states {
		k.states[s] = t.open(t.stateInk(CellState(s)))
		k.stateOver[s] = t.stateInk(CellState(s))
	}
	k.ramp, k.diverge = newScaleInks(t, t.ramp), newScaleInks(t, t.diverge)
	return k
}

func newScaleInks(t *Theme, cells []cell) scaleInks {
	k := scaleInks{cells: cells}
	for _, c := range cells {
		k.level = append(k.level, t.open(c.fg))
		if t.solid {
			k.fresh = append(k.fresh, t.open(c.fresh))
			k.clipped = append(k.clipped, t.open(c.bg, c.hatch))
			k.cursor = append(k.cursor, t.open(c.bg, c.contrast, "1"))
		} else {
			k.fresh = append(k.fresh, t.open(c.fg, c.fresh))
			k.clipped = append(k.clipped, t.open(c.fg))
			k.cursor = append(k.cursor, t.open(t.ink.accent, "1"))
		}
	}
	return k
}

// heatCell is what one cell of the screen stands for.
type heatCell struct {
	value  float64 // the worst
	tensor int32   // that has it; the first one where nothing is measured
	count  int32   // tensors, those left out by filter or projection too
	state  CellState
	seen   bool // state was set
	fresh  bool
}

// stateRank orders states: the highest one of a cell's tensors is shown.
var stateRank = [...]uint8{Filtered: 0, NotYet: 1, Measured: 2, Clipped: 3, NotFinite: 4, Failed: 5}

// shows says whether filter and projection leave a tensor in.
func (h *Heat) shows(t int) bool {
	if !h.filter.Shows(t) {
		return false
	}
	if h.projection == "" {
		return true
	}
	p := h.grid.place[t]
	if int(p.col) < h.grid.Dense {
		return h.grid.Cols[p.col].Label == h.projection
	}
	return h.grid.Parts[p.part] == h.projection
}

// cellOf is where a tensor stands in the layout.
func (h *Heat) cellOf(t int) (row, col int) {
	p := h.grid.place[t]
	col = int(h.layout.first[p.col])
	if h.layout.parts && int(p.col) >= h.grid.Dense {
		col += int(p.part)
	}
	return int(p.row) / h.layout.perRow, col
}

// addUp makes the cells: each shows the worst of its tensors.
func (h *Heat) addUp() {
	l := &h.layout
	n := l.rows * len(l.cols)
	if cap(h.cells) < n {
		h.cells = make([]heatCell, n)
	}
	h.cells = h.cells[:n]
	clear(h.cells)
	if n == 0 {
		return
	}
	wanted := make([]bool, len(h.grid.Parts))
	for i, p := range h.grid.Parts {
		wanted[i] = h.projection == "" || p == h.projection
	}
	for t, p := range h.grid.place {
		col := int(l.first[p.col])
		s := h.states[t]
		if int(p.col) >= h.grid.Dense {
			if l.parts {
				col += int(p.part)
			}
			if !wanted[p.part] {
				continue // the cell shows another projection
			}
		} else if h.projection != "" && h.grid.Cols[p.col].Label != h.projection {
			s = Filtered
		}
		if !h.filter.Shows(t) {
			s = Filtered
		}
		if s == Clipped && h.hideClips {
			s = Measured
		}
		h.cells[int(p.row)/l.perRow*len(l.cols)+col].take(int32(t), s, h.values[t], h.scale)
	}
	for _, t := range h.fresh {
		if t >= 0 && t < len(h.states) {
			row, col := h.cellOf(t)
			h.cells[row*len(l.cols)+col].fresh = true
		}
	}
}

// take adds one tensor to a cell.
func (c *heatCell) take(t int32, s CellState, v float64, scale Scale) {
	if c.count == 0 {
		c.tensor = t
	}
	c.count++
	switch {
	case !c.seen || stateRank[s] > stateRank[c.state]:
		// Measured and clipped tensors compete by value, whatever the mark.
		if c.seen && c.state.HasValue() && s.HasValue() && !worse(v, c.value, scale) {
			c.state = s
			return
		}
		c.state, c.seen = s, true
		c.tensor, c.value = t, v
	case s.HasValue() && c.state.HasValue() && worse(v, c.value, scale):
		c.tensor, c.value = t, v
	}
}

// worse says whether a is nearer to the loud end than b.
func worse(a, b float64, s Scale) bool {
	if s.Flip {
		return a < b
	}
	return a > b
}

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

// heatPen writes a line and changes the style only where it differs.
type heatPen struct {
	buf   []byte
	x     int
	style string // "" for none
	pair  int    // key of a foreground and background that are set instead; 0 for none
	plain string
}

// ink sets the style of what follows; "" is none.
func (p *heatPen) ink(style string) {
	if style == p.style && p.pair == 0 {
		return
	}
	p.style, p.pair = style, 0
	if style == "" {
		style = p.plain
	}
	p.buf = append(p.buf, style...)
}

// glyphs writes a one-cell glyph n times.
func (p *heatPen) glyphs(style, glyph string, n int) {
	if n <= 0 {
		return
	}
	p.ink(style)
	p.repeat(glyph, n)
}

// repeat writes a one-cell glyph n times in the style that is set.
func (p *heatPen) repeat(glyph string, n int) {
	for range n {
		p.buf = append(p.buf, glyph...)
	}
	p.x += max(n, 0)
}

// spaces writes n blanks without a style.
func (p *heatPen) spaces(n int) {
	if n > 0 {
		p.ink("")
		p.buf = append(p.buf, spaces(n)...)
		p.x += n
	}
}

// text writes a short text that is n cells wide.
func (p *heatPen) text(style, s string, n int) {
	p.ink(style)
	p.buf = append(p.buf, s...)
	p.x += n
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
		col := &l.cols[i]
		if col.x >= h.w {
			break
		}
		if col.x > p.x {
			p.spaces(col.x - p.x)
		}
		w := min(col.w, h.w-col.x)
		cell := &h.cells[row*len(l.cols)+i]
		switch {
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
	case c.state == Clipped:
		p.glyphs(k.clipped[level], "╱", w)
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
		col := &l.cols[i]
		if col.x >= h.w {
			break
		}
		if col.x > p.x {
			p.spaces(col.x - p.x)
		}
		w := min(col.w, h.w-col.x)
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

// drawTwo draws two values in one line of cells. A clipped one of them shows as
// a checker, or as a hatch where both have about the same colour.
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
		glyph := "▀"
		if upper.state == Clipped || lower.state == Clipped {
			glyph = "▚"
			if a-b < 3 && b-a < 3 {
				p.glyphs(k.clipped[b], "╱", w)
				return
			}
		}
		key := 1 + 2*(a*len(k.cells)+b)
		if upper.fresh {
			key++
		}
		p.two(key, fg, k.cells[b].bg)
		p.repeat(glyph, w)
	case (up || down) && (bad == Failed || bad == NotFinite):
		c := upper
		if down {
			c = lower
		}
		level := h.scale.level(c.value, len(k.cells))
		p.two(-1-int(bad)*len(k.cells)-level, h.inks.stateOver[bad], k.cells[level].bg)
		p.repeat(stateGlyphs[bad], w)
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

// two sets a foreground and a background, told from others by key.
func (p *heatPen) two(key int, fg, bg string) {
	if key == p.pair {
		return
	}
	p.style, p.pair = "", key
	p.buf = append(append(append(append(p.buf, "\x1b[0;"...), fg...), ';'), bg...)
	p.buf = append(p.buf, 'm')
}
