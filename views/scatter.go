package views

import "math"

// Scatter draws points in braille: two by four dots a cell.
type Scatter struct {
	X, Y           []float64 // pairs; those that are not finite are left out and counted
	XLabel, YLabel string
	Diagonal       bool // both axes span the same values, and x = y is drawn
	Mark           int  // index of the point that is marked, -1 for none
	Ink            string
}

// Render draws exactly h lines of exactly w cells.
func (s Scatter) Render(t *Theme, w, h int) string {
	n := min(len(s.X), len(s.Y))
	if w < 8 || h < 4 || n == 0 {
		return Block(nil, w, h)
	}
	xs, ys, left := s.limits(n)
	if left == n {
		return Block([]string{t.Dim.Render("nothing to draw yet")}, w, h)
	}
	pw, ph := w, h-2
	up := upTicks(ys.Lo, ys.Hi, ph, false, true)
	lw := 1
	for _, k := range up {
		lw = max(lw, Width(k.label)+1)
	}
	if w-lw < 4 {
		up, lw = nil, 1
	}
	pw -= lw
	c := newCanvas(w, h)
	for y := range ph {
		c.put(lw-1, y, "│", t.ink.faint)
	}
	for _, k := range up {
		c.text(lw-1-Width(k.label), ph-1-k.at, k.label, t.ink.dim)
	}
	c.axisX(t, lw, ph, pw, rangeTicks(xs.Lo, xs.Hi, pw))
	if s.Diagonal {
		for x := range pw {
			f := float64(x) / float64(max(pw-1, 1))
			c.put(lw+x, ph-1-int(math.Round(f*float64(ph-1))), "·", t.ink.faint)
		}
	}
	dots := make([]rune, pw*ph)
	place := func(i int) (int, int) {
		x := int(xs.Place(s.X[i]) * float64(pw*2-1))
		y := int(ys.Place(s.Y[i]) * float64(ph*4-1))
		return x, ph*4 - 1 - y
	}
	for i := range n {
		if !isNumber(s.X[i]) || !isNumber(s.Y[i]) {
			continue
		}
		x, y := place(i)
		dots[y/4*pw+x/2] |= brailleDot(x%2, y%4)
	}
	for i, d := range dots {
		if d != 0 {
			c.put(lw+i%pw, i/pw, string(0x2800+d), s.Ink)
		}
	}
	if m := s.Mark; m >= 0 && m < n && isNumber(s.X[m]) && isNumber(s.Y[m]) {
		x, y := place(m)
		c.put(lw+x/2, y/4, "◉", t.ink.accent)
	}
	s.nameAxes(t, c, lw, pw, ph)
	return Block(c.lines(t), w, h)
}

// limits spans the finite pairs and counts the others.
func (s Scatter) limits(n int) (xs, ys Scale, left int) {
	xs = Scale{Lo: math.Inf(1), Hi: math.Inf(-1)}
	ys = xs
	for i := range n {
		if !isNumber(s.X[i]) || !isNumber(s.Y[i]) {
			left++
			continue
		}
		xs.Lo, xs.Hi = min(xs.Lo, s.X[i]), max(xs.Hi, s.X[i])
		ys.Lo, ys.Hi = min(ys.Lo, s.Y[i]), max(ys.Hi, s.Y[i])
	}
	if s.Diagonal {
		xs.Lo, xs.Hi = min(xs.Lo, ys.Lo), max(xs.Hi, ys.Hi)
		ys = xs
	}
	return xs, ys, left
}

// nameAxes writes what the axes are into the corners of the plot that points
// leave free.
func (s Scatter) nameAxes(t *Theme, c *canvas, lw, pw, ph int) {
	for _, k := range []struct {
		text  string
		right bool // at the right end of the lowest line, else at the left end of the uppermost
	}{{s.YLabel + " ↑", false}, {s.XLabel + " →", true}} {
		x, y, n := lw+1, 0, Width(k.text)
		if k.right {
			x, y = lw+pw-n, ph-1
		}
		free := n+2 <= pw && n > 2
		for i := range n {
			free = free && c.free(x+i, y)
		}
		if free {
			c.text(x, y, k.text, t.ink.faint)
		}
	}
}

// brailleDot is the bit of the dot in column x (0, 1) and row y (0–3) of a
// braille pattern (Unicode, block U+2800).
func brailleDot(x, y int) rune {
	if y == 3 {
		return 0x40 << x
	}
	return 1 << (y + 3*x)
}
