package candidate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"quantscope/analysis/model"
	"quantscope/kernels"
)

// pair is one matrix, or several over one another, in the reference and in the
// candidate.
type pair struct {
	set             kernels.Set
	places          []model.Place
	names           []string
	rows, cols      int // of all places together
	each            int // rows of one
	ref, c          []model.Weight
	normsRef, norms []float64 // of rows
	before          float64   // relative error as stored
}

// load reads matrices of one shape and measures them; nil where the shapes differ.
// Weights are the sources' until they are released.
func (x *comparing) load(ctx context.Context, places ...model.Place) (*pair, error) {
	x.release()
	p := &pair{set: x.set, places: places}
	for _, at := range places {
		w, err := x.ref.Weight(ctx, at)
		if err != nil {
			return nil, err
		}
		v, err := x.c.Weight(ctx, at)
		if err != nil {
			return nil, err
		}
		if w.Rows != v.Rows || w.Cols != v.Cols || len(p.ref) > 0 && (w.Rows != p.each || w.Cols != p.cols) {
			return nil, nil
		}
		p.each, p.cols = w.Rows, w.Cols
		p.rows += w.Rows
		p.ref, p.c, p.names = append(p.ref, w), append(p.c, v), append(p.names, x.names[at])
	}
	var e2, w2 float64
	other := make([]float32, p.cols)
	for k := range p.ref {
		err := eachRows(x.set, p.ref[k], 1, func(first int, rows []float32) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			for r := 0; r < len(rows)/p.cols; r++ {
				row := rows[r*p.cols:][:p.cols]
				if err := x.set.ExpandRows(other, p.c[k].Operand, first+r); err != nil {
					return err
				}
				de, dw := distance(row, other)
				_, dv := distance(other, other)
				e2, w2 = e2+de, w2+dw
				p.normsRef, p.norms = append(p.normsRef, math.Sqrt(dw)), append(p.norms, math.Sqrt(dv))
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("candidate: %s: %w", p.names[k], err)
		}
	}
	p.before = math.Sqrt(e2 / w2)
	return p, nil
}

// as is the pair as a permutation.
func (p *pair) as(order []int32, name string) *permutation {
	moved := 0
	for r, from := range order {
		if int(from) != r {
			moved++
		}
	}
	after, err := p.error(order)
	if err != nil {
		after = math.NaN()
	}
	return &permutation{places: p.places, names: p.names, order: order, name: name, moved: moved, before: p.before, after: after}
}

// error is the relative error with row r of the reference held against row
// order[r] of the candidate.
func (p *pair) error(order []int32) (float64, error) {
	a, b := make([]float32, p.cols), make([]float32, p.cols)
	var e2, w2 float64
	for r, from := range order {
		if err := p.row(a, p.ref, r); err != nil {
			return 0, err
		}
		if err := p.row(b, p.c, int(from)); err != nil {
			return 0, err
		}
		de, dw := distance(a, b)
		e2, w2 = e2+de, w2+dw
	}
	return math.Sqrt(e2 / w2), nil
}

// explains says whether an order brings the candidate close to the reference. A
// few rows are tried first.
func (p *pair) explains(order []int32) bool {
	a, b := make([]float32, p.cols), make([]float32, p.cols)
	var e2, w2 float64
	for k := range min(sampleRows, p.rows) {
		r := (k*p.rows + p.rows/2) / min(sampleRows, p.rows)
		r = min(r+k%7, p.rows-1)
		if p.row(a, p.ref, r) != nil || p.row(b, p.c, int(order[r])) != nil {
			return false
		}
		de, dw := distance(a, b)
		e2, w2 = e2+de, w2+dw
	}
	limit := explained * p.before
	if !(e2 < limit*limit*w2) {
		return false
	}
	after, err := p.error(order)
	return err == nil && after < limit
}

// row expands a row of matrices over one another.
func (p *pair) row(dst []float32, of []model.Weight, r int) error {
	return p.set.ExpandRows(dst, of[r/p.each].Operand, r%p.each)
}

// sortedNormsMatch says whether the rows have the same norms in some order, as
// far as quantizing may change them.
func sortedNormsMatch(a, b []float64) bool {
	x, y := slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	for i := len(x) / 4; i < max(len(x)/4+1, len(x)*3/4); i++ {
		if !(math.Abs(x[i]-y[i]) <= sameNorm*max(x[i], y[i])) {
			return false
		}
	}
	return len(x) > 0
}

// Bounds of matching rows: rows that are compared at once, and how many at most.
const (
	matchSlab = 512
	mostRows  = 1 << 16
)

// match finds for every row of the reference the row of the candidate that it is,
// nil where rows have no such partners: each must be the other's alone, by the
// largest cosine.
func (p *pair) match() ([]int32, error) {
	set := p.set
	if p.rows > mostRows || len(p.ref) != 1 {
		return nil, nil
	}
	order := make([]int32, p.rows)
	best := make([]float64, p.rows)
	taken := make([]int32, p.rows) // of each row of the candidate, the row of the reference that has it
	for i := range taken {
		order[i], taken[i] = -1, -1
	}
	slab := make([]float32, min(matchSlab, p.rows)*p.cols)
	products := make([]float32, min(matchSlab, p.rows)*p.rows)
	for first := 0; first < p.rows; first += matchSlab {
		n := min(matchSlab, p.rows-first)
		if err := set.ExpandRows(slab[:n*p.cols], p.ref[0].Operand, first); err != nil {
			return nil, err
		}
		err := set.GEMM(
			kernels.Dense{Rows: n, Cols: p.rows, Stride: p.rows, Data: products},
			kernels.DenseOperand(kernels.Dense{Rows: n, Cols: p.cols, Stride: p.cols, Data: slab}),
			p.c[0].Operand.T(), kernels.GEMMOptions{})
		if err != nil {
			return nil, err
		}
		for r := range n {
			for c, dot := range products[r*p.rows:][:p.rows] {
				if cos := float64(dot) / p.norms[c]; order[first+r] < 0 || cos > best[first+r] {
					order[first+r], best[first+r] = int32(c), cos
				}
			}
		}
	}
	byCosine := make([]int32, p.rows)
	for r := range byCosine {
		byCosine[r] = int32(r)
		best[r] /= p.normsRef[r]
	}
	slices.SortStableFunc(byCosine, func(a, b int32) int { return cmp.Compare(best[b], best[a]) })
	var left []int32
	for _, r := range byCosine {
		if c := order[r]; best[r] > leastCosine && taken[c] < 0 {
			taken[c] = r
			continue
		}
		left = append(left, r)
	}
	if len(left) > p.rows/64 { // a few may be zero or equal to others
		return nil, nil
	}
	slices.Sort(left)
	for c, r := range taken {
		if r < 0 {
			order[left[0]] = int32(c)
			left = left[1:]
		}
	}
	if !p.explains(order) {
		return nil, nil
	}
	return order, nil
}

// turnedRows are how many rows tell columns apart.
const turnedRows = 256

// turned is the transpose of some of the rows, to match columns by.
func (p *pair) turned() (*pair, error) {
	n := min(turnedRows, p.each)
	if len(p.ref) != 1 || p.cols > mostRows {
		return &pair{rows: math.MaxInt}, nil
	}
	t := &pair{set: p.set, places: p.places, names: p.names, rows: p.cols, each: p.cols, cols: n, before: p.before}
	row := make([]float32, p.cols)
	for _, of := range []struct {
		from  model.Weight
		to    *[]model.Weight
		norms *[]float64
	}{{p.ref[0], &t.ref, &t.normsRef}, {p.c[0], &t.c, &t.norms}} {
		data := make([]float32, p.cols*n)
		sums := make([]float64, p.cols)
		for k := range n {
			if err := p.set.ExpandRows(row, of.from.Operand, k*p.each/n); err != nil {
				return nil, err
			}
			for c, v := range row {
				data[c*n+k] = v
				sums[c] += float64(v) * float64(v)
			}
		}
		for c := range sums {
			sums[c] = math.Sqrt(sums[c])
		}
		*of.norms = sums
		*of.to = []model.Weight{{Rows: p.cols, Cols: n, Operand: kernels.DenseOperand(kernels.Dense{Rows: p.cols, Cols: n, Stride: n, Data: data})}}
	}
	return t, nil
}

// leastCosine is what a row has with itself after any quantizing that a model
// survives.
const leastCosine = 0.7
