package align

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/zeebo/xxh3"

	"quantscope/kernels"
	"quantscope/quant/topology"
)

// Thresholds of matching rows. Quantizing to four bits gives relative errors of about
// 0.1; rows of another order √2 times the root of their share.
const (
	farOff       = 0.35    // relative error from which an order is looked for
	explained    = 0.5     // it must bring the error below this times what it was
	leastCosine  = 0.7     // of a row with itself, after any quantizing that a model survives
	sampleRows   = 48      // that a known order is tried on first
	matchColumns = 1024    // that rows are matched by
	matchSlab    = 512     // rows that are matched at once
	mostRows     = 1 << 16 // of a matrix that is matched
)

// byRows looks for another order of rows in what is far off.
func (l *layer) byRows(ctx context.Context, w *worker, p *pair) error {
	before := p.stored
	if p.undo.any() {
		s, err := w.pass(ctx, p, &p.undo, nil)
		if err != nil {
			return err
		}
		before = s
	}
	if !(before.relL2() > farOff) {
		return nil
	}
	order, name, err := l.order(ctx, w, p, before.relL2())
	if err != nil {
		return err
	}
	if order == nil {
		return nil
	}
	p.undo.order = order
	p.undo.words = append(p.undo.words, name+": put back")
	return nil
}

// order finds the order of rows that explains a matrix; nil where none does.
func (l *layer) order(ctx context.Context, w *worker, p *pair, before float64) (order []int32, name string, err error) {
	heads, width := l.heads(p.a)
	if heads > 0 && width%2 == 0 {
		for _, toPairs := range []bool{true, false} {
			order := rotaryOrder(heads, width, l.rotary(width), toPairs)
			ok, err := l.tried(ctx, w, p, order, before)
			if err != nil {
				return nil, "", err
			}
			if ok {
				how := "halves stand as pairs"
				if !toPairs {
					how = "pairs stand as halves"
				}
				return order, fmt.Sprintf("rotary rows of %d heads of %d: %s", heads, width, how), nil
			}
		}
	}
	if p.a.Rows > mostRows {
		return nil, "", nil
	}
	if order, err = w.sameRows(ctx, p); err != nil {
		return nil, "", err
	}
	if order == nil {
		if order, err = w.matchRows(ctx, p); err != nil || order == nil {
			return nil, "", err
		}
	}
	ok, err := l.tried(ctx, w, p, order, before)
	if err != nil || !ok {
		return nil, "", err
	}
	return order, orderName(order, heads, width), nil
}

// heads are how the rows of a projection fall into heads; 0 where they do not.
func (l *layer) heads(t *Tensor) (heads, width int) {
	c := l.config
	if t.Role.Kind != topology.Attention || c.Heads == 0 {
		return 0, 0
	}
	switch t.Role.Projection {
	case "q":
		heads = c.Heads
	case "k", "v":
		heads = c.KVHeads
	}
	if heads == 0 || t.Rows%heads != 0 {
		return 0, 0
	}
	return heads, t.Rows / heads
}

// rotary is how many rows of a head are rotated.
func (l *layer) rotary(width int) int {
	if f := l.config.Rope.Partial; f > 0 && f < 1 {
		return int(float64(width) * f)
	}
	return width
}

// rotaryOrder is where rows of halves stand among pairs, or the other way round: row
// k of half h of the first turned rows of a head is row 2k+h of pairs.
func rotaryOrder(heads, width, turned int, toPairs bool) []int32 {
	order := make([]int32, heads*width)
	half := turned / 2
	for h := range heads {
		for r := range width {
			from := r
			switch {
			case r >= 2*half:
			case toPairs:
				from = 2*(r%half) + r/half
			default:
				from = r%2*half + r/2
			}
			order[h*width+r] = int32(h*width + from)
		}
	}
	return order
}

// tried says whether an order explains a matrix, some rows of it first.
func (l *layer) tried(ctx context.Context, w *worker, p *pair, order []int32, before float64) (bool, error) {
	few := *p
	n := min(sampleRows, p.a.Rows)
	rows := make([]int32, n)
	for k := range rows {
		rows[k] = int32(min(k*p.a.Rows/n+k%7, p.a.Rows-1))
	}
	a, b := *p.a, *p.b
	a.Rows, b.Rows = n, n
	a.rows, b.rows = &some{p.a, rows}, &some{p.b, pick(order, rows)}
	few.a, few.b = &a, &b
	u := undo{cols: p.undo.cols}
	if p.undo.rows != nil {
		u.rows = make([]float64, n)
		for k, r := range rows {
			u.rows[k] = p.undo.rows[r]
		}
	}
	s, err := w.pass(ctx, &few, &u, nil)
	if err != nil || !(s.relL2() < explained*before) {
		return false, err
	}
	u = undo{cols: p.undo.cols, rows: p.undo.rows, order: order}
	s, err = w.pass(ctx, p, &u, nil)
	return s.relL2() < explained*before, err
}

func pick(order, rows []int32) []int32 {
	out := make([]int32, len(rows))
	for k, r := range rows {
		out[k] = order[r]
	}
	return out
}

// some are rows of a tensor, in any order.
type some struct {
	t    *Tensor
	rows []int32
}

func (s *some) read(ctx context.Context, w *scratch, first int, dst []float32) error {
	for k := range len(dst) / s.t.Cols {
		if err := s.t.rows.read(ctx, w, int(s.rows[first+k]), dst[k*s.t.Cols:][:s.t.Cols]); err != nil {
			return err
		}
	}
	return nil
}

