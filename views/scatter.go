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
	labels := []string{compact(ys.Hi), compact(ys.Lo)}
	lw := max(Width(labels[0]), Width(labels[1])) + 1
	if w-lw < 4 {
		lw = 1
		labels = []string{"", ""}
	}
	c := newCanvas(w, h)
	pw, ph := w-lw, h-2
	c.text(lw-1-Width(labels[0]), 0, labels[0], t.ink.dim)
	c.text(lw-1-Width(labels[1]), ph-1, labels[1], t.ink.dim)
	for y := range ph {
		c.put(lw-1, y, "│", t.ink.faint)
	}
	c.axisX(t, lw, ph, pw, edgeTicks(xs, pw))
	if s.XLabel != "" || s.YLabel != "" {
		note := s.YLabel + " ↑  " + s.XLabel + " →"
		if at := lw + (pw-Width(note))/2; Width(note) <= pw-Width(compact(xs.Lo))-Width(compact(xs.Hi))-4 {
			for i, l := range []string{note} {
				c.text(at, ph+1+i, l, t.ink.faint)
			}
		}
	}
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

// edgeTicks labels both ends of an axis.
func edgeTicks(s Scale, n int) []tick {
	hi := compact(s.Hi)
	if Width(hi)+Width(compact(s.Lo))+2 > n {
		return nil
	}
	return []tick{{0, compact(s.Lo)}, {n - 1 - Width(hi)/2, hi}}
}

// brailleDot is the bit of the dot in column x (0, 1) and row y (0–3) of a
// braille pattern (Unicode, block U+2800).
func brailleDot(x, y int) rune {
	if y == 3 {
		return 0x40 << x
	}
	return 1 << (y + 3*x)
}
