package calibrate

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/topology"
)

// gathering is the measuring of one wave.
type gathering struct {
	c     *Collector
	at    model.Positions
	list  []*measured
	told  map[model.Place]*measured
	ready []*measured // whose batches are full
	held  int64       // bytes of all batches
	err   error
}

// measured is one input in a wave.
type measured struct {
	*Moments
	want   *Want
	expect int     // rows in all; -1 where that is not known yet
	row    []int32 // of an expert's input: which rows of the text
	seen   int     // rows that were told
	summed int     // rows that were summed
	bad    *InputError

	batch  []float32 // rows that are not summed yet
	room   int       // rows that it may have
	have   int
	queued bool
}

// batching is how rows are put together before they are summed: in batches,
// several inputs beside each other, because the sums of one narrow input do not
// keep all threads busy. All but the last batch of an input are multiples of the depth
// in which products sum, so that it does not matter where they end.
type batching struct {
	bytes int64 // of all batches, more or less
	least int   // rows of one, if it has not all
}

var usual = batching{32 << 20, 4 * kernels.PanelDepth}

const (
	fewBatches = 8   // so many share the bytes
	wideInput  = 512 // columns whose sums keep several threads busy
)

// gather begins to measure inputs.
func (c *Collector) gather(wants []Want, at model.Positions) *gathering {
	g := &gathering{c: c, at: at, told: map[model.Place]*measured{}}
	rows := at.Rows()
	var squares int64
	for i := range wants {
		w := &wants[i]
		m := &measured{Moments: &Moments{At: w.At, N: w.N, Sum2: make([]float64, w.N)}, want: w, expect: rows * w.rows()}
		if w.At.Kind == topology.Expert && w.At.Expert >= 0 {
			m.expect = -1
		}
		if w.Hessian {
			squares += 4 * int64(w.N) * int64(w.N)
		}
		g.list = append(g.list, m)
		g.told[w.told] = m
	}
	c.squares.limit = max(c.squares.limit, squares)
	c.batches.limit = max(c.batches.limit, c.b.of(wants, rows))
	return g
}

// looks is what a walk is asked for.
func (g *gathering) looks() model.Looks {
	return model.Looks{Input: g.input, Want: func(p model.Place) bool { return g.told[p] != nil }}
}

// routed is told which rows each expert is given.
func (g *gathering) routed(l *model.Layer, counts *Counts, choices []model.Choice) {
	of := make([]*measured, l.MoE.Experts)
	for _, m := range g.list {
		if m.At.Kind == topology.Expert && m.At.Expert >= 0 {
			of[m.At.Expert] = m
			m.expect = int(counts.Expert[m.At.Expert])
			m.row = make([]int32, 0, m.expect)
		}
	}
	for t := range choices {
		for _, e := range choices[t].Experts {
			if m := of[e]; m != nil {
				m.row = append(m.row, int32(t))
			}
		}
	}
}

// input takes rows of an input.
func (g *gathering) input(p model.Place, x []float32, n int) {
	m := g.told[p]
	if m == nil || g.err != nil || n == 0 {
		return
	}
	if len(x) < n*m.N || m.expect < m.seen+n {
		g.err = fmt.Errorf("calibrate: %s: told %d rows of %d columns, with %d rows of %d left", m.At, n, len(x)/n, m.expect-m.seen, m.N)
		return
	}
	m.seen += n
	if !m.want.Hessian {
		g.squares(m, x[:n*m.N], g.c.o.Threads)
		m.summed += n
		return
	}
	for n > 0 && g.err == nil {
		if m.queued {
			g.drain()
		}
		if m.batch == nil {
			g.begin(m)
		}
		k := min(n, m.room-m.have)
		copy(m.batch[m.have*m.N:], x[:k*m.N])
		x, n, m.have = x[k*m.N:], n-k, m.have+k
		if m.have == m.room || m.summed+m.have == m.expect {
			m.queued = true
			g.ready = append(g.ready, m)
		}
	}
}

// begin gives an input memory for a batch: for all of its rows where they are few.
func (g *gathering) begin(m *measured) {
	size := g.c.b.size(m.expect-m.summed, m.N)
	if g.held += 4 * int64(size); g.held > g.c.b.bytes && len(g.ready) > 0 {
		g.drain()
	}
	m.batch = g.c.batches.get(size)
	m.room = size / m.N / kernels.PanelDepth * kernels.PanelDepth
}

// size is how many values a batch of an input of n columns has room for, of
// which so many rows are left: powers of two are of use to other inputs.
func (b batching) size(rows, n int) int {
	rows = min(rows, max(int(b.bytes)/fewBatches/4/n, b.least))
	return 1 << bits.Len(uint(panels(rows)*n-1))
}

// of are the most bytes that batches of some inputs take: those of experts come
// one after the other.
func (b batching) of(wants []Want, rows int) int64 {
	var whole, experts, largest int64
	for i := range wants {
		w := &wants[i]
		if !w.Hessian {
			continue
		}
		if batch := 4 * int64(b.size(rows*w.rows(), w.N)); w.At.Kind == topology.Expert && w.At.Expert >= 0 {
			experts, largest = experts+batch, max(largest, batch)
		} else {
			whole += batch
		}
	}
	return whole + min(experts, b.bytes+largest)
}

// panels is a number of rows, made a multiple of the depth in which products sum.
func panels(rows int) int {
	return (rows + kernels.PanelDepth - 1) / kernels.PanelDepth * kernels.PanelDepth
}

