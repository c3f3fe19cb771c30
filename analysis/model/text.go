package model

// Text is a text on its way through a Batch: the keys and values of its tokens,
// and of the positions that an MTP module has seen of it.
type Text struct {
	spec   *Spec
	caches []memory
	n      int
	module memory
	seen   int
	limit  int // tokens that it will not go beyond; 0: not known
}

// NewText is an empty text. limit is how many tokens it may become, for which room
// is made as it grows; 0: not known.
func NewText(spec *Spec, limit int) *Text {
	t := &Text{spec: spec, caches: make([]memory, len(spec.Layers)), limit: limit}
	for i := range t.caches {
		t.caches[i] = spec.Layers[i].mixer().empty()
	}
	if len(spec.MTP) > 0 {
		t.module = spec.MTP[0].mixer().empty()
	}
	return t
}

// Len is how many tokens were taken.
func (t *Text) Len() int { return t.n }

// Seen is how many positions an MTP module has seen.
func (t *Text) Seen() int { return t.seen }

// Cut forgets all but the first n tokens, or more where a layer's memory cannot go
// back so far: Len says how many are left, which the text is then to be given again
// from.
func (t *Text) Cut(n int) {
	t.n = level(t.caches, min(max(n, 0), t.n))
}

// level cuts memories to the same number of tokens, n or fewer.
func level(all []memory, n int) int {
	for again := true; again; {
		again = false
		for _, c := range all {
			if left := c.cut(n); left < n {
				n, again = left, true
			}
		}
	}
	return n
}

// CutSeen forgets all but the first n positions that a module has seen, or more, as
// Cut does.
func (t *Text) CutSeen(n int) {
	if n = min(max(n, 0), t.seen); t.module != nil {
		n = t.module.cut(n)
	}
	t.seen = n
}

// Copy is a text of the first n tokens, or of fewer as Cut says, with the same bits. Of
// the positions that a module has seen it has as many.
func (t *Text) Copy(n, limit int) *Text {
	n = min(max(n, 0), t.n)
	d := &Text{spec: t.spec, caches: make([]memory, len(t.caches)), limit: limit}
	for i, c := range t.caches {
		d.caches[i] = c.copyOf(n, limit)
		n = min(n, d.caches[i].tokens())
	}
	d.n = level(d.caches, n)
	if t.module != nil {
		d.module = t.module.copyOf(min(d.n, t.seen), limit)
		d.seen = d.module.tokens()
	}
	return d
}
