package model

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"quantscope/kernels"
	"quantscope/quant/topology"
)

// sequence is a chunk of the pass: rows first to first+n of the activations,
// whose first token stands at position past.
type sequence struct {
	first, n, past int
	chunk          int
	cache          memory // nil outside decoding
	text           *Text  // the same
}

// tile are rows that go through a layer's maps together: whole sequences.
type tile struct {
	seqs     []sequence
	at       int // index of the first in run.seqs
	first, n int
}

// run computes layers of one candidate after the other, in memory that is used
// again.
type run struct {
	spec      *Spec
	o         Options
	tokens    []int32 // of all rows
	candidate int
	sharing   []int // candidates that have the hidden states of this one, itself among them
	bf16      bool
	ropes     ropes
	seqs      []sequence
	rows      int
	tiles     []tile
	parallel  bool // tiles run beside each other; else the work within one is shared
	scratch   []*scratch

	flow              *flow     // of the layer that is computed
	normed, out, wave []float32 // of all rows, in layers with experts
	besideOf          []float32 // of all rows: what the MLP beside the experts says
	mixes             []float32 // of all rows: how streams take up what the part at work says
	logits            []float32
	choices           []Choice
	chosen            []int32
	weights           []float32
	squares           []float64
	chosenExperts     wave     // in decoding
	step              *stepped // nil: nobody asks

	// In a look the hidden states stay as they are: a tile's begin as a copy, or as
	// rowsOf makes them, and what no input is made of is not computed.
	look   bool
	rowsOf func(ctx context.Context, s *scratch, t *tile, x []float32) error
	want   func(Place) bool // whose inputs are asked for; nil: of all maps
}

// scratch is the memory of one goroutine that works on tiles.
type scratch struct {
	threads int // that it may use within a tile
	heads   []*headScratch

	normed, q, k, v, mixed, y, gate, up, x []float32
	low, both, rope, wide, rows, open      []float32
	lead, mixes                            []float32 // of several streams
	before, embedded                       []float32 // what goes into an MTP layer
	pooling                                pooling
}

func newRun(spec *Spec, o Options, seqs []sequence) *run {
	o.Threads = threads(o.Threads)
	r := &run{spec: spec, o: o, bf16: o.BF16}
	r.lay(seqs)
	return r
}

// threads is how many a pass uses where nothing is said.
func threads(n int) int {
	if n > 0 {
		return n
	}
	return runtime.GOMAXPROCS(0)
}

// Rows of a tile: enough that expanding weights into panels is a small part of
// the products, few enough that a worker's activations stay small.
const (
	tileRows  = 768
	aloneRows = 1024 // where all threads work on one tile
)

// lay sets what the run is over.
func (r *run) lay(seqs []sequence) {
	r.seqs, r.rows = seqs, 0
	for _, s := range seqs {
		r.rows += s.n
	}
	threads, tile, alone := r.o.Threads, tileRows, aloneRows
	if r.o.Tile > 0 {
		tile, alone = r.o.Tile, r.o.Tile
	}
	if threads > 1 && r.o.Input == nil && r.o.Adds == nil && len(seqs) >= threads {
		r.tiles = split(seqs, r.rows, threads*ceilDiv(r.rows, threads*tile))
		most := 0
		for _, t := range r.tiles {
			most = max(most, t.n)
		}
		// A tile that is much longer than others would leave threads idle.
		if r.parallel = most*len(r.tiles)*4 <= r.rows*5 && len(r.tiles)%threads == 0 || len(r.tiles) >= 4*threads; r.parallel {
			return
		}
	}
	r.parallel = false
	r.tiles = split(seqs, r.rows, ceilDiv(r.rows, alone))
}

