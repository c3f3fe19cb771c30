package model

import (
	"math"
	"slices"
)

// windows is how a compressor makes entries: of every Rate tokens one of Dim values.
// With Overlap an entry is made of two windows, the first half of what the tokens of
// the window before say and the second half of what those of its own do.
type windows struct {
	Rate, Dim int
	Overlap   bool
}

// cols is how many values, and weights of them, a token has.
func (p windows) cols() int {
	if p.Overlap {
		return 2 * p.Dim
	}
	return p.Dim
}

// wide is how many f32 a row takes while entries are made of it.
func (p windows) wide() int { return 2*p.cols() + ceilDiv(p.Dim, p.Rate) }

// compressor is a compressor with the weights of a layer.
type compressor struct {
	windows
	kv, gate  linear
	ape, norm []float32 // Rate×cols, Dim
}

func (p windows) tensors(t *tensors, name string) {
	h := t.spec.Hidden
	t.matrix(attn(t.l, name+".kv"), p.cols(), h)
	t.matrix(attn(t.l, name+".gate"), p.cols(), h)
	t.vector(attn(t.l, name+".ape"), "weight", p.Rate*p.cols())
	t.vector(normAt(t.l, name+".norm"), "weight", p.Dim)
}

func (p windows) read(r *list, l *Layer, name string) *compressor {
	c, h := &compressor{windows: p}, r.spec.Hidden
	r.matrix(&c.kv, attn(l, name+".kv"), p.cols(), h)
	r.matrix(&c.gate, attn(l, name+".gate"), p.cols(), h)
	r.values(&c.ape, attn(l, name+".ape"), "weight", p.Rate*p.cols())
	r.values(&c.norm, normAt(l, name+".norm"), "weight", p.Dim)
	return c
}

// pool is what a compressor keeps of a text: its entries, and of the last tokens the
// rows that further entries are made of.
type pool struct {
	windows
	n        int       // tokens
	entries  []float32 // of the windows that are complete
	first    int       // the first token of the rows
	kv, gate []float32 // rows of cols
	marks    []float32 // with Overlap: the first halves of the rows of every markEvery-th window
}

// Rows stay of the tokens that drafts may take back, and of the windows that they
// are in. A text that is cut back farther goes on from the end of a window: with
// Overlap from one whose rows were marked. Layers of several rates meet where all of them
// can go on, which is near where one rate is a multiple of the other, as in the releases.
const (
	takenBack = 64
	markEvery = 16
)

// take takes up the rows of n tokens, and makes the entries of windows that become
// complete.
func (c *compressor) take(r *run, s *scratch, eps Norm, rope *Rope, angles *angles, p *pool, kv, gate []float32, n int) {
	w := c.cols()
	p.kv, p.gate = append(p.kv, kv[:n*w]...), append(p.gate, gate[:n*w]...)
	from := p.n / c.Rate
	p.n += n
	c.make(r, s, eps, rope, angles, p, from)
	if !c.Overlap {
		return
	}
	for win := from; win < p.n/c.Rate; win++ {
		if (win+1)%markEvery != 0 {
			continue
		}
		for _, rows := range [][]float32{p.kv, p.gate} {
			for k := range c.Rate {
				p.marks = append(p.marks, rows[(win*c.Rate+k-p.first)*w:][:c.Dim]...)
			}
		}
	}
}

// make makes the entries of windows from one on, of rows that are there.
func (c *compressor) make(r *run, s *scratch, eps Norm, rope *Rope, angles *angles, p *pool, from int) {
	to := p.n / c.Rate
	p.entries = slices.Grow(p.entries, (to-from)*c.Dim)[:to*c.Dim]
	s.share(to-from, c.Rate*c.cols()*8, func(first, end int) {
		slots := make([]float32, 2*c.Rate)
		for win := from + first; win < from+end; win++ {
			dst := p.entries[win*c.Dim:][:c.Dim]
			c.entry(r, p, win, dst, slots)
			r.round(dst)
			eps.apply(r.o.Set, dst, dst, c.norm)
			r.round(dst)
			rope.rotate(dst[c.Dim-rope.Dim:], angles, win*c.Rate)
			r.round(dst)
		}
	})
}

