package model

// layerCache are the keys and values of one layer that were made so far.
type layerCache struct {
	k, v   []float32
	broken bool // a value is not finite
}

// cut forgets all but the first n tokens.
func (c *layerCache) cut(a *Attention, n int) {
	c.k, c.v = c.k[:n*a.KVHeads*a.Dim], c.v[:n*a.KVHeads*a.VDim]
}

// room makes room for n tokens in all, and for some more where it must be made.
func (c *layerCache) room(a *Attention, n, limit int) {
	c.k = roomFor(c.k, a.KVHeads*a.Dim, n, limit)
	c.v = roomFor(c.v, a.KVHeads*a.VDim, n, limit)
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

// copyOf is a cache of the same first n tokens.
func (c *layerCache) copyOf(a *Attention, n, limit int) *layerCache {
	d := &layerCache{broken: c.broken}
	d.room(a, n, limit)
	d.k, d.v = append(d.k, c.k[:n*a.KVHeads*a.Dim]...), append(d.v, c.v[:n*a.KVHeads*a.VDim]...)
	return d
}

// width is the bytes that a layer keeps of a token.
func (a *Attention) width() int64 { return 4 * int64(a.KVHeads) * int64(a.Dim+a.VDim) }

// CacheBytes is what keys and values of one token take in memory in all layers,
// and in the first multi-token-prediction layer where tokens are drafted.
func (s *Spec) CacheBytes(drafts bool) int64 {
	var n int64
	for i := range s.Layers {
		n += s.Layers[i].Attn.width()
	}
	if drafts && len(s.MTP) > 0 {
		n += s.MTP[0].Attn.width()
	}
	return n
}
