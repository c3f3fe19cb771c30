package kernels

import (
	"fmt"
	"math"
)

// errorRows is how many rows are measured at a time: what they are multiplied by
// is packed once for all of them.
const errorRows = 256

// OutputError is tr((W−Q)·H·(W−Q)ᵀ) and tr(W·H·Wᵀ) over the rows named; nil: all.
// Only the lower triangle of H is read. Everything is f64, since errors that GPTQ
// has made lie where H is small, so that most of a product cancels.
// An element of w that is not finite counts as 0, without an error.
//
// It takes n² multiply-adds a row. A row's sum is made block of columns by
// block, and rows are added in their order: threads make no difference.
func (s Set) OutputError(h Dense, w, q Operand, rows []int, threads int) (e2, w2 float64, err error) {
	s = s.orReference()
	x, err := checkHessian(h)
	if err != nil {
		return 0, 0, err
	}
	n, cols := w.Dims()
	if qr, qc := q.Dims(); qr != n || qc != cols || cols != h.Cols || w.transposed || q.transposed {
		return 0, 0, fmt.Errorf("output error of %d×%d by %d×%d under a hessian of %d: %w", n, cols, qr, qc, h.Cols, ErrShape)
	}
	if err := checkFactors(Dense{}, w, q); err != nil {
		return 0, 0, err
	}
	for _, r := range rows {
		if r < 0 || r >= n {
			return 0, 0, fmt.Errorf("output error of row %d of %d: %w", r, n, ErrRange)
		}
	}
	if rows != nil {
		n = len(rows)
	}
	if cols == 0 {
		return 0, 0, nil
	}
	j := errorJob{set: s, h: &x, w: w, q: q, threads: threadCount(threads), cols: cols}
	for first := 0; first < n; first += errorRows {
		some := min(errorRows, n-first)
		if err := j.load(rows, first, some); err != nil {
			return 0, 0, err
		}
		e, own := j.measure(some)
		for r := range some {
			e2 += e[r]
			w2 += own[r]
		}
	}
	return e2, w2, nil
}

// errorJob measures rows.
type errorJob struct {
	set     Set
	h       *hessian
	w, q    Operand
	threads int
	cols    int
	both    []float64 // errors of the rows, then the rows themselves
	a, b    []float32
}

// load expands rows and takes their errors.
func (j *errorJob) load(rows []int, first, some int) error {
	n := j.cols
	j.a, j.b = resize(j.a, some*n), resize(j.b, some*n)
	j.both = resize(j.both, 2*some*n)
	for r := 0; r < some; {
		at, run := first+r, some-r
		if rows != nil { // rows that follow each other are expanded together
			at, run = rows[first+r], 1
			for r+run < some && rows[first+r+run] == at+run {
				run++
			}
		}
		if err := j.set.ExpandRows(j.a[r*n:(r+run)*n], j.w, at); err != nil {
			return err
		}
		if err := j.set.ExpandRows(j.b[r*n:(r+run)*n], j.q, at); err != nil {
			return err
		}
		r += run
	}
	errs, own := j.both[:some*n], j.both[some*n:]
	eachTask(j.threads, some, func(r int) {
		for i := r * n; i < (r+1)*n; i++ {
			errs[i], own[i] = 0, 0
			if w := j.a[i]; math.Float32bits(w)&^signF32 < infF32 {
				errs[i], own[i] = float64(w)-float64(j.b[i]), float64(w)
			}
		}
	})
	return nil
}

// measure gives the sums of each row. With H = L + diagonal + Lᵀ a row's x·H·xᵀ
// is that of the squares on the diagonal and twice the blocks below them.
func (j *errorJob) measure(some int) (e2, w2 []float64) {
	n, k := j.cols, &j.set.factor
	blocks := ceilDiv(n, factorBlock)
	sums := make([]float64, blocks*2*some)
	eachTask(j.threads, blocks, func(b int) {
		start, end := b*factorBlock, min((b+1)*factorBlock, n)
		acc := make([]float64, 2*some*factorBlock)
		packed := make([]float64, factorBlock*factorBlock)
		for from := start; from < n; from += factorBlock {
			to := min(from+factorBlock, n)
			j.packBlock(packed, from, to, start, end)
			k.multiply(2*some, factorBlock, to-from, j.both[from:], n, packed, acc, factorBlock)
		}
		for r := range 2 * some {
			sum := 0.0
			x := j.both[r*n+start : r*n+end]
			for i, y := range acc[r*factorBlock:][:len(x)] {
				sum -= x[i] * y
			}
			sums[b*2*some+r] = sum
		}
	})
	totals := make([]float64, 2*some)
	for b := range blocks {
		for r := range totals {
			totals[r] += sums[b*2*some+r]
		}
	}
	return totals[:some], totals[some:]
}

// packBlock packs rows from … of H, columns start …, for multiply; twice those
// below the square on the diagonal.
func (j *errorJob) packBlock(dst []float64, from, to, start, end int) {
	width, depth := j.set.factor.tileCols, to-from
	for c0 := 0; c0 < factorBlock; c0 += width {
		panel := dst[c0*depth:][:width*depth]
		some := min(max(end-start-c0, 0), width)
		if some < width {
			clear(panel)
		}
		for i := from; i < to; i++ {
			row := panel[(i-from)*width:][:some]
			if from == start || j.h.live < j.cols {
				twice := 2.0
				if from == start {
					twice = 1
				}
				for c := range row {
					row[c] = twice * j.h.at(i, start+c0+c)
				}
				continue
			}
			for c, x := range j.h.Data[i*j.h.Stride+start+c0:][:some] {
				row[c] = 2 * float64(x)
			}
		}
	}
}
