package landscape

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// factor sorts the tensors of a group: by layer, expert index, projection, or by
// cell, which is layer and projection at once.
type factor struct {
	name  string  // layer, expert, projection, cell
	level []int32 // by tensor of the group
	names []string
	count []int // tensors by level
}

func (f *factor) levels() int { return len(f.names) }

// newFactor sorts n tensors by a key, whose values are put in order.
func newFactor[K comparable](name string, n int, key func(i int) K, order func(a, b K) int, label func(K) string) *factor {
	index := map[K]int32{}
	var keys []K
	for i := range n {
		k := key(i)
		if _, ok := index[k]; !ok {
			index[k] = 0
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, order)
	f := &factor{name: name, level: make([]int32, n), count: make([]int, len(keys))}
	for l, k := range keys {
		index[k] = int32(l)
		f.names = append(f.names, label(k))
	}
	for i := range n {
		f.level[i] = index[key(i)]
		f.count[f.level[i]]++
	}
	return f
}

// byLayer has MTP layers behind the others.
func byLayer(a, b layerKey) int {
	switch {
	case a.mtp && !b.mtp:
		return 1
	case b.mtp && !a.mtp:
		return -1
	}
	return cmp.Compare(a.layer, b.layer)
}

// projectionOrder is how projections are listed; others follow by name.
var projectionOrder = []string{"q", "k", "v", "o", "qkv", "gate", "up", "gate_up", "down"}

func byProjection(a, b string) int {
	place := func(p string) int {
		if i := slices.Index(projectionOrder, p); i >= 0 {
			return i
		}
		return len(projectionOrder)
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
}

func expertName(e int) string {
	if e < 0 {
		return "no expert"
	}
	return fmt.Sprintf("expert %d", e)
}

func projectionName(p string) string {
	if p == "" {
		return "no projection"
	}
	return p
}

// fit is a weighted least-squares fit of an additive model: a constant and an
// effect for each level of each factor. Levels whose effect follows from the
// others', as the last of each factor does from the constant, are aliased: their
// coefficient is 0.
type fit struct {
	factors []*factor
	start   []int // column of each factor's first level; column 0 is the constant
	p       int   // columns
	rank    int
	n       int // tensors with a weight
	chol    []float64
	aliased []bool
	coef    []float64
	inverse []float64 // of the normal matrix over columns that are not aliased; nil until invert
	sse     float64   // Σw·r²
}

// aliasTolerance is how small a pivot may be, against its diagonal before
// elimination, to count as nothing left: sums of 37,152 small whole numbers or
// weights keep some 1e-12.
const aliasTolerance = 1e-9

// fitAdditive fits x with weights w; nil weights are 1.
func fitAdditive(factors []*factor, x, w []float64) *fit {
	f := &fit{factors: factors, p: 1, start: make([]int, len(factors))}
	for k, fa := range factors {
		f.start[k] = f.p
		f.p += fa.levels()
	}
	p := f.p
	gram, right := make([]float64, p*p), make([]float64, p)
	cols := make([]int, len(factors)+1)
	for i, v := range x {
		weight := 1.0
		if w != nil {
			weight = w[i]
		}
		if weight == 0 {
			continue
		}
		f.n++
		f.columns(i, cols)
		for a, ca := range cols {
			right[ca] += weight * v
			for _, cb := range cols[:a+1] {
				gram[ca*p+cb] += weight // columns rise, so this is the lower triangle
			}
		}
	}
	f.factorize(gram)
	f.solve(right)
	for i, v := range x {
		weight := 1.0
		if w != nil {
			weight = w[i]
		}
		if weight != 0 {
			r := v - f.at(i)
			f.sse += weight * r * r
		}
	}
	return f
}

// columns are those of tensor i, rising.
func (f *fit) columns(i int, cols []int) {
	cols[0] = 0
	for k, fa := range f.factors {
		cols[k+1] = f.start[k] + int(fa.level[i])
	}
}

// factorize is Cholesky's decomposition, which passes over columns that depend
// on those before.
func (f *fit) factorize(gram []float64) {
	p := f.p
	f.chol, f.aliased = gram, make([]bool, p)
	for i := range p {
		row := gram[i*p : i*p+i+1]
		diagonal := row[i]
		for j := range i {
			if f.aliased[j] {
				row[j] = 0
				continue
			}
			other := gram[j*p : j*p+j+1]
			row[j] = (row[j] - dot(row[:j], other[:j])) / other[j]
		}
		pivot := diagonal - dot(row[:i], row[:i])
		if !(pivot > aliasTolerance*diagonal) {
			f.aliased[i] = true
			row[i] = 0
			continue
		}
		row[i] = math.Sqrt(pivot)
		f.rank++
	}
}

func dot(a, b []float64) (s float64) {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s += a[i] * b[i]
	}
	return s + ((s0 + s2) + (s1 + s3))
}

func (f *fit) solve(right []float64) {
	p := f.p
	f.coef = right
	for i := range p {
		if f.aliased[i] {
			f.coef[i] = 0
			continue
		}
		f.coef[i] = (f.coef[i] - dot(f.chol[i*p:i*p+i], f.coef[:i])) / f.chol[i*p+i]
	}
	for i := p - 1; i >= 0; i-- {
		if f.aliased[i] {
			continue
		}
		v := f.coef[i] / f.chol[i*p+i]
		f.coef[i] = v
		for j := range i {
			f.coef[j] -= f.chol[i*p+j] * v
		}
	}
}

// at is the fitted value of tensor i.
func (f *fit) at(i int) float64 {
	v := f.coef[0]
	for k, fa := range f.factors {
		v += f.coef[f.start[k]+int(fa.level[i])]
	}
	return v
}

// df is how many degrees of freedom residuals have.
func (f *fit) df() int { return f.n - f.rank }

// invert makes the covariance of the coefficients, for a residual variance of 1.
func (f *fit) invert() {
	p := f.p
	// Row j of t is row j of the transposed inverse of the factor: column j of it.
	t := make([]float64, p*p)
	for j := range p {
		if f.aliased[j] {
			continue
		}
		col := t[j*p : (j+1)*p]
		col[j] = 1 / f.chol[j*p+j]
		for i := j + 1; i < p; i++ {
			if !f.aliased[i] {
				col[i] = -dot(f.chol[i*p+j:i*p+i], col[j:i]) / f.chol[i*p+i]
			}
		}
	}
	f.inverse = make([]float64, p*p)
	for a := range p {
		for b := range a + 1 {
			v := dot(t[a*p+a:(a+1)*p], t[b*p+a:(b+1)*p])
			f.inverse[a*p+b], f.inverse[b*p+a] = v, v
		}
	}
}

// leverage is the variance of the fitted value of tensor i, for a residual
// variance of 1. invert goes first.
func (f *fit) leverage(i int, cols []int) (h float64) {
	f.columns(i, cols)
	for _, a := range cols {
		for _, b := range cols {
			h += f.inverse[a*f.p+b]
		}
	}
	return h
}