// eachRow reads all rows of one side, with columns put right in the candidate's.
func (w *worker) eachRow(ctx context.Context, p *pair, candidate bool, use func(r int, row []float32)) error {
	t, s := p.a, &w.a
	if candidate {
		t, s = p.b, &w.b
	}
	step := chunkRows(p)
	for first := 0; first < t.Rows; first += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(step, t.Rows-first)
		w.wa = grow(w.wa, n*t.Cols)
		if err := t.rows.read(ctx, s, first, w.wa); err != nil {
			return err
		}
		for r := range n {
			row := w.wa[r*t.Cols:][:t.Cols]
			if candidate && p.undo.cols != nil {
				for c := range row {
					row[c] = float32(float64(row[c]) / p.undo.cols[c])
				}
			}
			use(first+r, row)
		}
	}
	return nil
}

// sameRows finds each row of the master among the candidate's by its bits; nil where
// one has no partner.
func (w *worker) sameRows(ctx context.Context, p *pair) ([]int32, error) {
	at := map[uint64][]int32{}
	var raw []byte
	hash := func(row []float32) uint64 {
		raw = raw[:0]
		for _, v := range row {
			if v == 0 {
				v = 0 // no sign
			}
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
		return xxh3.Hash(raw)
	}
	if err := w.eachRow(ctx, p, true, func(r int, row []float32) { h := hash(row); at[h] = append(at[h], int32(r)) }); err != nil {
		return nil, err
	}
	order, found := make([]int32, p.a.Rows), true
	err := w.eachRow(ctx, p, false, func(r int, row []float32) {
		h := hash(row)
		if len(at[h]) == 0 {
			found = false
			return
		}
		order[r], at[h] = at[h][0], at[h][1:]
	})
	if err != nil || !found {
		return nil, err
	}
	return order, nil
}

// matchRows finds each row of the master among the candidate's by the largest cosine,
// over some columns; nil where rows have no partners of their own.
func (w *worker) matchRows(ctx context.Context, p *pair) ([]int32, error) {
	cols := min(p.a.Cols, matchColumns)
	a, err := w.narrow(ctx, p, false, cols)
	if err != nil {
		return nil, err
	}
	b, err := w.narrow(ctx, p, true, cols)
	if err != nil {
		return nil, err
	}
	rows := p.a.Rows
	order, best, taken := make([]int32, rows), make([]float32, rows), make([]int32, rows)
	for i := range taken {
		order[i], taken[i] = -1, -1
	}
	products := make([]float32, min(matchSlab, rows)*rows)
	operand := kernels.DenseOperand(kernels.Dense{Rows: rows, Cols: cols, Stride: cols, Data: b}).T()
	for first := 0; first < rows; first += matchSlab {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := min(matchSlab, rows-first)
		err := set.GEMM(kernels.Dense{Rows: n, Cols: rows, Stride: rows, Data: products},
			kernels.DenseOperand(kernels.Dense{Rows: n, Cols: cols, Stride: cols, Data: a[first*cols:][:n*cols]}), operand, kernels.GEMMOptions{Threads: 1})
		if err != nil {
			return nil, fmt.Errorf("align: %s: %w", p.a.Name, err)
		}
		for r := range n {
			for c, cos := range products[r*rows:][:rows] {
				if order[first+r] < 0 || cos > best[first+r] {
					order[first+r], best[first+r] = int32(c), cos
				}
			}
		}
	}
	byCosine := make([]int32, rows)
	for r := range byCosine {
		byCosine[r] = int32(r)
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
	if len(left) > rows/64 { // a few may be zero, or equal to others
		return nil, nil
	}
	slices.Sort(left)
	for c, r := range taken {
		if r < 0 {
			order[left[0]] = int32(c)
			left = left[1:]
		}
	}
	return order, nil
}

// narrow are some columns of all rows, of length 1.
func (w *worker) narrow(ctx context.Context, p *pair, candidate bool, cols int) ([]float32, error) {
	out := make([]float32, p.a.Rows*cols)
	return out, w.eachRow(ctx, p, candidate, func(r int, row []float32) {
		to, sum := out[r*cols:][:cols], 0.0
		for c := range to {
			to[c] = row[c*len(row)/cols]
			sum += float64(to[c]) * float64(to[c])
		}
		if !(sum > 0) || math.IsInf(sum, 0) {
			clear(to)
			return
		}
		scale := float32(1 / math.Sqrt(sum))
		for c := range to {
			to[c] *= scale
		}
	})
}

// orderName names an order that rows were matched to.
func orderName(order []int32, heads, width int) string {
	moved := 0
	for r, from := range order {
		if int(from) != r {
			moved++
		}
	}
	name := fmt.Sprintf("%d of %d rows stand in an order that has no name", moved, len(order))
	if heads < 2 {
		return name
	}
	list := make([]int, heads)
	for h := range heads {
		first := order[h*width]
		for r := range width {
			if order[h*width+r] != first+int32(r) || first%int32(width) != 0 {
				return name
			}
		}
		list[h] = int(first) / width
	}
	if heads > 16 {
		return fmt.Sprintf("%d heads of %d stand in another order", heads, width)
	}
	return fmt.Sprintf("%d heads of %d stand in another order: the master's are %v", heads, width, list)
}