// entry writes the weighted sum of a window: for each channel the softmax over its
// tokens of gate and ape says how much each counts.
func (c *compressor) entry(r *run, p *pool, win int, dst, slots []float32) {
	w, at := c.cols(), (win*c.Rate-p.first)*c.cols()
	if !c.Overlap {
		slots = slots[:c.Rate]
	} else if win == 0 { // there is no window before it
		slots = slots[c.Rate:]
	}
	before := len(slots) - c.Rate // slots of the window before
	own := w - c.Dim              // where the half of the window's own begins
	for ch := range dst {
		for k := range before {
			slots[k] = p.gate[at-(c.Rate-k)*w+ch] + c.ape[k*w+ch]
		}
		for k := range c.Rate {
			slots[before+k] = p.gate[at+k*w+own+ch] + c.ape[k*w+own+ch]
		}
		r.o.Set.Softmax(slots, 0, len(slots), float32(math.Inf(-1)))
		var sum float64
		for k := range before {
			sum += float64(slots[k]) * float64(p.kv[at-(c.Rate-k)*w+ch])
		}
		for k := range c.Rate {
			sum += float64(slots[before+k]) * float64(p.kv[at+k*w+own+ch])
		}
		dst[ch] = float32(sum)
	}
}

// lowest is the first token whose rows are needed to go on after n tokens.
func (p *pool) lowest(n int) int {
	start := n / p.Rate * p.Rate
	if p.Overlap {
		start -= p.Rate
	}
	return max(start, 0)
}

// trim forgets rows that are not needed any more, many at a time.
func (p *pool) trim() {
	low := p.lowest(max(p.n-takenBack, 0))
	if low-p.first < 2*takenBack {
		return
	}
	skip := (low - p.first) * p.cols()
	p.kv = p.kv[:copy(p.kv, p.kv[skip:])]
	p.gate = p.gate[:copy(p.gate, p.gate[skip:])]
	p.first = low
}

// cut forgets all but the first n tokens, or more, and says how many are left.
func (p *pool) cut(n int) int {
	if n >= p.n {
		return p.n
	}
	w := p.cols()
	switch {
	case p.lowest(n) >= p.first:
		p.kv, p.gate = p.kv[:(n-p.first)*w], p.gate[:(n-p.first)*w]
	case !p.Overlap:
		n = n / p.Rate * p.Rate
		p.first, p.kv, p.gate = n, p.kv[:0], p.gate[:0]
	default:
		n = n / (markEvery * p.Rate) * markEvery * p.Rate
		p.first, p.kv, p.gate = max(n-p.Rate, 0), p.kv[:0], p.gate[:0]
		if n > 0 {
			each := p.Rate * p.Dim
			mark := p.marks[(n/(markEvery*p.Rate)-1)*2*each:][:2*each]
			p.kv, p.gate = wider(p.kv, mark[:each], p.Dim), wider(p.gate, mark[each:], p.Dim)
		}
	}
	p.n = n
	p.entries = p.entries[:n/p.Rate*p.Dim]
	if p.Overlap {
		p.marks = p.marks[:n/(markEvery*p.Rate)*2*p.Rate*p.Dim]
	}
	return n
}

// wider appends rows of half the width, with nothing in the other half.
func wider(dst, half []float32, dim int) []float32 {
	for at := 0; at < len(half); at += dim {
		dst = append(dst, half[at:at+dim]...)
		dst = append(dst, make([]float32, dim)...)
	}
	return dst
}

// clone is a pool of its own.
func (p *pool) clone() *pool {
	if p == nil {
		return nil
	}
	d := *p
	d.entries, d.kv, d.gate, d.marks = slices.Clone(p.entries), slices.Clone(p.kv), slices.Clone(p.gate), slices.Clone(p.marks)
	return &d
}

// perToken and fixed are the bytes of a pool, of each token and of any text.
func (p windows) perToken() int64 {
	n := ceilDiv(p.Dim, p.Rate)
	if p.Overlap {
		n += ceilDiv(2*p.Dim, markEvery)
	}
	return 4 * int64(n)
}

func (p windows) fixed() int64 {
	return 4 * 2 * int64(p.cols()) * int64(3*takenBack+2*p.Rate)
}