// drain sums the batches that are full: narrow inputs beside each other.
func (g *gathering) drain() {
	for _, m := range g.ready {
		if m.H.Data == nil {
			m.H = g.c.square(m.N)
		}
	}
	var narrow []*measured
	for _, m := range g.ready {
		if m.N < wideInput {
			narrow = append(narrow, m)
		} else {
			g.fail(g.sum(m, g.c.o.Threads))
		}
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, min(g.c.o.Threads, len(narrow)))
	for w := range errs {
		wg.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(narrow) {
					return
				}
				errs[w] = g.sum(narrow[i], 1)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		g.fail(err)
	}
	for _, m := range g.ready {
		m.queued = false
		if m.summed == m.expect {
			g.end(m)
		}
	}
	g.ready = g.ready[:0]
}

func (g *gathering) fail(err error) {
	if g.err == nil {
		g.err = err
	}
}

// end takes the batch of an input back.
func (g *gathering) end(m *measured) {
	g.held -= 4 * int64(len(m.batch))
	g.c.batches.put(m.batch)
	m.batch = nil
}

// sum adds the rows of a batch to the moments of its input.
func (g *gathering) sum(m *measured, threads int) error {
	x := m.batch[:m.have*m.N]
	g.squares(m, x, threads)
	again := m.summed > 0
	m.summed, m.have = m.summed+m.have, 0
	if m.bad != nil {
		return nil
	}
	rows := kernels.Dense{Rows: len(x) / m.N, Cols: m.N, Stride: m.N, Data: x}
	return g.c.o.Set.SYRK(m.H, kernels.DenseOperand(rows), kernels.GEMMOptions{Alpha: 1, Accumulate: again, Threads: threads})
}

// squares adds rows of an input to the second moments, and looks for what is not
// finite: a sum in f64 of squares of finite f32 is finite.
func (g *gathering) squares(m *measured, x []float32, threads int) {
	if m.bad != nil {
		return
	}
	const worth = 1 << 16
	if parts := min(threads, len(x)/worth, m.N); parts > 1 {
		var wg sync.WaitGroup
		for i := range parts {
			wg.Go(func() { addSquares(m.Sum2, x, i*m.N/parts, (i+1)*m.N/parts) })
		}
		wg.Wait()
	} else {
		addSquares(m.Sum2, x, 0, m.N)
	}
	if i := slices.IndexFunc(m.Sum2, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }); i < 0 {
		return
	}
	at := slices.IndexFunc(x, func(v float32) bool { return v-v != 0 })
	row := (m.summed + at/m.N) / m.want.rows()
	if m.row != nil {
		row = int(m.row[row])
	}
	m.bad = &InputError{At: m.At, Tensor: m.want.Tensor, Column: at % m.N, Value: x[at]}
	m.bad.Chunk, m.bad.Position = g.at.Of(row)
}

// addSquares adds the squares of columns from `from` to `to` of rows to sums, row
// after row. The square of an f32 is exact in f64.
func addSquares(sums []float64, x []float32, from, to int) {
	n, sums := len(sums), sums[from:to]
	for ; len(x) >= 4*n; x = x[4*n:] {
		a, b := x[from:to][:len(sums)], x[n+from : n+to][:len(sums)]
		c, d := x[2*n+from : 2*n+to][:len(sums)], x[3*n+from : 3*n+to][:len(sums)]
		for i, v := range sums {
			p, q, r, s := float64(a[i]), float64(b[i]), float64(c[i]), float64(d[i])
			v += p * p
			v += q * q
			v += r * r
			v += s * s
			sums[i] = v
		}
	}
	for ; len(x) >= n; x = x[n:] {
		for i, v := range x[from:to] {
			f := float64(v)
			sums[i] += f * f
		}
	}
}

// cause is the input that is not finite where that is why a pass ended with err.
func (g *gathering) cause(err error) error {
	defer g.back()
	if e := (*model.NonFiniteError)(nil); errors.As(err, &e) {
		g.drain()
		for _, m := range g.list {
			if m.bad != nil {
				return m.bad
			}
		}
	}
	return err
}

// back gives all memory back.
func (g *gathering) back() {
	for _, m := range g.list {
		g.c.back(m)
	}
}

// give hands the moments over.
func (g *gathering) give(counts *Counts, last bool, each func(Wave) error) error {
	defer g.back()
	g.drain()
	for _, m := range g.list {
		if g.err == nil && m.summed != m.expect {
			g.err = fmt.Errorf("calibrate: %s: %d of %d rows were told", m.At, m.summed, m.expect)
		}
	}
	err := g.err
	out := make([]*Moments, len(g.list))
	for i, m := range g.list {
		m.Rows = int64(m.summed)
		if err == nil {
			err = m.finite()
		}
		out[i] = m.Moments
	}
	if err == nil {
		err = each(Wave{out, counts, last})
	}
	return err
}

// finite is the *InputError of an input that has one.
func (m *measured) finite() error {
	if m.bad != nil {
		return m.bad
	}
	for c := range m.H.Rows {
		// Elements beside the diagonal are no larger.
		if v := m.H.Data[c*m.H.Stride+c]; v-v != 0 {
			return &InputError{At: m.At, Tensor: m.want.Tensor, Chunk: -1, Position: -1, Column: c, Rows: m.Rows, Value: v}
		}
	}
	return nil
}
