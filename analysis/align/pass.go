package align

import (
	"context"
	"math"
)

// pair is one tensor in both checkpoints.
type pair struct {
	a, b *Tensor // of the master, of the candidate

	stored stats        // as stored
	sums   *sums        // of a matrix, where there is something to explain
	values [2][]float64 // of a norm or a bias
	undo   undo
	final  stats // after that

	counted bool // as progress
}

// undo is what is undone in the candidate's tensor.
type undo struct {
	cols  []float64 // that its columns are divided by; nil for none
	rows  []float64 // that its rows are multiplied by; nil for none
	order []int32   // row r of the master is this one of the candidate's; nil for its own
	words []string  // that say so
	loose bool      // a scale is known by matrices that were rounded, not by a norm
}

func (u *undo) any() bool { return u.cols != nil || u.rows != nil || u.order != nil }

// stats are sums over the elements that are finite on both sides.
type stats struct {
	w2, q2, wq, e2, most float64
	n, different         int64 // elements, and those with another value
	nonFinite            int64 // on either side
}

// relL2 is ‖w−q‖/‖w‖; 0 where the two are equal.
func (s *stats) relL2() float64 {
	if s.e2 == 0 {
		return 0
	}
	return math.Sqrt(s.e2 / s.w2)
}

func (s *stats) cos() float64 {
	if s.w2 == 0 && s.q2 == 0 {
		return 1
	}
	return s.wq / (math.Sqrt(s.w2) * math.Sqrt(s.q2))
}

func (s *stats) add(o *stats) {
	s.w2, s.q2, s.wq, s.e2 = s.w2+o.w2, s.q2+o.q2, s.wq+o.wq, s.e2+o.e2
	s.most = max(s.most, o.most)
	s.n, s.different, s.nonFinite = s.n+o.n, s.different+o.different, s.nonFinite+o.nonFinite
}

// sums are Σw², Σw·q and Σq² of each column and of each row.
type sums struct{ col, row lines }

// lines are the sums of many columns, or of many rows.
type lines struct{ w2, wq, q2 []float64 }

func newLines(n int) lines {
	all := make([]float64, 3*n)
	return lines{all[:n:n], all[n : 2*n : 2*n], all[2*n:]}
}

// worker has the memory of one goroutine.
type worker struct {
	a, b   scratch
	wa, wb []float32
	q      []float64
	cache  []float32 // rows of the candidate in another order
	from   int       // the first of them; −1 for none
}

// chunkElements is about how much of a matrix is in memory at once, of each side.
const chunkElements = 1 << 18

// chunkRows is how many rows are read at once.
func chunkRows(p *pair) int {
	n := max(1, chunkElements/max(p.a.Cols, 1))
	for _, t := range []*Tensor{p.a, p.b} {
		if c, ok := t.rows.(*coded); ok {
			m := c.m.RowMultiple()
			n = max(m, n/m*m)
		}
	}
	return min(n, p.a.Rows)
}

// pass goes once through both tensors, with u undone. into may be nil.
func (w *worker) pass(ctx context.Context, p *pair, u *undo, into *sums) (total stats, err error) {
	cols, step := p.a.Cols, chunkRows(p)
	w.from = -1
	for first := 0; first < p.a.Rows; first += step {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		rows := min(step, p.a.Rows-first)
		w.wa, w.wb, w.q = grow(w.wa, rows*cols), grow(w.wb, rows*cols), grow(w.q, cols)
		if err := p.a.rows.read(ctx, &w.a, first, w.wa); err != nil {
			return total, err
		}
		if err := w.candidate(ctx, p, u.order, first, step); err != nil {
			return total, err
		}
		for r := range rows {
			row, q := w.wa[r*cols:][:cols], w.q[:cols]
			for c, v := range w.wb[r*cols:][:cols] {
				q[c] = float64(v)
			}
			if u.rows != nil {
				for c := range q {
					q[c] *= u.rows[first+r]
				}
			}
			if u.cols != nil {
				for c := range q {
					q[c] /= u.cols[c]
				}
			}
			s := w.row(row, q, into, first+r)
			total.add(&s)
		}
	}
	return total, nil
}

// row sums up one row.
func (w *worker) row(row []float32, q []float64, into *sums, r int) (s stats) {
	q = q[:len(row)]
	s.n = int64(len(row))
	for c, v := range row {
		x, y := float64(v), q[c]
		d := x - y
		if d-d != 0 {
			s.nonFinite++
			if x != y && (x == x || y == y) {
				s.different++
			}
			continue
		}
		if d != 0 {
			s.different++
			s.e2 += d * d
			s.most = max(s.most, math.Abs(d))
		}
		s.w2 += x * x
		s.wq += x * y
		s.q2 += y * y
		if into != nil {
			into.col.w2[c] += x * x
			into.col.wq[c] += x * y
			into.col.q2[c] += y * y
		}
	}
	if into != nil {
		into.row.w2[r], into.row.wq[r], into.row.q2[r] = s.w2, s.wq, s.q2
	}
	return s
}

// candidate reads the rows that the master's rows from first on are held against.
func (w *worker) candidate(ctx context.Context, p *pair, order []int32, first, step int) error {
	if order == nil {
		return p.b.rows.read(ctx, &w.b, first, w.wb)
	}
	cols := p.b.Cols
	for r := range len(w.wb) / cols {
		at := int(order[first+r])
		if from := at / step * step; w.from != from {
			w.from, w.cache = -1, grow(w.cache, min(step, p.b.Rows-from)*cols)
			if err := p.b.rows.read(ctx, &w.b, from, w.cache); err != nil {
				return err
			}
			w.from = from
		}
		copy(w.wb[r*cols:][:cols], w.cache[(at-w.from)*cols:])
	}
	return nil
}

// read reads all of a tensor of one row, or of few.
func read(ctx context.Context, w *scratch, t *Tensor) ([]float64, error) {
	raw := make([]float32, t.Rows*t.Cols)
	if err := t.rows.read(ctx, w, 0, raw); err != nil {
		return nil, err
	}
	out := make([]float64, len(raw))
	for i, v := range raw {
		out[i] = float64(v)
	}
	return out, nil
}
