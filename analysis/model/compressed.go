package model

import (
	"math"

	"quantscope/kernels"
)

// Compressed is DeepSeek-V4's attention: one head of keys, which are the values too.
// A token sees the tokens of its window and, in layers with a rate, compressed entries
// of those before: one for each Rate tokens. The last channels of queries and keys are
// turned, in neighbouring pairs, and those of each head's output turned back.
type Compressed struct {
	Heads, Dim   int
	QRank        int // of the low-rank query
	Window       int // how many tokens a token sees, itself included
	Scale        float32
	Rope         Rope
	Groups, Rank int // of the output: Rank values of each group of heads, then all together
	Rate         int // tokens of a compressed entry; 0: there are none
	Indexer      *Indexer
}

// Indexer chooses which compressed entries a token sees, by keys of its own: the TopK
// with the largest Σ over heads of weight·relu(q·k). Entries of a layer with one are
// made of two windows, its own and the one before it.
type Indexer struct {
	Heads, Dim int
	TopK       int
}

// compressing is compressed attention with the weights of a layer.
type compressing struct {
	a                      *Compressed
	qa, qb, kv, oa, ob     linear
	qNorm, kvNorm, sinks   []float32
	ones                   []float32
	pool, keys             *compressor // keys: of the indexer
	indexQuery, indexHeads linear
	groups                 []kernels.Operand // of oa
}

func (a *Compressed) tensors(t *tensors) {
	l, h := t.l, t.spec.Hidden
	t.matrix(attn(l, "q_a"), a.QRank, h)
	t.vector(normAt(l, "q_norm"), "weight", a.QRank)
	t.matrix(attn(l, "q_b"), a.Heads*a.Dim, a.QRank)
	t.matrix(attn(l, "kv"), a.Dim, h)
	t.vector(normAt(l, "kv_norm"), "weight", a.Dim)
	if a.Rate > 0 {
		a.entries().tensors(t, "compressor")
	}
	if x := a.Indexer; x != nil {
		a.keys().tensors(t, "indexer.compressor")
		t.matrix(attn(l, "indexer.q_b"), x.Heads*x.Dim, a.QRank)
		t.matrix(attn(l, "indexer.weights"), x.Heads, h)
	}
	t.vector(attn(l, "sinks"), "weight", a.Heads)
	t.matrix(attn(l, "o_a"), a.Groups*a.Rank, a.Heads/a.Groups*a.Dim).Times = a.Groups
	t.matrix(attn(l, "o_b"), h, a.Groups*a.Rank)
}

// entries is how compressed entries are made, keys how those of the indexer are.
func (a *Compressed) entries() windows {
	return windows{Rate: a.Rate, Dim: a.Dim, Overlap: a.Indexer != nil}
}

func (a *Compressed) keys() windows {
	return windows{Rate: a.Rate, Dim: a.Indexer.Dim, Overlap: true}
}

func (a *Compressed) read(r *list, l *Layer) mixing {
	w, h := &compressing{a: a}, r.spec.Hidden
	r.matrix(&w.qa, attn(l, "q_a"), a.QRank, h)
	r.values(&w.qNorm, normAt(l, "q_norm"), "weight", a.QRank)
	r.matrix(&w.qb, attn(l, "q_b"), a.Heads*a.Dim, a.QRank)
	r.matrix(&w.kv, attn(l, "kv"), a.Dim, h)
	r.values(&w.kvNorm, normAt(l, "kv_norm"), "weight", a.Dim)
	if a.Rate > 0 {
		w.pool = a.entries().read(r, l, "compressor")
	}
	if x := a.Indexer; x != nil {
		w.keys = a.keys().read(r, l, "indexer.compressor")
		r.matrix(&w.indexQuery, attn(l, "indexer.q_b"), x.Heads*x.Dim, a.QRank)
		r.matrix(&w.indexHeads, attn(l, "indexer.weights"), x.Heads, h)
	}
	r.values(&w.sinks, attn(l, "sinks"), "weight", a.Heads)
	r.matrix(&w.oa, attn(l, "o_a"), a.Groups*a.Rank, a.Heads/a.Groups*a.Dim)
	r.matrix(&w.ob, attn(l, "o_b"), h, a.Groups*a.Rank)
	w.ones = make([]float32, a.Dim)
	for i := range w.ones {
		w.ones[i] = 1
	}
	for g := 0; g < a.Groups && r.err == nil; g++ {
		var part kernels.Operand
		part, r.err = w.oa.w.Operand.Part(g*a.Rank, a.Rank)
		w.groups = append(w.groups, part)
	}
	return w
}

func (a *Compressed) ropes() []*Rope { return []*Rope{&a.Rope} }

func (a *Compressed) wide() int {
	n := a.QRank + 2*a.Heads*a.Dim + a.Dim + a.Groups*a.Rank
	if a.Rate > 0 {
		n += a.entries().wide() + 1
	}
	if x := a.Indexer; x != nil {
		n += a.keys().wide() + x.Heads*(x.Dim+1) + x.TopK
	}
	return n
}

