package views

// heatInks are the escape sequences a map is drawn with, made once a theme; all
// are "" without colours.
type heatInks struct {
	plain         string
	ramp, diverge scaleInks
	states        [cellStates]string
	stateOver     [cellStates]string // parameters of a state's glyph
	label, mark   string
	cursorNone    string // of a cursor on a cell without a value
}

// scaleInks are the sequences for the steps of a scale.
type scaleInks struct {
	level, fresh, clipped, below, cursor []string
	cells                                []cell
}

func newHeatInks(t *Theme) heatInks {
	k := heatInks{
		plain: t.open(), label: t.open(t.ink.dim), mark: t.open(t.ink.accent, "1"),
		cursorNone: t.open(t.ink.accent, "1"),
	}
	for s := range k.states {
		k.states[s] = t.open(t.stateInk(CellState(s)))
		k.stateOver[s] = t.stateInk(CellState(s))
	}
	k.ramp, k.diverge = newScaleInks(t, t.ramp), newScaleInks(t, t.diverge)
	return k
}

// marks are the sequences of a mark over a value.
func (k *scaleInks) marks(s CellState) []string {
	if s == BelowRank {
		return k.below
	}
	return k.clipped
}

func newScaleInks(t *Theme, cells []cell) scaleInks {
	k := scaleInks{cells: cells}
	for _, c := range cells {
		k.level = append(k.level, t.open(c.fg))
		if t.solid {
			k.fresh = append(k.fresh, t.open(c.fresh))
			k.clipped = append(k.clipped, t.open(c.bg, c.hatch))
			k.below = append(k.below, t.open(c.bg, c.contrast))
			k.cursor = append(k.cursor, t.open(c.bg, c.contrast, "1"))
		} else {
			k.fresh = append(k.fresh, t.open(c.fg, c.fresh))
			k.clipped = append(k.clipped, t.open(c.fg))
			k.below = append(k.below, t.open(c.fg))
			k.cursor = append(k.cursor, t.open(t.ink.accent, "1"))
		}
	}
	return k
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

// two sets a foreground and a background, told from others by key.
func (p *heatPen) two(key int, fg, bg string) {
	if key == p.pair {
		return
	}
	p.style, p.pair = "", key
	p.buf = append(append(append(append(p.buf, "\x1b[0;"...), fg...), ';'), bg...)
	p.buf = append(p.buf, 'm')
}
