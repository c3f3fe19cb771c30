package model

import (
	"math"

	"quantscope/kernels"
)

// apply writes the norm of each row of x, as wide as w, to y, which may be x.
func (n Norm) apply(set kernels.Set, y, x, w []float32) {
	width := len(w)
	for at := 0; at+width <= len(x); at += width {
		row := x[at : at+width]
		scale := float32(1 / math.Sqrt(set.SumSquares(row)/float64(width)+n.Eps))
		set.MulScaled(y[at:at+width], row, w, scale, n.PlusOne)
	}
}

// norm is Norm.apply over n rows and rounds what it writes.
func (r *run) norm(s *scratch, n Norm, y, x, w []float32, rows int) {
	width := len(x) / max(rows, 1)
	s.share(rows, width, func(from, to int) {
		n.apply(r.o.Set, y[from*width:to*width], x[from*width:to*width], w)
		r.round(y[from*width : to*width])
	})
}

// add adds what a part of a layer makes of a tile, y, to its hidden states x, by way
// of a norm where there is one. Of several streams each takes it up by its coefficient
// and is mixed with the others; what is told is y before that.
func (r *run) add(s *scratch, b *body, p Part, t *tile, x, y, w []float32) {
	width, n := r.spec.Hidden, b.l.Norm
	if r.o.Adds != nil {
		if w != nil {
			r.norm(s, n, y, y, w, t.n)
			w = nil
		}
		r.tellAdds(b.l.Index, p, y[:t.n*width], t.n)
	}
	if n := r.spec.Streams; r.spec.Hyper != nil {
		keep := n * (n + 1)
		s.share(t.n, n*n*width, func(from, to int) {
			if w != nil {
				b.l.Norm.apply(r.o.Set, y[from*width:to*width], y[from*width:to*width], w)
				r.round(y[from*width : to*width])
			}
			for k := from; k < to; k++ {
				spread(x[k*n*width:][:n*width], y[k*width:][:width], r.mixes[(t.first+k)*keep:][:keep], n)
			}
			r.round(x[from*n*width : to*n*width])
		})
		return
	}
	s.share(t.n, width, func(from, to int) {
		x, y := x[from*width:to*width], y[from*width:to*width]
		if w != nil {
			n.apply(r.o.Set, y, y, w)
			r.round(y)
		}
		r.o.Set.AddScaled(x, y, 1)
		r.round(x)
	})
}
