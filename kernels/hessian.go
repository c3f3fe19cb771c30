package kernels

import (
	"errors"
	"fmt"
	"math"
)

// ErrNoData says that a Hessian is zero: no token reached the matrix.
var ErrNoData = errors.New("no input reached it: its hessian is zero")

// HessianError names the first entry of a Hessian, in the order of rows, that
// is not finite, or a diagonal that is negative.
type HessianError struct {
	Row, Col int
	Value    float32
}

func (e *HessianError) Error() string {
	if e.Row == e.Col && e.Value < 0 && !math.IsInf(float64(e.Value), 0) {
		return fmt.Sprintf("hessian: %v on its diagonal, at column %d", e.Value, e.Col)
	}
	return fmt.Sprintf("hessian: %v at row %d, column %d", e.Value, e.Row, e.Col)
}

// hessian is a checked one, with what its diagonal says.
type hessian struct {
	Dense
	mean float64 // of the diagonal where it is not 0
	dead []bool  // columns whose diagonal is 0
	live int
}

// checkHessian looks at the lower triangle in the order of rows.
func checkHessian(h Dense) (hessian, error) {
	if err := h.check(); err != nil {
		return hessian{}, fmt.Errorf("hessian: %w", err)
	}
	n := h.Cols
	if h.Rows != n {
		return hessian{}, fmt.Errorf("hessian: %d×%d is no square: %w", h.Rows, n, ErrShape)
	}
	x := hessian{Dense: h, dead: make([]bool, n)}
	sum := 0.0
	for r := range n {
		row := h.Data[r*h.Stride:][:r+1]
		var worst uint32
		for _, v := range row {
			worst = max(worst, math.Float32bits(v)&^signF32)
		}
		if worst >= infF32 {
			for c, v := range row {
				if math.Float32bits(v)&^signF32 >= infF32 {
					return x, &HessianError{Row: r, Col: c, Value: v}
				}
			}
		}
		switch v := row[r]; {
		case v < 0:
			return x, &HessianError{Row: r, Col: r, Value: v}
		case v == 0:
			x.dead[r] = true
		default:
			sum += float64(v)
			x.live++
		}
	}
	if x.live > 0 {
		x.mean = sum / float64(x.live)
	}
	return x, nil
}

// at is an element of the lower triangle, 0 where a column is dead.
func (h *hessian) at(i, j int) float64 {
	if h.dead[i] || h.dead[j] {
		return 0
	}
	return float64(h.Data[max(i, j)*h.Stride+min(i, j)])
}

// fill puts H, its columns in an order, into panels: D⁻¹·H·D⁻¹ for a scale D
// that is not nil. diagonal is added; a dead column has nothing else.
func (h *hessian) fill(t *triangle, order []int, scale []float64, diagonal float64, threads int) {
	const rows = 32 // whose places in a panel stay in the first-level cache
	plain := order == nil && h.live == t.n
	eachTask(threads, ceilDiv(t.n, rows), func(task int) {
		first := task * rows
		last := min(first+rows, t.n)
		for p := first / factorBlock; p < len(t.panels); p++ {
			start, end := t.span(p)
			panel := t.panels[p]
			clear(panel[first*factorBlock : last*factorBlock])
			for c := max(start, first); c < end; c++ {
				if upTo := min(last, c+1); plain {
					for i, x := range h.Data[c*h.Stride+first : c*h.Stride+upTo] {
						panel[(first+i)*factorBlock+c-start] = float64(x)
					}
				} else {
					h.fillColumn(panel[c-start:], order, first, upTo, c)
				}
			}
		}
		for i := first; i < last; i++ {
			h.finishRow(t, i, order, scale, diagonal)
		}
	})
}

// fillColumn puts elements first … last−1 of column c, in an order, where they
// belong.
func (h *hessian) fillColumn(dst []float64, order []int, first, last, c int) {
	if order == nil {
		for i := first; i < last; i++ {
			dst[i*factorBlock] = h.at(i, c)
		}
		return
	}
	for i := first; i < last; i++ {
		dst[i*factorBlock] = h.at(order[i], order[c])
	}
}

// finishRow scales a row of the panels and adds to its diagonal.
func (h *hessian) finishRow(t *triangle, i int, order []int, scale []float64, diagonal float64) {
	for p := i / factorBlock; scale != nil && p < len(t.panels); p++ {
		start, end := t.span(p)
		row := t.panels[p][i*factorBlock:][:end-start]
		for c := max(start, i) - start; c < len(row); c++ {
			if a, b := place(order, i), place(order, start+c); row[c] != 0 {
				row[c] /= scale[a] * scale[b]
			}
		}
	}
	t.panels[i/factorBlock][i*factorBlock+i%factorBlock] += diagonal
}

// place is the matrix's own column at a place in an order.
func place(order []int, k int) int {
	if order == nil {
		return k
	}
	return order[k]
}

// checkOrder makes sure that an order has each column once.
func checkOrder(order []int, n int) error {
	if order == nil {
		return nil
	}
	if len(order) != n {
		return fmt.Errorf("an order of %d for %d columns: %w", len(order), n, ErrShape)
	}
	seen := make([]bool, n)
	for _, c := range order {
		if c < 0 || c >= n || seen[c] {
			return fmt.Errorf("an order that has column %d twice, or where there is none: %w", c, ErrRange)
		}
		seen[c] = true
	}
	return nil
}
