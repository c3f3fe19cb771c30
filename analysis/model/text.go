package model

// Text is a text on its way through a Batch: the keys and values of its tokens,
// and of the positions that an MTP module has seen of it.
type Text struct {
	spec   *Spec
	caches []*layerCache
	n      int
	module *layerCache
	seen   int
	limit  int // tokens that it will not go beyond; 0: not known
}

// NewText is an empty text. limit is how many tokens it may become, for which room
// is made as it grows; 0: not known.
func NewText(spec *Spec, limit int) *Text {
	t := &Text{spec: spec, caches: make([]*layerCache, len(spec.Layers)), module: &layerCache{}, limit: limit}
	for i := range t.caches {
		t.caches[i] = &layerCache{}
	}
	return t
}

// Len is how many tokens were taken.
func (t *Text) Len() int { return t.n }

// Seen is how many positions an MTP module has seen.
func (t *Text) Seen() int { return t.seen }

// Cut forgets all but the first n tokens.
func (t *Text) Cut(n int) {
	n = min(max(n, 0), t.n)
	for i, c := range t.caches {
		c.cut(&t.spec.Layers[i].Attn, n)
	}
	t.n = n
}

// CutSeen forgets all but the first n positions that a module has seen.
func (t *Text) CutSeen(n int) {
	if n = min(max(n, 0), t.seen); len(t.spec.MTP) > 0 {
		t.module.cut(&t.spec.MTP[0].Attn, n)
	}
	t.seen = n
}

// Copy is a text of the first n tokens, with the same bits. Of the positions that a
// module has seen it has as many.
func (t *Text) Copy(n, limit int) *Text {
	n = min(max(n, 0), t.n)
	d := &Text{spec: t.spec, caches: make([]*layerCache, len(t.caches)), module: &layerCache{}, n: n, limit: limit}
	for i, c := range t.caches {
		d.caches[i] = c.copyOf(&t.spec.Layers[i].Attn, n, limit)
	}
	if d.seen = min(n, t.seen); d.seen > 0 {
		d.module = t.module.copyOf(&t.spec.MTP[0].Attn, d.seen, limit)
	}
	return d
}