func (w *compressing) mix(r *run, s *scratch, b *body, t *tile) (_ []float32, err error) {
	a, norm := w.a, b.l.Norm
	if s.low, err = r.linear(s, w.qa, s.normed, t.n, s.low); err != nil {
		return nil, err
	}
	r.norm(s, norm, s.low, s.low, w.qNorm, t.n)
	if s.q, err = r.linear(s, w.qb, s.low, t.n, s.q); err != nil {
		return nil, err
	}
	r.norm(s, Norm{Eps: norm.Eps}, s.q, s.q, w.ones, t.n)
	r.turn(s, &a.Rope, t, s.q, a.Heads, a.Dim, a.Dim-a.Rope.Dim)
	if s.k, err = r.linear(s, w.kv, s.normed, t.n, s.k); err != nil {
		return nil, err
	}
	r.norm(s, norm, s.k, s.k, w.kvNorm, t.n)
	r.turn(s, &a.Rope, t, s.k, 1, a.Dim, a.Dim-a.Rope.Dim)
	seen, err := w.see(r, s, b, t)
	if err != nil {
		return nil, err
	}
	s.mixed = grow(s.mixed, t.n*a.Heads*a.Dim)
	if err := w.attend(r, s, t, seen); err != nil {
		return nil, err
	}
	w.turnBack(r, s, t)
	return w.out(r, s, t)
}

// out is the output's projection: each group of heads by rows of its own, then all.
func (w *compressing) out(r *run, s *scratch, t *tile) (_ []float32, err error) {
	a := w.a
	all, each := a.Heads*a.Dim, a.Heads/a.Groups*a.Dim
	r.hook(w.oa.at, s.mixed, t.n*a.Groups)
	s.wide = grow(s.wide, t.n*a.Groups*a.Rank)
	for g, of := range w.groups {
		err := r.o.Set.GEMM(
			kernels.Dense{Rows: t.n, Cols: a.Rank, Stride: a.Groups * a.Rank, Data: s.wide[g*a.Rank:]},
			kernels.DenseOperand(kernels.Dense{Rows: t.n, Cols: each, Stride: all, Data: s.mixed[g*each:]}),
			of.T(), kernels.GEMMOptions{Alpha: 1, Threads: s.threads})
		if err != nil {
			return nil, err
		}
	}
	width := a.Groups * a.Rank
	s.share(t.n, width, func(from, to int) {
		for k := from; k < to && w.oa.bias != nil; k++ {
			r.o.Set.AddScaled(s.wide[k*width:][:width], w.oa.bias, 1)
		}
		r.round(s.wide[from*width : to*width])
	})
	s.y, err = r.linear(s, w.ob, s.wide, t.n, s.y)
	return s.y, err
}

// turnBack turns the last channels of each head's output back by the query's position.
func (w *compressing) turnBack(r *run, s *scratch, t *tile) {
	a := w.a
	width := a.Heads * a.Dim
	for _, q := range t.seqs {
		angles := r.ropes.of(&a.Rope, q)
		s.share(q.n, width, func(first, to int) {
			for k := first; k < to; k++ {
				row := s.mixed[(q.first-t.first+k)*width:][:width]
				r.round(row)
				for h := range a.Heads {
					a.Rope.back(row[(h+1)*a.Dim-a.Rope.Dim:], angles, q.past+k)
				}
				r.round(row)
			}
		})
	}
}

func (a *Compressed) check(c *checker) {
	for _, s := range []struct {
		name string
		n    int
	}{
		{"num_attention_heads", a.Heads}, {"head_dim", a.Dim}, {"q_lora_rank", a.QRank}, {"sliding_window", a.Window},
		{"o_groups", a.Groups}, {"o_lora_rank", a.Rank},
	} {
		c.size(s.name, s.n, 1)
	}
	c.size("compress_rates", a.Rate, 0)
	if x := a.Indexer; x != nil {
		c.size("index_n_heads", x.Heads, 1)
		c.size("index_head_dim", x.Dim, 1)
		c.size("index_topk", x.TopK, 1)
	}
	if c.err != nil {
		return
	}
	c.size("num_attention_heads·head_dim", a.Heads*a.Dim, 1)
	c.size("o_groups·o_lora_rank", a.Groups*a.Rank, 1)
	if a.Heads%a.Groups != 0 {
		c.refuse("%d heads in %d groups", a.Heads, a.Groups)
	}
	within := a.Dim
	if x := a.Indexer; x != nil {
		c.size("index_n_heads·index_head_dim", x.Heads*x.Dim, 1)
		if within = min(within, x.Dim); a.Rate == 0 {
			c.refuse("an indexer of entries that are not there")
		}
	}
	if a.Rope.Dim < 2 || a.Rope.Dim%2 != 0 || a.Rope.Dim > within {
		c.refuse("%d rotary channels of %d", a.Rope.Dim, within)
	}
	if !(a.Rope.Theta > 0) || math.IsInf(a.Rope.Theta, 0) {
		c.refuse("rope_theta is %g", a.Rope.Theta)
	}
}
