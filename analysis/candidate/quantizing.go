package candidate

import (
	"context"
	"runtime"
	"sync"

	"quantscope/analysis/model"
	"quantscope/kernels"
)

// quantizing is one matrix on its way into codes.
type quantizing struct {
	set     kernels.Set
	spec    kernels.Spec
	w       model.Weight
	amax    float32
	threads int
}

// leastPart is how many elements are worth a goroutine.
const leastPart = 1 << 16

// sizes are the lengths of what the whole matrix leaves.
func (q *quantizing) sizes() (sizes kernels.Sizes, multiple int, global float32, err error) {
	p, err := q.begin(q.w.Rows)
	if err != nil {
		return sizes, 0, 0, err
	}
	sizes, multiple, global = p.Sizes(q.w.Rows), p.RowMultiple(), p.Global()
	_, _ = p.Finish() // no rows came, which is an error, and was meant
	return sizes, multiple, global, nil
}

func (q *quantizing) size() (int64, error) {
	s, _, _, err := q.sizes()
	return int64(s.Codes) + int64(s.Scales) + int64(s.Mins), err
}

// begin begins a pass over some of the rows. Given the largest magnitude of all,
// it leaves of them what a pass over all rows leaves.
func (q *quantizing) begin(rows int) (*kernels.Pass, error) {
	e := kernels.F32
	if s, ok := q.w.Operand.Stored(); ok {
		e = s.Element
	}
	return q.set.Begin(q.spec, e, rows, q.w.Cols, q.amax)
}

// run makes the codes, in parts beside each other.
func (q *quantizing) run(ctx context.Context, room func(n int) []byte) (*coded, error) {
	sizes, multiple, global, err := q.sizes()
	if err != nil {
		return nil, err
	}
	out := kernels.Output{Codes: room(sizes.Codes), Scales: room(sizes.Scales), Mins: room(sizes.Mins)}
	c, err := newCoded(q.set, q.spec, q.w.Rows, q.w.Cols, 0, 0, out.Codes, out.Scales, out.Mins, global)
	if err != nil {
		return nil, err
	}
	threads := q.threads
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	parts := max(1, min(threads, q.w.Rows*q.w.Cols/leastPart))
	rows := ceil(ceil(q.w.Rows, parts), multiple) * multiple
	var wg sync.WaitGroup
	errs := make([]error, parts)
	for k := range parts {
		first := min(k*rows, q.w.Rows)
		n := min(rows, q.w.Rows-first)
		if n == 0 && k > 0 {
			continue
		}
		wg.Go(func() { errs[k] = q.part(ctx, c, first, n, multiple) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// part quantizes some rows into the codes of all.
func (q *quantizing) part(ctx context.Context, c *coded, first, rows, multiple int) error {
	p, err := q.begin(rows)
	if err != nil {
		return err
	}
	next := first
	err = q.pieces(first, rows, multiple, func(data []byte, n int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		out := c.output(next, n, p.Sizes(n))
		next += n
		return p.Rows(data, &out)
	})
	if _, finish := p.Finish(); err == nil { // in any case: it gives back what it holds
		err = finish
	}
	return err
}

// pieces hands on rows as a pass takes them.
func (q *quantizing) pieces(first, rows, multiple int, f func(data []byte, n int) error) error {
	if rows == 0 || q.w.Cols == 0 {
		return nil
	}
	n := max(pieceBytes/(4*q.w.Cols)/multiple, 1) * multiple
	if s, ok := q.w.Operand.Stored(); ok {
		rowBytes := s.Cols * s.Element.Size()
		for end := first + rows; first < end; first += n {
			n := min(n, end-first)
			if err := f(s.Data[first*rowBytes:][:n*rowBytes], n); err != nil {
				return err
			}
		}
		return nil
	}
	buf, data := make([]float32, min(n, rows)*q.w.Cols), make([]byte, 4*min(n, rows)*q.w.Cols)
	for end := first + rows; first < end; first += n {
		n := min(n, end-first)
		x := buf[:n*q.w.Cols]
		if err := q.set.ExpandRows(x, q.w.Operand, first); err != nil {
			return err
		}
		if err := q.set.EncodeFloats(data[:4*len(x)], kernels.F32, x); err != nil {
			return err
		}
		if err := f(data[:4*len(x)], n); err != nil {
			return err
		}
	}
	return nil
}

// output is where rows of a matrix leave their codes. The scale of a whole tensor
// is written by its first rows; other parts have one to throw away.
func (c *coded) output(first, rows int, sizes kernels.Sizes) kernels.Output {
	out := kernels.Output{Codes: c.codes[first*c.codeRow:][:rows*c.codeRow]}
	from := first * c.perRow
	switch {
	case c.tileR > 0:
		from = first / c.tileR * c.perRow
	case c.format.Scope == kernels.ScopeTensor && first > 0:
		if sizes.Scales > 0 {
			out.Scales = make([]byte, sizes.Scales)
		}
		return out
	}
	if sizes.Scales > 0 {
		out.Scales = c.scales[from*c.scaleSize:][:sizes.Scales]
	}
	if sizes.Mins > 0 {
		out.Mins = c.mins[from*c.minSize:][:sizes.Mins]
	}
	return out
}
