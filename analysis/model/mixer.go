package model

// mixer is the part of a layer that carries something from token to token:
// attention in its kinds, a recurrence. Each has a file of its own. A layer has one,
// see Layer.mixer.
type mixer interface {
	// tensors tells what it reads: matrices in the order in which a text meets them.
	tensors(t *tensors)
	// read reads that for a layer.
	read(r *list, l *Layer) mixing
	// ropes are those that it turns by, whose angles a pass makes before it.
	ropes() []*Rope
	// wide is how many f32 a row of a tile takes while it is computed.
	wide() int
	// empty is the memory of a text that has not begun; perToken and fixed are its
	// bytes, of each token and of a text of any length.
	empty() memory
	perToken() int64
	fixed() int64
	// check refuses sizes that it cannot work with.
	check(c *checker)
}

// mixing is a mixer with the weights of one layer.
type mixing interface {
	// mix makes of the normed rows of a tile, s.normed, what is added to its hidden
	// states: t.n rows of Spec.Hidden in memory of s. It calls run.linear for every
	// linear map, so that the map's input is told; in a look what it returns is not
	// used. Rows of a sequence are tokens past to past+n of a text; the cache, where
	// the sequence has one, is of this mixer's kind, holds what came before and takes
	// up what comes now. Bits do not depend on how a text is cut into sequences, on
	// threads or on other sequences, and no token sees a later one, finite or not.
	mix(r *run, s *scratch, b *body, t *tile) ([]float32, error)
}

// memory is what a mixer keeps of a text.
type memory interface {
	// tokens is how many it has taken.
	tokens() int
	// cut forgets all but the first n tokens, or more where it cannot go back so
	// far, and says how many are left. The last 64 tokens, or all where there are
	// fewer, it can always take back one by one: drafts are.
	cut(n int) int
	// room makes room for n tokens in all where that is quicker than growing; the
	// text will not go beyond limit (0: not known).
	room(n, limit int)
	// copyOf is a memory of its own of the first n tokens, or of fewer where it cannot
	// go back so far.
	copyOf(n, limit int) memory
}

// mixer is the layer's.
func (l *Layer) mixer() mixer {
	if l.Delta != nil {
		return l.Delta
	}
	if l.Compressed != nil {
		return l.Compressed
	}
	return &l.Attn
}
