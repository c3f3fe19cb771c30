package views

// heatLayout says which cell of the screen stands for which part of the grid.
// It is a pure function of the grid and the size.
type heatLayout struct {
	w, h   int
	labelW int // cells for the names of layers, the blank behind them included
	top    int // lines for the header
	rows   int // layers, or buckets of layers
	perRow int // layers in a bucket
	half   bool
	cellH  int // lines a row takes (1 where half)
	gapH   int // blank lines between rows
	cols   []heatCol
	first  []int32 // column of the grid → its first column here
	parts  bool    // experts are split into their projections
	perCol int     // experts in a bucket
}

// heatCol is one column of cells.
type heatCol struct {
	x, w     int
	from, to int // columns of the grid
	part     int // projection, -1 for all
}

// Limits of how far cells grow: beyond them a map is not easier to read.
const (
	maxDenseW = 8
	maxCellW  = 8
	maxPartW  = 4
)

// spareLines is how many lines under a map can hold something worth seeing.
const spareLines = 8

// newHeatLayout fits a grid into w × h cells. onePart says that one projection
// is shown; solid that half blocks can tell two layers apart by colour.
func newHeatLayout(g *Grid, w, h int, onePart, solid bool) heatLayout {
	l := heatLayout{w: w, h: h, perRow: 1, perCol: 1, cellH: 1}
	if w <= 0 || h <= 0 || len(g.Rows) == 0 {
		return l
	}
	for _, r := range g.Rows {
		l.labelW = max(l.labelW, Width(r.Label)+1)
	}
	if w < l.labelW+6 {
		l.labelW = 0
	}
	if h >= 3 {
		l.top = 1
	}
	l.fitCols(g, w-l.labelW, onePart)
	l.fitRows(len(g.Rows), h-l.top, solid)
	return l
}

// fitCols chooses the widest cells that fit into w.
func (l *heatLayout) fitCols(g *Grid, w int, onePart bool) {
	experts, parts := len(g.Cols)-g.Dense, len(g.Parts)
	if onePart {
		parts = 1
	}
	groups := 0
	for i, c := range g.Cols[:g.Dense] {
		if i == 0 || c.Group != g.Cols[i-1].Group {
			groups++
		}
	}
	if experts == 0 {
		groups-- // no gap behind the last one
	}
	dense := func(cell, gap int) int { return g.Dense*(cell+gap) + max(groups, 0) }
	type fit struct{ denseW, denseGap, cellW, gap, parts, every int }
	var tries []fit
	if experts == 0 {
		for cw := maxDenseW; cw > 0; cw-- {
			tries = append(tries, fit{cw, 1, 0, 0, 1, 1})
		}
	} else {
		if parts > 1 {
			for pw := maxPartW; pw > 0; pw-- {
				tries = append(tries, fit{pw, 1, pw * parts, 1, parts, 1})
			}
			for _, every := range []int{2, 4, 8} { // a gap after every few experts still guides the eye
				tries = append(tries, fit{1, 0, parts, 1, parts, every})
			}
			tries = append(tries, fit{1, 0, parts, 0, parts, 1})
		}
		for cw := maxCellW; cw > 0; cw-- {
			tries = append(tries, fit{min(cw, 3), 1, cw, 1, 1, 1})
		}
		tries = append(tries, fit{1, 1, 2, 0, 1, 1})
	}
	tries = append(tries, fit{1, 0, 1, 0, 1, 1})
	for _, f := range tries {
		need := dense(f.denseW, f.denseGap)
		if experts > 0 {
			need += experts*f.cellW + (experts-1)/f.every*f.gap
		} else {
			need -= f.denseGap // the last column has no gap behind it
		}
		if need <= w {
			l.parts = f.parts > 1
			l.place(g, f.denseW, f.denseGap, f.cellW/f.parts, f.gap, f.every, f.parts)
			return
		}
	}
	// Buckets: of experts, and of dense columns too where they alone would take
	// more than half of the room.
	room := w
	if experts > 0 {
		room = max(w/2, 1)
	}
	perDense := max((g.Dense+room-1)/room, 1)
	denseCols := (g.Dense + perDense - 1) / perDense
	gap := 0
	if denseCols > 0 && experts > 0 {
		gap = 1
	}
	room = max(w-denseCols-gap, 1)
	l.perCol = max((experts+room-1)/room, 1)
	l.bucket(g, perDense)
}