// split shares sequences out to at most k tiles of about the same rows.
func split(seqs []sequence, rows, k int) []tile {
	var out []tile
	done := 0
	for i, s := range seqs {
		// The sequence belongs where its middle is.
		want := min((2*done+s.n)*k/max(2*rows, 1), k-1)
		if len(out) == 0 || want >= len(out) {
			out = append(out, tile{at: i, first: s.first})
		}
		t := &out[len(out)-1]
		t.seqs = seqs[t.at : i+1]
		t.n += s.n
		done += s.n
	}
	return out
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// each does n tasks: beside each other, each by one thread, or in order, each by
// all of them.
func (r *run) each(n int, parallel bool, task func(i int, s *scratch) error) error {
	workers := 1
	if parallel {
		workers = min(r.o.Threads, n)
	}
	for len(r.scratch) < workers {
		r.scratch = append(r.scratch, &scratch{})
	}
	if workers <= 1 {
		s := r.worker(0, r.o.Threads)
		for i := range n {
			if err := task(i, s); err != nil {
				return err
			}
		}
		return nil
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		s := r.worker(w, 1)
		wg.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				errs[w] = task(i, s)
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

func (r *run) worker(w, threads int) *scratch {
	if len(r.scratch) == 0 {
		r.scratch = append(r.scratch, &scratch{})
	}
	s := r.scratch[w]
	s.threads = threads
	return s
}

// share calls f with parts of n rows of width values, beside each other where
// that is worth it.
func (s *scratch) share(n, width int, f func(from, to int)) {
	const worth = 1 << 16
	parts := min(s.threads, n, n*width/worth)
	if parts <= 1 {
		f(0, n)
		return
	}
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() { f(i*n/parts, (i+1)*n/parts) })
	}
	wg.Wait()
}

func (r *run) hook(p Place, x []float32, n int) {
	if r.o.Input != nil && r.wants(p) {
		r.o.Input(r.candidate, p, x, n)
	}
}

// round rounds activations to bf16 where that is asked for.
func (r *run) round(x []float32) {
	if r.bf16 {
		r.o.Set.RoundBF16(x)
	}
}

// apply is y = x·Wᵀ + b over n rows. y is made as large as it must be.
func (r *run) apply(s *scratch, l linear, x []float32, n int, y []float32) ([]float32, error) {
	in, out := l.w.Cols, l.w.Rows
	y = grow(y, n*out)
	if n == 0 {
		return y, nil
	}
	err := r.o.Set.GEMM(
		kernels.Dense{Rows: n, Cols: out, Stride: out, Data: y},
		kernels.DenseOperand(kernels.Dense{Rows: n, Cols: in, Stride: in, Data: x}),
		l.w.Operand.T(), kernels.GEMMOptions{Alpha: 1, Threads: s.threads})
	if err != nil {
		return nil, err
	}
	if l.bias != nil || r.bf16 {
		s.share(n, out, func(from, to int) {
			for t := from; t < to && l.bias != nil; t++ {
				r.o.Set.AddScaled(y[t*out:][:out], l.bias, 1)
			}
			r.round(y[from*out : to*out])
		})
	}
	return y, nil
}

// grow is a slice of n values, of the same memory where that is enough.
func grow(b []float32, n int) []float32 {
	if cap(b) < n {
		return make([]float32, n)
	}
	return b[:n]
}

// embed reads the embeddings of tokens into x.
func (r *run) embed(ctx context.Context, src Source, tokens []int32, bf16 bool, x []float32) error {
	r.bf16 = bf16
	y, h := x, r.spec.Hidden
	if r.spec.Streams > 1 {
		y = make([]float32, len(tokens)*h)
	}
	if err := src.Rows(ctx, Place{Kind: topology.Embedding, Layer: -1, Expert: -1}, tokens, y); err != nil {
		return err
	}
	if e := r.spec.EmbedScale; e != 1 {
		r.o.Set.Scale(y, r.stored(float64(e)))
	}
	if n := r.spec.Streams; n > 1 { // all streams begin as the embedding
		for i := range len(tokens) * n {
			copy(x[i*h:(i+1)*h], y[i/n*h:])
		}
	}
	r.round(x)
	return nil
}
