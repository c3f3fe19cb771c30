package model

import "slices"

// attending is attention with the weights of a layer.
type attending struct {
	a                   *Attention
	l                   *Layer
	one                 []float32 // VDim times 1, where values have a norm
	q, k, v, o, g       linear
	qNorm, kNorm, sinks []float32

	qa, qb, kva, kvb linear // of low rank
	qaNorm, kvaNorm  []float32
}

func (a *Attention) tensors(t *tensors) {
	l, h := t.l, t.spec.Hidden
	if lr := a.LowRank; lr != nil {
		if lr.Q > 0 {
			t.matrix(attn(l, "q_a"), lr.Q, h)
			t.vector(normAt(l, "q_a_layernorm"), "weight", lr.Q)
			t.matrix(attn(l, "q_b"), a.Heads*a.Dim, lr.Q)
		} else {
			t.matrix(attn(l, "q"), a.Heads*a.Dim, h)
		}
		t.matrix(attn(l, "kv_a"), lr.KV+lr.Rope, h)
		t.vector(normAt(l, "kv_a_layernorm"), "weight", lr.KV)
		t.matrix(attn(l, "kv_b"), a.Heads*(lr.Nope+a.VDim), lr.KV)
	} else {
		t.heads(attn(l, "q"), a.Heads, a.queryRows(), a.Rope.Dim, h)
		if !a.Borrows {
			t.heads(attn(l, "k"), a.KVHeads, a.Dim, a.Rope.Dim, h)
		}
		if !a.KeyIsValue && !a.Borrows {
			t.heads(attn(l, "v"), a.KVHeads, a.VDim, 0, h)
		}
	}
	if a.Gate == HeadGate {
		t.matrix(attn(l, "g"), a.Heads, h)
	}
	if a.QKNorm {
		t.vector(normAt(l, "q_norm"), "weight", a.Dim)
		if !a.Borrows {
			t.vector(normAt(l, "k_norm"), "weight", a.Dim)
		}
	}
	if a.Sinks {
		t.vector(attn(l, "sinks"), "weight", a.Heads)
	}
	o := t.matrix(attn(l, "o"), h, a.Heads*a.VDim)
	o.Heads, o.Width = a.Heads, a.VDim
}

// queryRows are the rows of q that a head has: its query's, and its gate's.
func (a *Attention) queryRows() int {
	if a.Gate == ChannelGate {
		return a.Dim + a.VDim
	}
	return a.Dim
}

func (a *Attention) read(r *list, l *Layer) mixing {
	w, h := &attending{a: a, l: l}, r.spec.Hidden
	if lr := a.LowRank; lr != nil {
		if lr.Q > 0 {
			r.matrix(&w.qa, attn(l, "q_a"), lr.Q, h)
			r.values(&w.qaNorm, normAt(l, "q_a_layernorm"), "weight", lr.Q)
			r.matrix(&w.qb, attn(l, "q_b"), a.Heads*a.Dim, lr.Q)
		} else {
			r.matrix(&w.q, attn(l, "q"), a.Heads*a.Dim, h)
		}
		r.matrix(&w.kva, attn(l, "kv_a"), lr.KV+lr.Rope, h)
		r.values(&w.kvaNorm, normAt(l, "kv_a_layernorm"), "weight", lr.KV)
		r.matrix(&w.kvb, attn(l, "kv_b"), a.Heads*(lr.Nope+a.VDim), lr.KV)
	} else {
		r.matrix(&w.q, attn(l, "q"), a.Heads*a.queryRows(), h)
		if !a.Borrows {
			r.matrix(&w.k, attn(l, "k"), a.KVHeads*a.Dim, h)
		}
		if !a.KeyIsValue && !a.Borrows {
			r.matrix(&w.v, attn(l, "v"), a.KVHeads*a.VDim, h)
		}
	}
	if a.Gate == HeadGate {
		r.matrix(&w.g, attn(l, "g"), a.Heads, h)
	}
	r.matrix(&w.o, attn(l, "o"), h, a.Heads*a.VDim)
	if a.QKNorm {
		r.values(&w.qNorm, normAt(l, "q_norm"), "weight", a.Dim)
		if !a.Borrows {
			r.values(&w.kNorm, normAt(l, "k_norm"), "weight", a.Dim)
		}
	}
	if a.ValueNorm {
		w.one = slices.Repeat([]float32{1}, a.VDim)
	}
	if a.Sinks {
		r.values(&w.sinks, attn(l, "sinks"), "weight", a.Heads)
	}
	return w
}

