package model

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"quantscope/kernels"
)

// pooling is the memory of a tile whose tokens are pooled.
type pooling struct {
	kv, gate, keysKV, keysGate []float32 // rows of the compressors
	query, heads               []float32 // of the indexer
	entries, keys              []float32 // of sequences without a cache
	chosen                     []int32   // entries that rows see, where there is a choice: TopK of a row, ascending
	decided                    []bool    // of rows: the indexer said a number of each
}

// sights is what the sequences of a tile see.
type sights struct {
	tokens, entries, keys [][]float32 // by sequence: keys of all tokens, entries, the indexer's keys
	choice                bool        // a row of the tile sees fewer than there are
}

// see makes compressed entries and says what the rows of a tile see. s.low holds the
// low-rank queries, s.k the keys.
func (w *compressing) see(r *run, s *scratch, b *body, t *tile) (*sights, error) {
	a, p := w.a, &s.pooling
	out := &sights{tokens: make([][]float32, len(t.seqs)), entries: make([][]float32, len(t.seqs)), keys: make([][]float32, len(t.seqs))}
	caches := false
	for i, q := range t.seqs {
		k := s.k[(q.first-t.first)*a.Dim:][:q.n*a.Dim]
		if c, ok := q.cache.(*compressedCache); ok {
			caches = true
			c.k = append(c.k, k...)
			k = c.k
		}
		out.tokens[i] = k
		if x := a.Indexer; x != nil && (q.past+q.n)/a.Rate > x.TopK {
			out.choice = true
		}
	}
	if a.Rate == 0 {
		return out, nil
	}
	var err error
	if p.kv, p.gate, err = w.pool.project(r, s, t, p.kv, p.gate, true); err != nil {
		return nil, err
	}
	w.pool.gather(r, s, b, t, p.kv, p.gate, &p.entries, out.entries, func(c *compressedCache) *pool { return c.entries }, &a.Rope)
	if a.Indexer == nil {
		return out, nil
	}
	if p.keysKV, p.keysGate, err = w.keys.project(r, s, t, p.keysKV, p.keysGate, out.choice || caches); err != nil {
		return nil, err
	}
	if out.choice || caches {
		w.keys.gather(r, s, b, t, p.keysKV, p.keysGate, &p.keys, out.keys, func(c *compressedCache) *pool { return c.keys }, &a.Rope)
	}
	return out, w.choose(r, s, t, out)
}

// project makes the rows of a compressor, where they are needed; their inputs are
// told in any case.
func (c *compressor) project(r *run, s *scratch, t *tile, kv, gate []float32, needed bool) (_, _ []float32, err error) {
	if !needed {
		r.hook(c.kv.at, s.normed, t.n)
		r.hook(c.gate.at, s.normed, t.n)
		return kv, gate, nil
	}
	if kv, err = r.linear(s, c.kv, s.normed, t.n, kv); err != nil {
		return kv, gate, err
	}
	gate, err = r.linear(s, c.gate, s.normed, t.n, gate)
	return kv, gate, err
}

// gather makes the entries of the sequences of a tile, in their caches or in room.
func (c *compressor) gather(r *run, s *scratch, b *body, t *tile, kv, gate []float32, room *[]float32, of [][]float32, cached func(*compressedCache) *pool, rope *Rope) {
	w, total := c.cols(), 0
	for _, q := range t.seqs {
		total += q.n / c.Rate * c.Dim
	}
	*room = grow(*room, total)
	free := *room
	for i, q := range t.seqs {
		at, angles := (q.first-t.first)*w, r.ropes.of(rope, q)
		if cache, ok := q.cache.(*compressedCache); ok {
			p := cached(cache)
			c.take(r, s, b.l.Norm, rope, angles, p, kv[at:], gate[at:], q.n)
			p.trim()
			of[i] = p.entries
			continue
		}
		n := q.n / c.Rate * c.Dim
		p := &pool{windows: c.windows, n: q.n, kv: kv[at:][:q.n*w], gate: gate[at:][:q.n*w], entries: free[:0:n]}
		c.make(r, s, b.l.Norm, rope, angles, p, 0)
		of[i], free = p.entries, free[n:]
	}
}

