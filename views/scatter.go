package views

import "math"

// Scatter draws points in braille: two by four dots a cell.
type Scatter struct {
	X, Y           []float64 // pairs; those that are not finite are left out and counted
	XLabel, YLabel string
	Diagonal       bool // both axes span the same values, and x = y is drawn
	Free           bool // axes span their own values, whatever Diagonal says; x = y is drawn as far as it is in sight
	Mark           int  // index of the point that is marked, -1 for none
	Ink            string
	Log            bool   // both axes are logarithmic; what is not positive is left out
	Other          *Cloud // drawn below the points; nil
}

// Cloud is a second set of points, told from the first by its glyph: a ring a cell.
type Cloud struct {
	X, Y []float64
	Mark int // index of the point that is marked, -1 for none
	Ink  string
}

// logged are values as a logarithmic axis places them.
func logged(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		if out[i] = math.NaN(); v > 0 {
			out[i] = math.Log10(v)
		}
	}
	return out
}

// Render draws exactly h lines of exactly w cells.
func (s Scatter) Render(t *Theme, w, h int) string {
	if s.Log {
		s.X, s.Y = logged(s.X), logged(s.Y)
		if o := s.Other; o != nil {
			s.Other = &Cloud{logged(o.X), logged(o.Y), o.Mark, o.Ink}
		}
	}
	n := min(len(s.X), len(s.Y))
	if w < 8 || h < 4 || n == 0 {
		return Block(nil, w, h)
	}
	xs, ys, left := s.limits(n)
	if left == n {
		return Block([]string{t.Dim.Render("nothing to draw yet")}, w, h)
	}
	pw, ph := w, h-2
	up := s.ticksUp(ys, ph)
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
	across := rangeTicks(xs.Lo, xs.Hi, pw)
	if s.Log {
		across = logTicks(xs.Lo, xs.Hi, pw)
	}
	c.axisX(t, lw, ph, pw, across)
	if s.Diagonal {
		s.diagonal(xs, ys, pw, ph, func(x, y int) { c.put(lw+x, y, "·", t.ink.faint) })
	}
	dots := make([]rune, pw*ph)
	at := func(vx, vy float64) (int, int) {
		x := int(xs.Place(vx) * float64(pw*2-1))
		y := int(ys.Place(vy) * float64(ph*4-1))
		return x, ph*4 - 1 - y
	}
	place := func(i int) (int, int) { return at(s.X[i], s.Y[i]) }
	s.other(t, func(vx, vy float64, glyph, ink string) {
		x, y := at(vx, vy)
		c.put(lw+x/2, y/4, glyph, ink)
	}, false)
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
	s.other(t, func(vx, vy float64, glyph, ink string) {
		x, y := at(vx, vy)
		c.put(lw+x/2, y/4, glyph, ink)
	}, true)
	if m := s.Mark; m >= 0 && m < n && isNumber(s.X[m]) && isNumber(s.Y[m]) {
		x, y := place(m)
		c.put(lw+x/2, y/4, "◉", t.ink.accent)
	}
	s.nameAxes(t, c, lw, pw, ph)
	return Block(c.lines(t), w, h)
}

// other puts the points of the second cloud, or the marked one alone.
func (s Scatter) other(t *Theme, put func(x, y float64, glyph, ink string), marked bool) {
	o := s.Other
	if o == nil {
		return
	}
	for i := range min(len(o.X), len(o.Y)) {
		switch {
		case !isNumber(o.X[i]) || !isNumber(o.Y[i]):
		case marked && i == o.Mark:
			put(o.X[i], o.Y[i], "◎", t.ink.accent)
		case !marked:
			put(o.X[i], o.Y[i], "∘", o.Ink)
		}
	}
}

// ticksUp are the labels of the vertical axis.
func (s Scatter) ticksUp(ys Scale, rows int) []tick {
	if !s.Log {
		return upTicks(ys.Lo, ys.Hi, rows, false, true)
	}
	var out []tick
	for _, k := range logTicks(ys.Lo, ys.Hi, rows*4) { // labels of several cells need one line only
		if k.at = int(math.Round(float64(k.at) / float64(rows*4-1) * float64(rows-1))); len(out) == 0 || k.at > out[len(out)-1].at+1 {
			out = append(out, k)
		}
	}
	return out
}

// diagonal calls put with the cells of x = y that are in sight.
func (s Scatter) diagonal(xs, ys Scale, pw, ph int, put func(x, y int)) {
	if !s.Free {
		for x := range pw {
			f := float64(x) / float64(max(pw-1, 1))
			put(x, ph-1-int(math.Round(f*float64(ph-1))))
		}
		return
	}
	last := -1
	for i := range 4 * pw { // steeper than a cell wide, too
		v := xs.Lo + (xs.Hi-xs.Lo)*float64(i)/float64(max(4*pw-1, 1))
		f := (v - ys.Lo) / (ys.Hi - ys.Lo)
		if !(f >= 0 && f <= 1) {
			last = -1
			continue
		}
		y := ph - 1 - int(math.Round(f*float64(ph-1)))
		for k := min(y, last); last >= 0 && k <= max(y, last); k++ {
			put(i/4, k)
		}
		put(i/4, y)
		last = y
	}
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
	if o := s.Other; o != nil {
		for i := range min(len(o.X), len(o.Y)) {
			if isNumber(o.X[i]) && isNumber(o.Y[i]) {
				xs.Lo, xs.Hi = min(xs.Lo, o.X[i]), max(xs.Hi, o.X[i])
				ys.Lo, ys.Hi = min(ys.Lo, o.Y[i]), max(ys.Hi, o.Y[i])
			}
		}
	}
	if s.Free && left < n {
		for _, k := range []*Scale{&xs, &ys} { // so that no point lies on the frame
			pad := 0.03 * (k.Hi - k.Lo)
			k.Lo, k.Hi = k.Lo-pad, k.Hi+pad
		}
	} else if s.Diagonal {
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
