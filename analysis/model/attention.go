package model

import (
	"context"
	"fmt"
	"math"
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
	cache          *layerCache // nil outside decoding
}

// keys of one sequence: rows of KVHeads·Dim and KVHeads·VDim.
type kv struct {
	k, v []float32
	n    int // tokens
}

func attn(l *Layer, projection string) Place {
	return Place{Kind: topology.Attention, Layer: l.Index, Expert: -1, Projection: projection}
}

func normAt(l *Layer, projection string) Place {
	return Place{Kind: topology.Norm, Layer: l.Index, Expert: -1, Projection: projection}
}

// attention is the block's output for the normed input x of n rows.
func (r *run) attention(ctx context.Context, l *Layer, x []float32, n int) ([]float32, error) {
	a := &l.Attn
	var err error
	if a.LowRank != nil {
		err = r.latent(ctx, l, x, n)
	} else {
		err = r.grouped(ctx, l, x, n)
	}
	if err != nil {
		return nil, err
	}
	var sinks []float32
	if a.Sinks {
		if sinks, err = r.vector(ctx, attn(l, "sinks"), "weight", a.Heads); err != nil {
			return nil, err
		}
	}
	r.mixed = grow(r.mixed, n*a.Heads*a.VDim)
	if err := r.scores(a, sinks); err != nil {
		return nil, err
	}
	r.round(r.mixed)
	o, err := r.linear(ctx, attn(l, "o"), r.spec.Hidden, a.Heads*a.VDim)
	if err != nil {
		return nil, err
	}
	r.hook(attn(l, "o"), r.mixed, n)
	r.out, err = r.apply(o, r.mixed, n, r.out)
	return r.out, err
}

// grouped makes q, k and v by a projection each.
func (r *run) grouped(ctx context.Context, l *Layer, x []float32, n int) error {
	a := &l.Attn
	for _, p := range []struct {
		projection string
		width      int
		out        *[]float32
	}{
		{"q", a.Heads * a.Dim, &r.q}, {"k", a.KVHeads * a.Dim, &r.k}, {"v", a.KVHeads * a.VDim, &r.v},
	} {
		w, err := r.linear(ctx, attn(l, p.projection), p.width, r.spec.Hidden)
		if err != nil {
			return err
		}
		r.hook(attn(l, p.projection), x, n)
		if *p.out, err = r.apply(w, x, n, *p.out); err != nil {
			return err
		}
	}
	if a.QKNorm {
		for _, p := range []struct {
			name string
			x    []float32
		}{{"q_norm", r.q}, {"k_norm", r.k}} {
			w, err := r.vector(ctx, normAt(l, p.name), "weight", a.Dim)
			if err != nil {
				return err
			}
			l.Norm.apply(p.x, p.x, w)
			r.round(p.x)
		}
	}
	r.turn(a, r.q, a.Heads, a.Dim, 0)
	r.turn(a, r.k, a.KVHeads, a.Dim, 0)
	return nil
}

// turn rotates channels from `from` on of every head of every row.
func (r *run) turn(a *Attention, x []float32, heads, dim, from int) {
	for _, s := range r.seqs {
		for t := range s.n {
			row := x[(s.first+t)*heads*dim:]
			for h := range heads {
				a.Rope.rotate(row[h*dim+from:], &r.angles, s.past+t)
			}
		}
	}
	r.round(x)
}

// latent makes q, k and v by DeepSeek's low-rank projections.
func (r *run) latent(ctx context.Context, l *Layer, x []float32, n int) error {
	a, lr := &l.Attn, l.Attn.LowRank
	step := func(projection string, in []float32, rows, cols int, out *[]float32) error {
		w, err := r.linear(ctx, attn(l, projection), rows, cols)
		if err != nil {
			return err
		}
		r.hook(attn(l, projection), in, n)
		*out, err = r.apply(w, in, n, *out)
		return err
	}
	normed := func(name string, x []float32, width int) error {
		w, err := r.vector(ctx, normAt(l, name), "weight", width)
		if err != nil {
			return err
		}
		l.Norm.apply(x, x, w)
		r.round(x)
		return nil
	}
	if lr.Q > 0 {
		if err := step("q_a", x, lr.Q, r.spec.Hidden, &r.low); err != nil {
			return err
		}
		if err := normed("q_a_layernorm", r.low, lr.Q); err != nil {
			return err
		}
		if err := step("q_b", r.low, a.Heads*a.Dim, lr.Q, &r.q); err != nil {
			return err
		}
	} else if err := step("q", x, a.Heads*a.Dim, r.spec.Hidden, &r.q); err != nil {
		return err
	}
	var both, rope []float32
	if err := step("kv_a", x, lr.KV+lr.Rope, r.spec.Hidden, &both); err != nil {
		return err
	}
	r.low, rope = grow(r.low, n*lr.KV), make([]float32, n*lr.Rope)
	for t := range n {
		row := both[t*(lr.KV+lr.Rope):]
		copy(r.low[t*lr.KV:], row[:lr.KV])
		copy(rope[t*lr.Rope:], row[lr.KV:lr.KV+lr.Rope])
	}
	if err := normed("kv_a_layernorm", r.low, lr.KV); err != nil {
		return err
	}
	var wide []float32
	if err := step("kv_b", r.low, a.Heads*(lr.Nope+a.VDim), lr.KV, &wide); err != nil {
		return err
	}
	r.turn(a, r.q, a.Heads, a.Dim, lr.Nope)
	r.turn(a, rope, 1, lr.Rope, 0)
	r.k, r.v = grow(r.k, n*a.Heads*a.Dim), grow(r.v, n*a.Heads*a.VDim)
	for t := range n {
		for h := range a.Heads {
			from := wide[(t*a.Heads+h)*(lr.Nope+a.VDim):]
			key := r.k[(t*a.Heads+h)*a.Dim:]
			copy(key[:lr.Nope], from)
			copy(key[lr.Nope:a.Dim], rope[t*lr.Rope:(t+1)*lr.Rope])
			copy(r.v[(t*a.Heads+h)*a.VDim:][:a.VDim], from[lr.Nope:])
		}
	}
	return nil
}