// choose has the indexer choose, for rows that may see more entries than it lets.
func (w *compressing) choose(r *run, s *scratch, t *tile, see *sights) (err error) {
	a, x, p := w.a, w.a.Indexer, &s.pooling
	if !see.choice {
		r.hook(w.indexQuery.at, s.low, t.n)
		r.hook(w.indexHeads.at, s.normed, t.n)
		return nil
	}
	if p.query, err = r.linear(s, w.indexQuery, s.low, t.n, p.query); err != nil {
		return err
	}
	r.turn(s, &a.Rope, t, p.query, x.Heads, x.Dim, x.Dim-a.Rope.Dim)
	if p.heads, err = r.linear(s, w.indexHeads, s.normed, t.n, p.heads); err != nil {
		return err
	}
	if cap(p.chosen) < t.n*x.TopK {
		p.chosen = make([]int32, t.n*x.TopK)
	}
	p.chosen, p.decided = p.chosen[:t.n*x.TopK], slices.Grow(p.decided[:0], t.n)[:t.n]
	width := x.Heads * x.Dim
	return w.rows(r, s, t, width, func(h *headScratch, seq, row, position int) error {
		n := (position + 1) / a.Rate
		if n <= x.TopK {
			return nil
		}
		h.scores = grow(h.scores, x.Heads*n)
		scores := kernels.Dense{Rows: x.Heads, Cols: n, Stride: n, Data: h.scores}
		if err := r.o.Set.GEMM(scores,
			kernels.DenseOperand(kernels.Dense{Rows: x.Heads, Cols: x.Dim, Stride: x.Dim, Data: p.query[row*width:]}),
			kernels.DenseOperand(kernels.Dense{Rows: n, Cols: x.Dim, Stride: x.Dim, Data: see.keys[seq]}).T(),
			kernels.GEMMOptions{Alpha: float32(1 / math.Sqrt(float64(x.Dim))), Threads: 1}); err != nil {
			return err
		}
		p.decided[row] = x.best(h, p.chosen[row*x.TopK:][:x.TopK], p.heads[row*x.Heads:][:x.Heads], n)
		return nil
	})
}

// best writes the TopK of n entries with the best scores, in ascending order, of equal
// ones the first, and says whether each had a score. h.scores are those of each head.
func (x *Indexer) best(h *headScratch, chosen []int32, weights []float32, n int) bool {
	root := 1 / math.Sqrt(float64(x.Heads))
	h.sums = grow64(h.sums, n)
	clear(h.sums)
	for i, w := range weights {
		by := float64(w) * root
		for e, v := range h.scores[i*n:][:n] {
			h.sums[e] += float64(by * float64(max(v, 0)))
		}
	}
	h.keys = h.keys[:0]
	for e, sum := range h.sums {
		if !finite64(sum) {
			return false
		}
		// Floats' bits, those of negative ones turned round, are in their order; behind
		// them the entry, the first being the largest.
		b := math.Float32bits(float32(sum) + 0)
		if b>>31 == 0 {
			b |= 1 << 31
		} else {
			b = ^b
		}
		h.keys = keepLargest(h.keys, uint64(b)<<32|uint64(^uint32(e)), len(chosen))
	}
	for i, k := range h.keys {
		chosen[i] = int32(^uint32(k))
	}
	slices.Sort(chosen)
	return true
}

