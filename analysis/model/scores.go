package model

import (
	"math"
	"sync"
	"sync/atomic"

	"quantscope/kernels"
)

// kv are the keys and values of one sequence: rows of KVHeads·Dim and of
// KVHeads·VDim.
type kv struct {
	k, v   []float32
	broken bool // a value is not finite
}

// headScratch is the memory of one goroutine that mixes values.
type headScratch struct {
	q, scores, out []float32
	sums           []float64
	keys           []uint64
}

// queries are neighbouring tokens of a sequence, with the heads that share keys.
type queries struct {
	seq, group int
	from, n    int
}

// Sizes of a block of queries: as many rows as pay for packing the keys, no more
// scores than half of a core's L2 cache holds.
const (
	blockRows   = 128
	blockScores = 1 << 18
)

// leastMix is how many multiply-adds are worth a goroutine that mixes.
const leastMix = 1 << 17

// attend writes the mixed values of a tile to s.mixed, of its queries, keys and
// values in s. Blocks of queries are independent of one another and their bits do not
// depend on where they end.
func (r *run) attend(s *scratch, w *attending, t *tile) error {
	a := w.a
	all := make([]kv, len(t.seqs))
	var blocks []queries
	for i := range t.seqs {
		q := &t.seqs[i]
		all[i] = r.memory(s, w, t, q)
		for from := q.n; from > 0; {
			n := blockTokens(a, q.past+from)
			if all[i].broken {
				n = 1 // so that a weight of 0 meets no NaN that a query does not see
			}
			n = min(n, from)
			from -= n
			for g := range a.KVHeads {
				blocks = append(blocks, queries{i, g, from, n})
			}
		}
	}
	var work int
	for _, q := range blocks {
		work += q.n * (t.seqs[q.seq].past + q.from + q.n)
	}
	workers := max(min(s.threads, len(blocks), work*a.Heads/a.KVHeads*(a.Dim+a.VDim)/leastMix), 1)
	for len(s.heads) < workers {
		s.heads = append(s.heads, &headScratch{})
	}
	if workers == 1 {
		for _, q := range blocks {
			if err := r.block(s, s.heads[0], w, t, &all[q.seq], q); err != nil {
				return err
			}
		}
		return nil
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, workers)
	for k := range workers {
		wg.Go(func() {
			for errs[k] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(blocks) {
					return
				}
				errs[k] = r.block(s, s.heads[k], w, t, &all[blocks[i].seq], blocks[i])
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// blockTokens is how many queries that see up to width keys go together.
func blockTokens(a *Attention, width int) int {
	heads := a.Heads / a.KVHeads
	return max(min(blockRows, blockScores/max(width, 1))/heads, 1)
}

// memory are the keys and values that a sequence of the tile sees: its own, and
// what decoding kept; or those of another layer.
func (r *run) memory(s *scratch, w *attending, t *tile, q *sequence) kv {
	a := w.a
	if a.Borrows {
		return r.borrowed(a, q)
	}
	kw, vw := a.KVHeads*a.Dim, a.KVHeads*a.VDim
	at := q.first - t.first
	k, v := s.k[at*kw:][:q.n*kw], s.v[at*vw:][:q.n*vw]
	broken := !finite64(r.o.Set.SumSquares(v))
	if c, ok := q.cache.(*kvCache); ok {
		c.k, c.v = append(c.k, k...), append(c.v, v...)
		c.broken = c.broken || broken
		return kv{c.k, c.v, c.broken}
	}
	r.lend(w, q, k, v)
	return kv{k, v, broken}
}

// block mixes for some queries and the heads of one group. The keys that it goes
// over begin at a multiple of the depth in which products sum, so that a query
// has the same sums in every block.
func (r *run) block(s *scratch, w *headScratch, of *attending, t *tile, m *kv, at queries) error {
	a, q := of.a, &t.seqs[at.seq]
	heads := a.Heads / a.KVHeads
	past := q.past + at.from // position of the first query
	first, end := 0, past+at.n
	if a.Window > 0 {
		sees := max(past-a.Window+1, 0)
		first = sees / kernels.PanelDepth * kernels.PanelDepth
		vw := a.KVHeads * a.VDim
		if m.broken && !finite64(r.o.Set.SumSquares(m.v[first*vw:sees*vw])) {
			first = sees
		}
	}
	width, rows := end-first, at.n*heads
	w.q, w.scores, w.out = grow(w.q, rows*a.Dim), grow(w.scores, rows*width), grow(w.out, rows*a.VDim)
	from, stride := (q.first-t.first+at.from)*a.Heads*a.Dim+at.group*heads*a.Dim, a.Heads*a.Dim
	for i := range at.n {
		copy(w.q[i*heads*a.Dim:(i+1)*heads*a.Dim], s.q[from+i*stride:])
	}
	set := r.o.Set
	p := kernels.Dense{Rows: rows, Cols: width, Stride: width, Data: w.scores}
	k := kernels.Dense{Rows: width, Cols: a.Dim, Stride: a.KVHeads * a.Dim, Data: m.k[(first*a.KVHeads+at.group)*a.Dim:]}
	if err := set.GEMM(p, kernels.DenseOperand(kernels.Dense{Rows: rows, Cols: a.Dim, Stride: a.Dim, Data: w.q}),
		kernels.DenseOperand(k).T(), kernels.GEMMOptions{Alpha: a.Scale, Threads: 1}); err != nil {
		return err
	}
	for i := range rows {
		now := past + i/heads
		seen := 0
		if a.Window > 0 {
			seen = max(now-a.Window+1-first, 0)
		}
		sink := float32(math.Inf(-1))
		if of.sinks != nil {
			sink = of.sinks[at.group*heads+i%heads]
		}
		set.Softmax(w.scores[i*width:][:width], seen, now-first+1, sink)
	}
	v := kernels.Dense{Rows: width, Cols: a.VDim, Stride: a.KVHeads * a.VDim, Data: m.v[(first*a.KVHeads+at.group)*a.VDim:]}
	if err := set.GEMM(kernels.Dense{Rows: rows, Cols: a.VDim, Stride: a.VDim, Data: w.out}, kernels.DenseOperand(p),
		kernels.DenseOperand(v), kernels.GEMMOptions{Alpha: 1, Threads: 1}); err != nil {
		return err
	}
	to, stride := (q.first-t.first+at.from)*a.Heads*a.VDim+at.group*heads*a.VDim, a.Heads*a.VDim
	for i := range at.n {
		copy(s.mixed[to+i*stride:][:heads*a.VDim], w.out[i*heads*a.VDim:])
	}
	return nil
}
