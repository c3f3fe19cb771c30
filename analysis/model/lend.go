package model

// Layers that borrow have no keys and values of their own: in a pass the lender's stay
// beside the hidden states until the last layer that uses them, in decoding they are
// in the lender's cache.

// lending are the keys and values of all rows that one layer lends: rows of
// KVHeads·Dim and of KVHeads·VDim. They are not changed any more once the layer is
// done.
type lending struct {
	k, v  []float32
	flows int // that hold it
}

// begin makes room for what a layer of a pass lends, of so many rows.
func (f *flow) begin(l *Layer, rows int, spare *[]*lending) {
	a := &l.Attn
	if a.LendsTo == 0 {
		return
	}
	t := &lending{}
	if n := len(*spare); n > 0 {
		t, *spare = (*spare)[n-1], (*spare)[:n-1]
	}
	t.k, t.v, t.flows = grow(t.k, rows*a.KVHeads*a.Dim), grow(t.v, rows*a.KVHeads*a.VDim), 1
	if f.lent == nil {
		f.lent = map[int]*lending{}
	}
	f.lent[l.Index] = t
}

// end gives up what no layer after l uses.
func (f *flow) end(s *Spec, l *Layer, spare *[]*lending) {
	for i, t := range f.lent {
		if s.Layers[i].Attn.LendsTo > l.Index {
			continue
		}
		delete(f.lent, i)
		if t.flows--; t.flows == 0 {
			*spare = append(*spare, t)
		}
	}
}

// with is a flow of other hidden states with the same beside them.
func (f *flow) with(x []float32) flow {
	n := *f
	n.x, n.lent = x, nil
	for i, t := range f.lent {
		if n.lent == nil {
			n.lent = map[int]*lending{}
		}
		n.lent[i] = t
		t.flows++
	}
	return n
}

// drop gives up all that a flow holds.
func (f *flow) drop(spare *[]*lending) {
	for i, t := range f.lent {
		delete(f.lent, i)
		if t.flows--; t.flows == 0 {
			*spare = append(*spare, t)
		}
	}
}

// lend keeps the keys and values of a sequence in a pass where a later layer uses
// them; in a look nothing is kept.
func (r *run) lend(w *attending, q *sequence, k, v []float32) {
	a := w.a
	if a.LendsTo == 0 || r.look {
		return
	}
	t := r.flow.lent[w.l.Index]
	copy(t.k[q.first*a.KVHeads*a.Dim:], k)
	copy(t.v[q.first*a.KVHeads*a.VDim:], v)
}

// borrowed are the lender's keys and values of a sequence.
func (r *run) borrowed(a *Attention, q *sequence) kv {
	if c, ok := q.cache.(*borrowing); ok {
		c.n += q.n
		of := q.text.caches[a.Lender].(*kvCache)
		return kv{of.k, of.v, of.broken}
	}
	t, kw, vw := r.flow.lent[a.Lender], a.KVHeads*a.Dim, a.KVHeads*a.VDim
	k, v := t.k[q.first*kw:][:q.n*kw], t.v[q.first*vw:][:q.n*vw]
	return kv{k, v, !finite64(r.o.Set.SumSquares(v))}
}

// borrowing is the memory of a layer that borrows: it only counts.
type borrowing struct{ n int }

func (c *borrowing) tokens() int { return c.n }

func (c *borrowing) cut(n int) int {
	c.n = min(n, c.n)
	return c.n
}

func (c *borrowing) room(int, int) {}

func (c *borrowing) copyOf(n, _ int) memory { return &borrowing{min(n, c.n)} }

// lends are the bytes of what stays of each row for later layers, where all is there
// at once.
func (s *Spec) lends() (bytes int64) {
	for i := range s.Layers {
		if a := &s.Layers[i].Attn; a.LendsTo > 0 {
			bytes += a.perToken()
		}
	}
	return bytes
}