func (a *Attention) ropes() []*Rope { return []*Rope{&a.Rope} }

func (a *Attention) wide() int {
	n := a.Heads*(a.queryRows()+a.VDim) + a.KVHeads*(a.Dim+a.VDim)
	switch a.Gate {
	case ChannelGate:
		n += a.Heads * a.VDim
	case HeadGate:
		n += a.Heads
	}
	if r := a.LowRank; r != nil {
		n += max(r.Q, r.KV) + r.KV + 2*r.Rope + a.Heads*(r.Nope+a.VDim)
	}
	return n
}

func (w *attending) mix(r *run, s *scratch, b *body, t *tile) (_ []float32, err error) {
	a := w.a
	if a.LowRank != nil {
		err = w.latent(r, s, t)
	} else {
		err = w.grouped(r, s, b, t)
	}
	if err != nil {
		return nil, err
	}
	s.mixed = grow(s.mixed, t.n*a.Heads*a.VDim)
	if err := r.attend(s, w, t); err != nil {
		return nil, err
	}
	width := a.Heads * a.VDim
	s.share(t.n, width, func(from, to int) {
		rows := s.mixed[from*width : to*width]
		r.round(rows)
		if a.Gate != NoGate {
			w.gate(rows, s.open, from)
			r.round(rows)
		}
	})
	s.y, err = r.linear(s, w.o, s.mixed, t.n, s.y)
	return s.y, err
}

// gate multiplies rows of mixed values, the first of which is row first of the tile,
// by the gates of their tokens.
func (w *attending) gate(rows, open []float32, first int) {
	a := w.a
	if a.Gate == ChannelGate {
		for i, g := range open[first*a.Heads*a.VDim:][:len(rows)] {
			rows[i] *= sigmoid(g)
		}
		return
	}
	for i, g := range open[first*a.Heads:][:len(rows)/a.VDim] {
		f := sigmoid(g)
		for c := range a.VDim {
			rows[i*a.VDim+c] *= f
		}
	}
}

// part takes the queries and the gates of a tile's rows apart.
func (w *attending) part(s *scratch, t *tile) {
	a := w.a
	all := a.queryRows()
	s.open = grow(s.open, t.n*a.Heads*a.VDim)
	for i := range t.n * a.Heads {
		copy(s.open[i*a.VDim:][:a.VDim], s.q[i*all+a.Dim:])
		copy(s.q[i*a.Dim:], s.q[i*all:][:a.Dim])
	}
	s.q = s.q[:t.n*a.Heads*a.Dim]
}

// linear is apply with the hook before it.
func (r *run) linear(s *scratch, l linear, x []float32, n int, y []float32) ([]float32, error) {
	r.hook(l.at, x, n)
	return r.apply(s, l, x, n, y)
}

// grouped makes a tile's q, k and v by a projection each.
func (w *attending) grouped(r *run, s *scratch, b *body, t *tile) (err error) {
	a := w.a
	if s.q, err = r.linear(s, w.q, s.normed, t.n, s.q); err != nil {
		return err
	}
	if !a.Borrows {
		if err = w.keys(r, s, b, t); err != nil {
			return err
		}
	}
	switch a.Gate {
	case ChannelGate:
		w.part(s, t)
	case HeadGate:
		if s.open, err = r.linear(s, w.g, s.normed, t.n, s.open); err != nil {
			return err
		}
	}
	if a.QKNorm {
		r.norm(s, b.l.Norm, s.q, s.q, w.qNorm, t.n)
	}
	r.turn(s, &a.Rope, t, s.q, a.Heads, a.Dim, 0)
	return nil
}

