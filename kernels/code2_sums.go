package kernels

import "math"

// bookSums are what a choice of a codebook knows of a matrix, by the cells of
// bookCell that its elements x = w/step are in. With f the importance or 1:
type bookSums struct {
	square [bookCells]float64 // Σ f·step²
	first  [bookCells]float64 // Σ f·step·w
	steps  [bookCells]float64 // Σ step, for the sign bias, which is not weighed
	whole  float64            // Σ f·w², also of elements whose step is 0
}

// add takes in an element that is finite and has a step.
func (b *bookSums) add(cell int, w, step, f float64) {
	weight := float64(step * f)
	b.square[cell] += float64(weight * step)
	b.first[cell] += float64(weight * w)
	b.steps[cell] += step
	b.whole += float64(float64(w*w) * f)
}

// bookTrial is one codebook in a search. error less bookSums.whole, and bias less Σw,
// are the same for all codebooks.
type bookTrial struct {
	mask        uint16
	error, bias float64 // Σ f·(w−q)², Σ(q−w)
	dot         float64 // Σ f·q·w
	symmetric   bool
}

// each tries all codebooks, in the order of their values. The error is Σ over the
// values of a codebook, each with the elements that are nearest to it, of v²·Σf·step²
// − 2v·Σf·step·w, to which Σf·w² is the same for all.
func (b *bookSums) each(f func(t bookTrial)) {
	// between[i][k] is the border of cells halfway between two values.
	var between [15][15]int
	var v [15]float64
	for i, code := range e2m1Ascending {
		v[i] = float64(e2m1Values[code])
	}
	for i := range v {
		for k := range v {
			between[i][k] = int((v[i]+v[k])*2) - bookFirst
		}
	}
	var square, first, steps [bookCells + 1]float64 // of the cells below each border
	for cell := range bookCells {
		square[cell+1] = square[cell] + b.square[cell]
		first[cell+1] = first[cell] + b.first[cell]
		steps[cell+1] = steps[cell] + b.steps[cell]
	}
	part := func(i, from, to int) (error, bias, dot float64) {
		dot = float64(v[i] * (first[to] - first[from]))
		return float64(v[i]*v[i]*(square[to]-square[from])) - 2*dot, float64(v[i] * (steps[to] - steps[from])), dot
	}
	for i := range 15 {
		for k := i + 1; k < 15; k++ {
			ik := between[i][k]
			e1, b1, d1 := part(i, 0, ik)
			for l := k + 1; l < 15; l++ {
				kl := between[k][l]
				e2, b2, d2 := part(k, ik, kl)
				e2, b2, d2 = e1+e2, b1+b2, d1+d2
				for n := l + 1; n < 15; n++ {
					ln := between[l][n]
					e3, b3, d3 := part(l, kl, ln)
					e4, b4, d4 := part(n, ln, bookCells)
					f(bookTrial{
						mask:  1<<e2m1Ascending[i] | 1<<e2m1Ascending[k] | 1<<e2m1Ascending[l] | 1<<e2m1Ascending[n],
						error: e2 + e3 + e4, bias: b2 + b3 + b4, dot: d2 + d3 + d4, symmetric: i+n == 14 && k+l == 14,
					})
				}
			}
		}
	}
}

// asymBand is how far from sym's error that of asym may be, relative to it.
const asymBand = 0.02

// choose is the choice of a method; of equals the first, by values ascending.
func (b *bookSums) choose(method string) Recoding {
	least := bookTrial{error: math.Inf(1)}
	sym := least
	b.each(func(t bookTrial) {
		if t.error < least.error {
			least = t
		}
		if t.symmetric && t.error < sym.error {
			sym = t
		}
	})
	r := Recoding{Codebook: least.mask, L2: b.relative(least), Sym: b.relative(sym)}
	switch method {
	case "sym":
		r.Codebook = sym.mask
	case "asym":
		r.Codebook = b.asym(sym)
	case "mirror":
		r.Codebook = mirrorBook(b.asym(sym))
	default:
		if named, err := NamedBook(method); err == nil {
			r.Codebook = named
		}
	}
	return r
}

// relative is an error as a share of Σ f·w²; 0 of a matrix of zeros.
func (b *bookSums) relative(t bookTrial) float64 {
	if b.whole == 0 {
		return 0
	}
	return max(0, b.whole+t.error) / b.whole
}

// asym is, of the codebooks that are not their own mirror image and have sym's error
// but for asymBand, the one with the largest sign bias; where none has, the one whose
// error is nearest.
func (b *bookSums) asym(sym bookTrial) uint16 {
	band := asymBand * max(0, b.whole+sym.error)
	var biased, nearest bookTrial
	most, least := math.Inf(-1), math.Inf(1)
	b.each(func(t bookTrial) {
		if t.symmetric {
			return
		}
		off := math.Abs(t.error - sym.error)
		if off <= band && t.bias > most {
			biased, most = t, t.bias
		}
		if off < least {
			nearest, least = t, off
		}
	})
	if biased.mask != 0 {
		return biased.mask
	}
	return nearest.mask
}

// mirrorBook is the codebook of the negated values.
func mirrorBook(mask uint16) uint16 {
	return mask&1 | mask<<8&0xfe00 | mask>>8&0xfe
}