// place lays the columns out from the left, with a gap after every few experts.
func (l *heatLayout) place(g *Grid, denseW, denseGap, cellW, gap, every, parts int) {
	x := l.labelW
	for c := range g.Dense {
		if c > 0 && g.Cols[c].Group != g.Cols[c-1].Group {
			x++
		}
		l.add(g, x, c, c+1, denseW, -1)
		x += denseW + denseGap
	}
	if g.Dense > 0 {
		x++
	}
	for c := g.Dense; c < len(g.Cols); c++ {
		for p := range parts {
			part := p
			if parts == 1 {
				part = -1
			}
			l.add(g, x, c, c+1, cellW, part)
			x += cellW
		}
		if (c-g.Dense+1)%every == 0 {
			x += gap
		}
	}
}

// bucket lays columns out that stand for several of the grid, one cell each.
func (l *heatLayout) bucket(g *Grid, perDense int) {
	x := l.labelW
	for c := 0; c < g.Dense; c += perDense {
		l.add(g, x, c, min(c+perDense, g.Dense), 1, -1)
		x++
	}
	if g.Dense > 0 {
		x++
	}
	for c := g.Dense; c < len(g.Cols); c += l.perCol {
		l.add(g, x, c, min(c+l.perCol, len(g.Cols)), 1, -1)
		x++
	}
}

// add appends a column that stands for columns from to to−1 of the grid.
func (l *heatLayout) add(g *Grid, x, from, to, w, part int) {
	if l.first == nil {
		l.first = make([]int32, len(g.Cols))
	}
	if part <= 0 {
		for c := from; c < to; c++ {
			l.first[c] = int32(len(l.cols))
		}
	}
	l.cols = append(l.cols, heatCol{x, w, from, to, part})
}

// fitRows chooses how high rows are in h lines, or how many layers share one.
func (l *heatLayout) fitRows(n, h int, solid bool) {
	h = max(h, 1)
	cell := 1
	if len(l.cols) > 0 {
		c := l.cols[len(l.cols)-1]
		cell = c.w
		if c.part > 0 {
			cell *= c.part + 1
		}
	}
	tallest := max((cell+3)/2, 2) // a cell of the screen is about twice as high as wide
	// With much room cells grow beyond the square, up to two thirds of the height.
	tallest = max(tallest, min(2*cell, (2*h/3+1)/n-1))
	l.rows = n
	switch {
	case 2*n <= h+1:
		l.gapH = 1
		if h+1-n*(tallest+1) < spareLines {
			tallest++ // too little would be left over to be of use
		}
		l.cellH = min((h+1)/n-1, tallest)
	case n <= h:
	case solid:
		l.half = true
		l.perRow = (n + 2*h - 1) / (2 * h)
	default:
		l.perRow = (n + h - 1) / h
	}
	l.rows = (n + l.perRow - 1) / l.perRow
}

// cellAt is the cell under (x, y); in the gap between two, the one before it.
func (l *heatLayout) cellAt(x, y int) (row, col int, ok bool) {
	if x < l.labelW || x >= l.w || y < l.top || y >= l.h || len(l.cols) == 0 {
		return 0, 0, false
	}
	if l.half {
		row = 2 * (y - l.top)
	} else {
		row = (y - l.top) / (l.cellH + l.gapH)
	}
	if row >= l.rows {
		return 0, 0, false
	}
	for i, c := range l.cols {
		if c.x > x {
			break
		}
		col = i
	}
	last := l.cols[len(l.cols)-1]
	return row, col, x <= last.x+last.w
}

// used is the width that the map really takes.
func (l *heatLayout) used() int {
	if len(l.cols) == 0 {
		return 0
	}
	last := l.cols[len(l.cols)-1]
	return last.x + last.w
}
