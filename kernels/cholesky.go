package kernels

import (
	"math"
	"sync"
	"sync/atomic"
)

// A symmetric A is taken apart as A = M·D·Mᵀ with M unit upper triangular and D
// diagonal: a Cholesky decomposition that begins at the last column. It is kept
// in panels of factorBlock columns, each with its rows from the first to the
// last that can be other than 0, all in f64.
//
// Panels are made from the last to the first, each from those behind it, in
// steps of factorBlock and within a panel of factorStep columns:
//
//	C −= M[rows, k]·(D·M[columns, k])ᵀ for each later panel k, the nearest first
//
// (GPTQ wants M, not the inverse of anything.) An element's sum over one
// panel is a chain of fused multiply-adds in ascending order, taken off at once.
// Every set, thread count and cut gives the same bits.
const (
	factorBlock = 128
	factorStep  = 32
)

// factorKernels are what a set brings to factors.
type factorKernels struct {
	tileCols int // factorStep is a multiple of it
	// tile: C −= A·B; see factorTileRef.
	tile func(rows, depth int, a []float64, lda int, b []float64, c []float64, ldc int)
}

var factorRef = factorKernels{tileCols: 8, tile: factorTileRef}

// factorTileRef takes A·B off rows×tileCols elements of C: a[r·lda+k] times
// b[k·tileCols+j]. The sum of products is s = +0, s = fma(a, b, s) for
// ascending k; then c −= s.
func factorTileRef(rows, depth int, a []float64, lda int, b []float64, c []float64, ldc int) {
	const cols = 8
	for r := range rows {
		var s [cols]float64
		for k, x := range a[r*lda:][:depth] {
			for j, y := range b[k*cols:][:cols] {
				s[j] = math.FMA(x, y, s[j])
			}
		}
		row := c[r*ldc:][:cols]
		for j := range row {
			row[j] -= s[j]
		}
	}
}

// multiply is C −= A·B for any multiple of tileCols columns; b holds panels of
// tileCols columns of depth steps each.
func (k *factorKernels) multiply(rows, cols, depth int, a []float64, lda int, b []float64, c []float64, ldc int) {
	for j := 0; j < cols; j += k.tileCols {
		k.tile(rows, depth, a, lda, b[j*depth:], c[j:], ldc)
	}
}

// triangle is M and D, or what they are made of: panel p has rows 0 … min(n,
// (p+1)·factorBlock)−1 of factorBlock columns.
type triangle struct {
	n      int
	panels [][]float64
	d      []float64
}

func newTriangle(n int) *triangle {
	t := &triangle{n: n, panels: make([][]float64, ceilDiv(n, factorBlock)), d: make([]float64, n)}
	for p := range t.panels {
		_, end := t.span(p)
		t.panels[p] = make([]float64, end*factorBlock)
	}
	return t
}

// span are the columns of a panel, and the rows of its last square.
func (t *triangle) span(p int) (start, end int) {
	return p * factorBlock, min(t.n, (p+1)*factorBlock)
}

// eachTask runs tasks on up to threads goroutines.
func eachTask(threads, tasks int, f func(task int)) {
	if threads = min(threads, tasks); threads <= 1 {
		for i := range tasks {
			f(i)
		}
		return
	}
	var next atomic.Int64
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= tasks {
				return
			}
			f(i)
		}
	}
	var wg sync.WaitGroup
	for range threads - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// factorRows is how many rows of a panel are a task.
const factorRows = 112

// factorSpace is what a factorization packs into.
type factorSpace struct {
	later  []float64 // D·Mᵀ of a panel's columns, under each later panel
	square squareFactors
}

// squareFactors are packed from a panel's last square: for each step of
// columns what the later ones of the square take off it, and the inverse that
// then gives M.
type squareFactors struct {
	off [factorBlock / factorStep][]float64
	inv [factorBlock / factorStep][]float64
}

// zeroPivot is taken in the place of a pivot of 0, which is one of no sign.
const zeroPivot = -0x1p-200

// factor takes the matrix in the panels apart in place. A pivot below least
// stops it.
func (k *factorKernels) factor(t *triangle, least float64, threads int) bool {
	var w factorSpace
	last := len(t.panels) - 1
	w.later = make([]float64, max(last, 0)*factorBlock*factorBlock)
	for s := range w.square.off {
		w.square.off[s] = make([]float64, factorBlock*factorStep)
		w.square.inv[s] = make([]float64, factorStep*factorStep)
	}
	for p := last; p >= 0; p-- {
		start, end := t.span(p)
		eachTask(threads, last-p, func(i int) { k.packLater(t, p, p+1+i, w.later[i*factorBlock*factorBlock:]) })
		panel := t.panels[p]
		// The last square first: the rows above wait for its factors.
		update := func(from, to int) {
			for q := p + 1; q <= last; q++ {
				qs, qe := t.span(q)
				k.multiply(to-from, factorBlock, qe-qs, t.panels[q][from*factorBlock:], factorBlock, w.later[(q-p-1)*factorBlock*factorBlock:], panel[from*factorBlock:], factorBlock)
			}
		}
		eachTask(threads, ceilDiv(end-start, factorStep), func(i int) {
			from := start + i*factorStep
			update(from, min(from+factorStep, end))
		})
		if !k.factorSquare(panel[start*factorBlock:], end-start, t.d[start:end], least, &w.square) {
			return false
		}
		eachTask(threads, ceilDiv(start, factorRows), func(i int) {
			from := i * factorRows
			to := min(from+factorRows, start)
			update(from, to)
			k.solveRows(panel[from*factorBlock:], to-from, end-start, &w.square)
		})
	}
	return true
}

