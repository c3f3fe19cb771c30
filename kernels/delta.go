package kernels

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// DeltaShape is the heads of a layer of gated delta rule (Yang, Kautz and
// Hatamizadeh, arXiv 2412.06464). ValueHeads is a multiple of KeyHeads; value
// head j goes with key head j/(ValueHeads/KeyHeads).
type DeltaShape struct{ KeyHeads, ValueHeads, KeyDim, ValueDim int }

const (
	// deltaChunk is how many tokens are taken together. Chunks begin at multiples
	// of it, counted from a text's first token.
	deltaChunk = 64
	// deltaBlock is how many rows of a chunk are solved one after the other before
	// a product takes what they give to those behind them.
	deltaBlock = 16
	// deltaLeast bounds a decay from below: e^−1000 is 0 in f32, and sums over a
	// chunk stay exact to 2⁻³⁶.
	deltaLeast = -1000
)

// deltaPerThread is how much work is worth another goroutine, in multiply-adds.
const deltaPerThread = 1 << 19

func (d DeltaShape) check() error {
	if d.KeyHeads > 0 && d.ValueHeads > 0 && d.KeyDim > 0 && d.ValueDim > 0 && d.ValueHeads%d.KeyHeads == 0 {
		const padding = 2 * PanelDepth // of a head, more than any set's tile has columns
		if head, ok := product(d.KeyDim+padding, d.ValueDim+padding); ok {
			if all, ok := product(head, d.ValueHeads); ok && all < 1<<30 {
				return nil
			}
		}
	}
	return fmt.Errorf("delta rule of %d key heads of %d, %d value heads of %d: %w", d.KeyHeads, d.KeyDim, d.ValueHeads, d.ValueDim, ErrShape)
}

// work is the multiply-adds of a token.
func (d DeltaShape) work() int {
	return d.ValueHeads * (3*d.KeyDim*d.ValueDim + deltaChunk*(d.KeyDim+d.ValueDim))
}

// Delta writes to out what the gated delta rule makes of n further tokens of a
// text. q and k are [n, KeyHeads, KeyDim], normalized and q scaled; v and out
// [n, ValueHeads, ValueDim]; g, the logarithm of the decay, and beta
// [n, ValueHeads]. Per value head, with S [KeyDim, ValueDim] = 0 before a text,
//
//	S = e^g·S;  d = β·(v − Sᵀk);  S = S + k·dᵀ;  out = Sᵀq
//
// token by token. A g below −1000 counts as −1000; e^g is 0 from −87.4 down.
// What st holds is the text so far, and the tokens are added to it; without one
// they are a whole text.
//
// It is computed in chunks of 64 tokens, which begin at multiples of 64 of the
// text. With S the state at a chunk's start, G_t the sum of g from there to t
// in f64 and E(t,j) = e^(G_t−G_j) by exp32 of the rounded difference,
//
//	d_t = ⟨β·v_t⟩ + (−β·e^G_t·k_t)ᵀS + Σ_{j<t} (−β·(k_t·k_j))·E(t,j)·d_j
//	out_t = (e^G_t·q_t)ᵀS + Σ_{j≤t} (q_t·k_j)·E(t,j)·d_j
//	S′ = e^G_63·S + Σ_j k_j·(E(63,j)·d_j)ᵀ
//
// where each product of two vectors and each sum is what GEMM makes of it (the
// first sum in two parts, j < 16·⌊t/16⌋ and the rest). Row t has only what comes
// before it in the chunk, so the same bits result for any way to divide a text
// into calls, any number of threads and every Set; only a NaN's payload is free.
// A value that is not finite reaches no token before it and no other head.
func (s Set) Delta(shape DeltaShape, q, k, v, g, beta []float32, n int, st *DeltaState, out []float32, threads int) error {
	s = s.orReference()
	if err := shape.check(); err != nil {
		return err
	}
	keys, okKeys := product(n, shape.KeyHeads*shape.KeyDim)
	values, okValues := product(n, shape.ValueHeads*shape.ValueDim)
	if n < 0 || !okKeys || !okValues || len(q) != keys || len(k) != keys || len(v) != values || len(out) != values ||
		len(g) != n*shape.ValueHeads || len(beta) != n*shape.ValueHeads {
		return fmt.Errorf("delta rule over %d tokens: %d queries, %d keys, %d values, %d decays, %d betas, %d results: %w",
			n, len(q), len(k), len(v), len(g), len(beta), len(out), ErrShape)
	}
	if n == 0 {
		return nil
	}
	j := deltaJob{set: s, shape: shape, width: s.gemm.tileCols, q: q, k: k, v: v, g: g, beta: beta, out: out, n: n}
	j.panels = ceilDiv(shape.ValueDim, j.width)
	if st != nil {
		if err := st.begin(shape, j.width, n); err != nil {
			return err
		}
		j.past, j.state = st.n, st
	}
	j.run(threads)
	if st != nil {
		st.advance(n)
	}
	return nil
}

// deltaJob is one call: tasks are key heads with some of their value heads.
type deltaJob struct {
	set   Set
	shape DeltaShape
	width int // columns of a panel
	// panels are how many hold the columns of a value head.
	panels int

	q, k, v, g, beta, out []float32

	n, past int
	state   *DeltaState // none: nothing is kept
}

// deltaSpaces keeps what tasks work in for the next call.
var deltaSpaces = sync.Pool{New: func() any { return new(deltaSpace) }}

func (j *deltaJob) run(threads int) {
	d := j.shape
	group := d.ValueHeads / d.KeyHeads
	workers := threadCount(threads)
	if most := float64(j.n) * float64(d.work()) / deltaPerThread; most < float64(workers) {
		workers = max(int(most), 1)
	}
	// Value heads of a task. Those of a key head share its keys in a state; where
	// nothing is kept every thread gets some.
	each := group
	if j.state == nil && d.KeyHeads < workers {
		each = ceilDiv(group, ceilDiv(workers, d.KeyHeads))
	}
	parts := ceilDiv(group, each)
	tasks := d.KeyHeads * parts
	task := func(w *deltaSpace, t int) {
		from := t % parts * each
		j.head(w, t/parts, from, min(from+each, group))
	}
	if workers = min(workers, tasks); workers == 1 {
		w := deltaSpaces.Get().(*deltaSpace)
		defer deltaSpaces.Put(w)
		for t := range tasks {
			task(w, t)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			w := deltaSpaces.Get().(*deltaSpace)
			defer deltaSpaces.Put(w)
			for t := int(next.Add(1)) - 1; t < tasks; t = int(next.Add(1)) - 1 {
				task(w, t)
			}
		})
	}
	wg.Wait()
}