// queryTile is how many queries of a head go through the softmax at once.
const queryTile = 64

// scores mixes the values of every sequence and head into r.mixed. Sequences and
// heads are independent of one another, so any number of threads gives the same
// bits.
func (r *run) scores(a *Attention, sinks []float32) error {
	all := make([]kv, len(r.seqs))
	for i, s := range r.seqs {
		kw, vw := a.KVHeads*a.Dim, a.KVHeads*a.VDim
		k, v := r.k[s.first*kw:][:s.n*kw], r.v[s.first*vw:][:s.n*vw]
		if s.cache == nil {
			all[i] = kv{k, v, s.n}
			continue
		}
		s.cache.k, s.cache.v = append(s.cache.k, k...), append(s.cache.v, v...)
		all[i] = kv{s.cache.k, s.cache.v, s.past + s.n}
		if len(s.cache.k) != all[i].n*kw {
			return fmt.Errorf("model: the cache holds %d tokens in place of %d", len(s.cache.k)/kw, all[i].n)
		}
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	var once sync.Once
	var failed error
	tasks := len(r.seqs) * a.Heads
	for range min(max(r.o.Threads, 1), tasks) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var buf []float32
			for {
				t := int(next.Add(1)) - 1
				if t >= tasks {
					return
				}
				var err error
				if buf, err = r.head(a, r.seqs[t/a.Heads], all[t/a.Heads], t%a.Heads, sinks, buf); err != nil {
					once.Do(func() { failed = err })
					return
				}
			}
		}()
	}
	wg.Wait()
	return failed
}

// head is one head of one sequence.
func (r *run) head(a *Attention, s sequence, m kv, h int, sinks, buf []float32) ([]float32, error) {
	group := h / (a.Heads / a.KVHeads)
	one := kernels.GEMMOptions{Threads: 1}
	for t0 := 0; t0 < s.n; t0 += queryTile {
		n := min(queryTile, s.n-t0)
		first := 0 // key that the tile's first query still sees
		if a.Window > 0 {
			first = max(s.past+t0-a.Window+1, 0)
		}
		last := s.past + t0 + n // one behind the tile's last query's own key
		width := last - first
		buf = grow(buf, n*width)
		q := kernels.Dense{Rows: n, Cols: a.Dim, Stride: a.Heads * a.Dim, Data: r.q[(s.first+t0)*a.Heads*a.Dim+h*a.Dim:]}
		k := kernels.Dense{Rows: width, Cols: a.Dim, Stride: a.KVHeads * a.Dim, Data: m.k[first*a.KVHeads*a.Dim+group*a.Dim:]}
		p := kernels.Dense{Rows: n, Cols: width, Stride: width, Data: buf}
		one.Alpha = a.Scale
		if err := r.o.Set.GEMM(p, kernels.DenseOperand(q), kernels.DenseOperand(k).T(), one); err != nil {
			return buf, err
		}
		for t := range n {
			at := s.past + t0 + t // position of the query
			from := 0
			if a.Window > 0 {
				from = max(at-a.Window+1-first, 0)
			}
			row := buf[t*width:][:width]
			sink, has := float32(0), sinks != nil
			if has {
				sink = sinks[h]
			}
			softmax(row, from, at-first+1, sink, has)
		}
		v := kernels.Dense{Rows: width, Cols: a.VDim, Stride: a.KVHeads * a.VDim, Data: m.v[first*a.KVHeads*a.VDim+group*a.VDim:]}
		out := kernels.Dense{Rows: n, Cols: a.VDim, Stride: a.Heads * a.VDim, Data: r.mixed[(s.first+t0)*a.Heads*a.VDim+h*a.VDim:]}
		one.Alpha = 1
		if err := r.o.Set.GEMM(out, kernels.DenseOperand(p), kernels.DenseOperand(v), one); err != nil {
			return buf, err
		}
	}
	return buf, nil
}

// softmax turns the scores from `from` to `to` into weights and makes the others
// 0. A sink takes part and gets nothing.
func softmax(x []float32, from, to int, sink float32, hasSink bool) {
	clear(x[:from])
	clear(x[to:])
	seen := x[from:to]
	most := float32(math.Inf(-1))
	if hasSink {
		most = sink
	}
	for _, v := range seen {
		most = max(most, v)
	}
	var sum float64
	for i, v := range seen {
		e := exp32(v - most)
		seen[i] = e
		sum += float64(e)
	}
	if hasSink {
		sum += math.Exp(float64(sink - most))
	}
	scale := float32(1 / sum)
	for i := range seen {
		seen[i] *= scale
	}
}

// threads is how many a pass uses where nothing is said.
func threads(n int) int {
	if n > 0 {
		return n
	}
	return runtime.GOMAXPROCS(0)
}