// keepLargest adds a key to a heap of at most n, the smallest at its top.
func keepLargest(heap []uint64, key uint64, n int) []uint64 {
	if len(heap) < n {
		heap = append(heap, key)
		for i := len(heap) - 1; i > 0 && heap[(i-1)/2] > heap[i]; i = (i - 1) / 2 {
			heap[i], heap[(i-1)/2] = heap[(i-1)/2], heap[i]
		}
		return heap
	}
	if key <= heap[0] {
		return heap
	}
	heap[0] = key
	for i := 0; ; {
		least := i
		for _, c := range []int{2*i + 1, 2*i + 2} {
			if c < n && heap[c] < heap[least] {
				least = c
			}
		}
		if least == i {
			return heap
		}
		heap[i], heap[least] = heap[least], heap[i]
		i = least
	}
}

// attend writes the mixed values of a tile to s.mixed. A token's keys are gathered in
// one order, those of its window and then entries, so that its bits depend on nothing
// else, and what it does not see it does not meet.
func (w *compressing) attend(r *run, s *scratch, t *tile, see *sights) error {
	a, p := w.a, &s.pooling
	width := a.Heads * a.Dim
	return w.rows(r, s, t, 2*width*(a.Window+16), func(h *headScratch, seq, row, position int) error {
		first := max(position-a.Window+1, 0)
		h.out = append(h.out[:0], see.tokens[seq][first*a.Dim:(position+1)*a.Dim]...)
		if a.Rate > 0 {
			n, entries := (position+1)/a.Rate, see.entries[seq]
			if x := a.Indexer; x != nil && n > x.TopK {
				if !p.decided[row] { // other entries would be seen and damage hidden
					nan := float32(math.NaN())
					for i := range s.mixed[row*width:][:width] {
						s.mixed[row*width+i] = nan
					}
					return nil
				}
				for _, e := range p.chosen[row*x.TopK:][:x.TopK] {
					h.out = append(h.out, entries[int(e)*a.Dim:][:a.Dim]...)
				}
			} else {
				h.out = append(h.out, entries[:n*a.Dim]...)
			}
		}
		n := len(h.out) / a.Dim
		h.scores = grow(h.scores, a.Heads*n)
		scores := kernels.Dense{Rows: a.Heads, Cols: n, Stride: n, Data: h.scores}
		keys := kernels.DenseOperand(kernels.Dense{Rows: n, Cols: a.Dim, Stride: a.Dim, Data: h.out})
		if err := r.o.Set.GEMM(scores, kernels.DenseOperand(kernels.Dense{Rows: a.Heads, Cols: a.Dim, Stride: a.Dim, Data: s.q[row*width:]}),
			keys.T(), kernels.GEMMOptions{Alpha: a.Scale, Threads: 1}); err != nil {
			return err
		}
		for i := range a.Heads {
			r.o.Set.Softmax(h.scores[i*n:][:n], 0, n, w.sinks[i])
		}
		return r.o.Set.GEMM(kernels.Dense{Rows: a.Heads, Cols: a.Dim, Stride: a.Dim, Data: s.mixed[row*width:]},
			kernels.DenseOperand(scores), keys, kernels.GEMMOptions{Alpha: 1, Threads: 1})
	})
}

// rows calls f for every row of a tile, which takes so many multiply-adds, beside each
// other where that is worth it.
func (w *compressing) rows(r *run, s *scratch, t *tile, work int, f func(h *headScratch, seq, row, position int) error) error {
	workers := max(min(s.threads, t.n, t.n*work/leastMix), 1)
	for len(s.heads) < workers {
		s.heads = append(s.heads, &headScratch{})
	}
	errs := make([]error, workers)
	var next atomic.Int64
	do := func(k int) {
		seq := 0
		for errs[k] == nil {
			row := int(next.Add(1)) - 1
			if row >= t.n {
				return
			}
			for row >= t.seqs[seq].first-t.first+t.seqs[seq].n {
				seq++
			}
			q := &t.seqs[seq]
			errs[k] = f(s.heads[k], seq, row, q.past+row-(q.first-t.first))
		}
	}
	if workers == 1 {
		do(0)
		return errs[0]
	}
	var wg sync.WaitGroup
	for k := range workers {
		wg.Go(func() { do(k) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
