package model

// kvCache are the keys and values of one layer that were made so far.
type kvCache struct {
	a      *Attention
	k, v   []float32
	broken bool // a value is not finite
}

func (a *Attention) empty() memory {
	if a.Borrows {
		return &borrowing{}
	}
	return &kvCache{a: a}
}

func (c *kvCache) tokens() int { return len(c.k) / (c.a.KVHeads * c.a.Dim) }

func (c *kvCache) cut(n int) int {
	n = min(n, c.tokens())
	c.k, c.v = c.k[:n*c.a.KVHeads*c.a.Dim], c.v[:n*c.a.KVHeads*c.a.VDim]
	return n
}

func (c *kvCache) room(n, limit int) {
	c.k = roomFor(c.k, c.a.KVHeads*c.a.Dim, n, limit)
	c.v = roomFor(c.v, c.a.KVHeads*c.a.VDim, n, limit)
}

// roomFor is b with room for n rows of some width: half as much again, no more
// than limit rows where there is one.
func roomFor(b []float32, width, n, limit int) []float32 {
	if n*width <= cap(b) {
		return b
	}
	more := max(n, cap(b)/max(width, 1)*3/2, leastRoom)
	if limit > 0 {
		more = max(n, min(more, limit))
	}
	return append(make([]float32, 0, more*width), b...)
}

// leastRoom is for how many tokens room is made at first.
const leastRoom = 64

func (c *kvCache) copyOf(n, limit int) memory {
	d := &kvCache{a: c.a, broken: c.broken}
	n = min(n, c.tokens())
	d.room(n, limit)
	d.k, d.v = append(d.k, c.k[:n*c.a.KVHeads*c.a.Dim]...), append(d.v, c.v[:n*c.a.KVHeads*c.a.VDim]...)
	return d
}

func (a *Attention) perToken() int64 {
	if a.Borrows {
		return 0
	}
	return 4 * int64(a.KVHeads) * int64(a.Dim+a.VDim)
}
func (a *Attention) fixed() int64 { return 0 }

// CacheBytes is what a text takes in the memories of all layers, and of the first
// multi-token-prediction layer where tokens are drafted: bytes of each token, and of
// a text of any length.
func (s *Spec) CacheBytes(drafts bool) (perToken, fixed int64) {
	count := func(l *Layer) {
		m := l.mixer()
		perToken, fixed = perToken+m.perToken(), fixed+m.fixed()
	}
	for i := range s.Layers {
		count(&s.Layers[i])
	}
	if drafts && len(s.MTP) > 0 {
		count(&s.MTP[0])
	}
	return perToken, fixed
}
