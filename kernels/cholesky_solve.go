package kernels

// solveWidth is how many right-hand sides are solved at once.
const solveWidth = 16

// solveUpper solves M·Z = B in place for solveWidth right-hand sides, row by
// row in z, whose rows from last on are 0.
func (k *factorKernels) solveUpper(t *triangle, z []float64, last int) {
	packed := make([]float64, factorBlock*solveWidth)
	for p := ceilDiv(last, factorBlock) - 1; p >= 0; p-- {
		start, end := t.span(p)
		m := t.panels[p]
		for c := end - 1; c > start; c-- {
			x := z[c*solveWidth:][:solveWidth]
			for i := start; i < c; i++ {
				axpy16(z[i*solveWidth:], x, -m[i*factorBlock+c-start])
			}
		}
		if start == 0 {
			continue
		}
		for j := 0; j < solveWidth; j += k.tileCols {
			for i := start; i < end; i++ {
				copy(packed[j*(end-start)+(i-start)*k.tileCols:][:k.tileCols], z[i*solveWidth+j:])
			}
		}
		k.multiply(start, solveWidth, end-start, m, factorBlock, packed, z, solveWidth)
	}
}

// axpy16 is y += f·x.
func axpy16(y, x []float64, f float64) {
	y, x = y[:solveWidth], x[:solveWidth]
	for i := range y {
		y[i] += f * x[i]
	}
}

// solve solves M·D·Mᵀ·x = b in place.
func (t *triangle) solve(x []float64) {
	for p := len(t.panels) - 1; p >= 0; p-- {
		_, end := t.span(p)
		t.eachRow(p, func(i int, row []float64) {
			x[i] -= dot64(row, x[end-len(row):end])
		})
	}
	for i, d := range t.d {
		x[i] /= d
	}
	for p := range t.panels {
		start, end := t.span(p)
		sums := make([]float64, end-start)
		for i := range start {
			row, y := t.panels[p][i*factorBlock:][:end-start], x[i]
			for c, m := range row {
				sums[c] += m * y
			}
		}
		for c := range sums {
			x[start+c] -= sums[c]
		}
		for i := start; i < end; i++ {
			row, y := t.panels[p][i*factorBlock:][:end-start], x[i]
			for c := i - start + 1; c < end-start; c++ {
				x[start+c] -= row[c] * y
			}
		}
	}
}

// eachRow calls f with every row of a panel from the last to the first, and
// of the row what is behind the diagonal.
func (t *triangle) eachRow(p int, f func(i int, row []float64)) {
	start, end := t.span(p)
	for i := end - 1; i >= 0; i-- {
		row := t.panels[p][i*factorBlock:][:end-start]
		f(i, row[max(i+1-start, 0):])
	}
}