// keys makes a tile's k and v.
func (w *attending) keys(r *run, s *scratch, b *body, t *tile) (err error) {
	a := w.a
	if s.k, err = r.linear(s, w.k, s.normed, t.n, s.k); err != nil {
		return err
	}
	if a.KeyIsValue {
		s.v = grow(s.v, t.n*a.KVHeads*a.VDim)
		copy(s.v, s.k)
	} else if s.v, err = r.linear(s, w.v, s.normed, t.n, s.v); err != nil {
		return err
	}
	if a.ValueNorm {
		r.norm(s, Norm{Eps: b.l.Norm.Eps}, s.v, s.v, w.one, t.n)
	}
	if a.QKNorm {
		r.norm(s, b.l.Norm, s.k, s.k, w.kNorm, t.n)
	}
	r.turn(s, &a.Rope, t, s.k, a.KVHeads, a.Dim, 0)
	return nil
}

// turn rotates channels from `from` on of every head of a tile's rows.
func (r *run) turn(s *scratch, rope *Rope, t *tile, x []float32, heads, dim, from int) {
	for _, q := range t.seqs {
		angles := r.ropes.of(rope, q)
		s.share(q.n, heads*dim, func(first, to int) {
			for k := first; k < to; k++ {
				row := x[(q.first-t.first+k)*heads*dim:][:heads*dim]
				for h := range heads {
					rope.rotate(row[h*dim+from:], angles, q.past+k)
				}
				r.round(row)
			}
		})
	}
}

// latent makes q, k and v by DeepSeek's low-rank projections.
func (w *attending) latent(r *run, s *scratch, t *tile) (err error) {
	a, lr := w.a, w.a.LowRank
	if lr.Q > 0 {
		if s.low, err = r.linear(s, w.qa, s.normed, t.n, s.low); err != nil {
			return err
		}
		r.norm(s, lr.Norm, s.low, s.low, w.qaNorm, t.n)
		s.q, err = r.linear(s, w.qb, s.low, t.n, s.q)
	} else {
		s.q, err = r.linear(s, w.q, s.normed, t.n, s.q)
	}
	if err != nil {
		return err
	}
	if s.both, err = r.linear(s, w.kva, s.normed, t.n, s.both); err != nil {
		return err
	}
	s.low, s.rope = grow(s.low, t.n*lr.KV), grow(s.rope, t.n*lr.Rope)
	for k := range t.n {
		row := s.both[k*(lr.KV+lr.Rope):]
		copy(s.low[k*lr.KV:], row[:lr.KV])
		copy(s.rope[k*lr.Rope:], row[lr.KV:lr.KV+lr.Rope])
	}
	r.norm(s, lr.Norm, s.low, s.low, w.kvaNorm, t.n)
	if s.wide, err = r.linear(s, w.kvb, s.low, t.n, s.wide); err != nil {
		return err
	}
	r.turn(s, &a.Rope, t, s.q, a.Heads, a.Dim, lr.Nope)
	r.turn(s, &a.Rope, t, s.rope, 1, lr.Rope, 0)
	s.k, s.v = grow(s.k, t.n*a.Heads*a.Dim), grow(s.v, t.n*a.Heads*a.VDim)
	s.share(t.n, a.Heads*(a.Dim+a.VDim), func(from, to int) {
		for k := from; k < to; k++ {
			for h := range a.Heads {
				part := s.wide[(k*a.Heads+h)*(lr.Nope+a.VDim):]
				key := s.k[(k*a.Heads+h)*a.Dim:]
				copy(key[:lr.Nope], part)
				copy(key[lr.Nope:a.Dim], s.rope[k*lr.Rope:(k+1)*lr.Rope])
				copy(s.v[(k*a.Heads+h)*a.VDim:][:a.VDim], part[lr.Nope:])
			}
		}
	})
	return nil
}
