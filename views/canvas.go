package views

import "strings"

// canvas is a rectangle of cells that drawings are put on: one grapheme and one
// style a cell. Putting something outside of it does nothing.
type canvas struct {
	w, h   int
	glyphs []string // "" is a blank
	inks   []string // parameters of a style, "" for none
}

func newCanvas(w, h int) *canvas {
	w, h = max(w, 0), max(h, 0)
	return &canvas{w: w, h: h, glyphs: make([]string, w*h), inks: make([]string, w*h)}
}

// put sets one cell.
func (c *canvas) put(x, y int, glyph, ink string) {
	if x >= 0 && x < c.w && y >= 0 && y < c.h {
		c.glyphs[y*c.w+x] = glyph
		c.inks[y*c.w+x] = ink
	}
}

// free says that there is nothing in a cell yet.
func (c *canvas) free(x, y int) bool {
	return x >= 0 && x < c.w && y >= 0 && y < c.h && c.glyphs[y*c.w+x] == ""
}

// text sets a text of one-cell runes from x on; what sticks out is lost.
func (c *canvas) text(x, y int, s, ink string) {
	for _, r := range s {
		c.put(x, y, string(r), ink)
		x++
	}
}

// lines renders the cells, with as few style changes as there are.
func (c *canvas) lines(t *Theme) []string {
	out := make([]string, c.h)
	var b strings.Builder
	for y := range c.h {
		b.Reset()
		ink := ""
		for x := range c.w {
			g, k := c.glyphs[y*c.w+x], c.inks[y*c.w+x]
			if g == "" {
				g, k = " ", ""
			}
			if k != ink {
				if k == "" {
					b.WriteString(reset)
				} else {
					b.WriteString(t.open(k))
				}
				ink = k
			}
			b.WriteString(g)
		}
		if ink != "" {
			b.WriteString(reset)
		}
		out[y] = b.String()
	}
	return out
}

// tick is a label of an axis and the cell it belongs to.
type tick struct {
	at    int
	label string
}

// axisX draws a horizontal axis on row y from x0, n cells long, and the labels
// of its ticks under it, centred and never colliding.
func (c *canvas) axisX(t *Theme, x0, y, n int, ticks []tick) {
	for i := range n {
		c.put(x0+i, y, "─", t.ink.faint)
	}
	c.put(x0-1, y, "└", t.ink.faint)
	free := 0
	for _, k := range ticks {
		w := Width(k.label)
		from := min(max(x0+k.at-w/2, free), c.w-w)
		if from < free || from > x0+k.at || w == 0 {
			continue
		}
		c.put(x0+k.at, y, "┬", t.ink.faint)
		c.text(from, y+1, k.label, t.ink.dim)
		free = from + w + 1
	}
}
