package model

// compressedCache is what a layer of compressed attention keeps of a text: the keys of
// all its tokens, and the compressed entries of complete windows.
type compressedCache struct {
	a             *Compressed
	k             []float32 // rows of Dim
	entries, keys *pool     // nil where there are none
}

func (a *Compressed) empty() memory {
	c := &compressedCache{a: a}
	if a.Rate > 0 {
		c.entries = &pool{windows: a.entries()}
	}
	if a.Indexer != nil {
		c.keys = &pool{windows: a.keys()}
	}
	return c
}

func (c *compressedCache) tokens() int { return len(c.k) / c.a.Dim }

func (c *compressedCache) cut(n int) int {
	n = min(n, c.tokens())
	for _, p := range []*pool{c.entries, c.keys} {
		if p != nil {
			n = p.cut(n)
		}
	}
	if c.entries != nil { // the indexer's may have gone farther back
		n = c.entries.cut(n)
	}
	c.k = c.k[:n*c.a.Dim]
	return n
}

func (c *compressedCache) room(n, limit int) {
	c.k = roomFor(c.k, c.a.Dim, n, limit)
	for _, p := range []*pool{c.entries, c.keys} {
		if p != nil {
			p.entries = roomFor(p.entries, p.Dim, ceilDiv(n, p.Rate), ceilDiv(limit, p.Rate))
		}
	}
}

func (c *compressedCache) copyOf(n, limit int) memory {
	d := &compressedCache{a: c.a, entries: c.entries.clone(), keys: c.keys.clone()}
	n = min(n, c.tokens())
	d.room(n, limit)
	d.k = append(d.k, c.k[:n*c.a.Dim]...)
	d.cut(n)
	return d
}

func (a *Compressed) perToken() int64 {
	n := 4 * int64(a.Dim)
	if a.Rate > 0 {
		n += a.entries().perToken()
	}
	if a.Indexer != nil {
		n += a.keys().perToken()
	}
	return n
}

func (a *Compressed) fixed() int64 {
	var n int64
	if a.Rate > 0 {
		n += a.entries().fixed()
	}
	if a.Indexer != nil {
		n += a.keys().fixed()
	}
	return n
}
