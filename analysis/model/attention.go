package model

// attention is the block's output for a tile of hidden states x.
func (r *run) attention(s *scratch, b *body, t *tile, x []float32) (_ []float32, err error) {
	a, h := &b.l.Attn, r.spec.Hidden
	s.normed = grow(s.normed, t.n*h)
	r.norm(s, b.l.Norm, s.normed, x, b.in, t.n)
	if a.LowRank != nil {
		err = r.latent(s, b, t)
	} else {
		err = r.grouped(s, b, t)
	}
	if err != nil {
		return nil, err
	}
	s.mixed = grow(s.mixed, t.n*a.Heads*a.VDim)
	if err := r.mix(s, b, t); err != nil {
		return nil, err
	}
	s.share(t.n, a.Heads*a.VDim, func(from, to int) { r.round(s.mixed[from*a.Heads*a.VDim : to*a.Heads*a.VDim]) })
	s.y, err = r.linear(s, b.o, s.mixed, t.n, s.y)
	return s.y, err
}

// linear is apply with the hook before it.
func (r *run) linear(s *scratch, l linear, x []float32, n int, y []float32) ([]float32, error) {
	r.hook(l.at, x, n)
	return r.apply(s, l, x, n, y)
}

// grouped makes a tile's q, k and v by a projection each.
func (r *run) grouped(s *scratch, b *body, t *tile) (err error) {
	a := &b.l.Attn
	if s.q, err = r.linear(s, b.q, s.normed, t.n, s.q); err != nil {
		return err
	}
	if s.k, err = r.linear(s, b.k, s.normed, t.n, s.k); err != nil {
		return err
	}
	if s.v, err = r.linear(s, b.v, s.normed, t.n, s.v); err != nil {
		return err
	}
	if a.QKNorm {
		r.norm(s, b.l.Norm, s.q, s.q, b.qNorm, t.n)
		r.norm(s, b.l.Norm, s.k, s.k, b.kNorm, t.n)
	}
	r.turn(s, a, t, s.q, a.Heads, a.Dim, 0)
	r.turn(s, a, t, s.k, a.KVHeads, a.Dim, 0)
	return nil
}

// turn rotates channels from `from` on of every head of a tile's rows.
func (r *run) turn(s *scratch, a *Attention, t *tile, x []float32, heads, dim, from int) {
	for _, q := range t.seqs {
		angles := r.ropes.of(&a.Rope, q)
		s.share(q.n, heads*dim, func(first, to int) {
			for k := first; k < to; k++ {
				row := x[(q.first-t.first+k)*heads*dim:][:heads*dim]
				for h := range heads {
					a.Rope.rotate(row[h*dim+from:], angles, q.past+k)
				}
				r.round(row)
			}
		})
	}
}

// latent makes q, k and v by DeepSeek's low-rank projections.
func (r *run) latent(s *scratch, b *body, t *tile) (err error) {
	a, lr := &b.l.Attn, b.l.Attn.LowRank
	if lr.Q > 0 {
		if s.low, err = r.linear(s, b.qa, s.normed, t.n, s.low); err != nil {
			return err
		}
		r.norm(s, b.l.Norm, s.low, s.low, b.qaNorm, t.n)
		s.q, err = r.linear(s, b.qb, s.low, t.n, s.q)
	} else {
		s.q, err = r.linear(s, b.q, s.normed, t.n, s.q)
	}
	if err != nil {
		return err
	}
	if s.both, err = r.linear(s, b.kva, s.normed, t.n, s.both); err != nil {
		return err
	}
	s.low, s.rope = grow(s.low, t.n*lr.KV), grow(s.rope, t.n*lr.Rope)
	for k := range t.n {
		row := s.both[k*(lr.KV+lr.Rope):]
		copy(s.low[k*lr.KV:], row[:lr.KV])
		copy(s.rope[k*lr.Rope:], row[lr.KV:lr.KV+lr.Rope])
	}
	r.norm(s, b.l.Norm, s.low, s.low, b.kvaNorm, t.n)
	if s.wide, err = r.linear(s, b.kvb, s.low, t.n, s.wide); err != nil {
		return err
	}
	r.turn(s, a, t, s.q, a.Heads, a.Dim, lr.Nope)
	r.turn(s, a, t, s.rope, 1, lr.Rope, 0)
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