// packLater packs D·M[columns of p, panel q]ᵀ.
func (k *factorKernels) packLater(t *triangle, p, q int, dst []float64) {
	start, end := t.span(p)
	qs, qe := t.span(q)
	packScaled(dst, t.panels[q][start*factorBlock:], end-start, factorBlock, qe-qs, t.d[qs:qe], k.tileCols)
}

// packScaled packs rows of m as columns: panels of width of them with depth
// steps each, every step times scale. What is beyond the rows is 0.
func packScaled(dst, m []float64, rows, cols, depth int, scale []float64, width int) {
	for j0 := 0; j0 < cols; j0 += width {
		panel := dst[j0*depth:][:width*depth]
		for j := range width {
			if j0+j >= rows {
				for i := range depth {
					panel[i*width+j] = 0
				}
				continue
			}
			row := m[(j0+j)*factorBlock:][:depth]
			for i, x := range row {
				panel[i*width+j] = x * scale[i]
			}
		}
	}
}

// factorSquare takes the last square of a panel apart, n rows of it, and packs
// its factors. Steps of columns go from the last to the first.
func (k *factorKernels) factorSquare(m []float64, n int, d []float64, least float64, f *squareFactors) bool {
	for s := ceilDiv(n, factorStep) - 1; s >= 0; s-- {
		from, to := s*factorStep, min((s+1)*factorStep, n)
		if to < n {
			// What the later steps take off this one: rows from … of their columns.
			packScaled(f.off[s][:(n-to)*factorStep], m[from*factorBlock+to:], to-from, factorStep, n-to, d[to:], k.tileCols)
			k.multiply(to, factorStep, n-to, m[to:], factorBlock, f.off[s], m[from:], factorBlock)
		}
		if !factorStepRef(m[from*factorBlock+from:], to-from, d[from:to], least) {
			return false
		}
		k.packInverse(m[from*factorBlock+from:], to-from, d[from:to], f.inv[s])
		k.solveStep(m, from, from, to-from, f.inv[s])
	}
	return true
}

// factorStepRef takes up to factorStep columns apart, element by element.
func factorStepRef(m []float64, n int, d []float64, least float64) bool {
	var col [factorStep]float64
	for k := n - 1; k >= 0; k-- {
		pivot := m[k*factorBlock+k]
		if pivot == 0 {
			pivot = zeroPivot
		}
		if !(pivot >= least) || math.IsInf(pivot, 0) {
			return false
		}
		d[k] = pivot
		m[k*factorBlock+k] = 1
		for i := range k {
			col[i] = m[i*factorBlock+k]
			m[i*factorBlock+k] = col[i] / pivot
		}
		for i := range k {
			row, x := m[i*factorBlock:][:k], -(col[i] / pivot)
			for j := i; j < k; j++ {
				row[j] = math.FMA(x, col[j], row[j])
			}
		}
	}
	return true
}

// packInverse packs −(Uᵀ)⁻¹·D⁻¹ of a unit upper triangle: what makes M of the
// rows above it, with the sign of multiply.
func (k *factorKernels) packInverse(u []float64, n int, d []float64, dst []float64) {
	var inv [factorStep * factorStep]float64
	for i := n - 1; i >= 0; i-- {
		row := inv[i*factorStep:][:factorStep]
		row[i] = 1
		for j := i + 1; j < n; j++ {
			x, other := -u[i*factorBlock+j], inv[j*factorStep:][:n]
			for c := j; c < n; c++ {
				row[c] = math.FMA(x, other[c], row[c])
			}
		}
	}
	for j0 := 0; j0 < factorStep; j0 += k.tileCols {
		panel := dst[j0*n:]
		for i := range n {
			for j := range k.tileCols {
				panel[i*k.tileCols+j] = 0
				if at := j0 + j; at < n {
					panel[i*k.tileCols+j] = -inv[at*factorStep+i] / d[at]
				}
			}
		}
	}
}

// solveStep makes M of the rows before a step's own: columns from … of them
// hold what the later columns have left of A.
func (k *factorKernels) solveStep(m []float64, rows, from, n int, inv []float64) {
	var out [factorRows * factorStep]float64
	for r := 0; r < rows; r += factorRows {
		some := min(factorRows, rows-r)
		clear(out[:some*factorStep])
		k.multiply(some, factorStep, n, m[r*factorBlock+from:], factorBlock, inv, out[:], factorStep)
		for i := range some {
			copy(m[(r+i)*factorBlock+from:][:n], out[i*factorStep:])
		}
	}
}

// solveRows makes M of rows above a panel's last square, which has n columns.
func (k *factorKernels) solveRows(m []float64, rows, n int, f *squareFactors) {
	for s := ceilDiv(n, factorStep) - 1; s >= 0; s-- {
		from, to := s*factorStep, min((s+1)*factorStep, n)
		if to < n {
			k.multiply(rows, factorStep, n-to, m[to:], factorBlock, f.off[s], m[from:], factorBlock)
		}
		k.solveStep(m, rows, from, to-from, f.inv[s])
	}
}
