package kernels

import (
	"fmt"
	"math"
	"slices"
)

// defaultDamp is the share of the mean diagonal that GPTQ's authors add.
const defaultDamp = 0.01

// maxRaises is how often a damping is raised, by ten each time.
const maxRaises = 6

// FactorOptions are how a Hessian is factored.
type FactorOptions struct {
	Damp    float64 // of the mean of the diagonal, which is added to it; 0 stands for 0.01
	Order   []int   // of the columns; nil: as they are
	Threads int     // 0 is GOMAXPROCS
}

// checked is a Hessian that can be factored, and the share of its diagonal that
// is added.
func (o FactorOptions) checked(h Dense) (x hessian, damp float64, err error) {
	if x, err = checkHessian(h); err != nil {
		return x, 0, err
	}
	if damp = o.Damp; damp == 0 {
		damp = defaultDamp
	}
	if !(damp > 0) || math.IsInf(damp, 0) {
		return x, 0, fmt.Errorf("hessian: damping of %v: %w", o.Damp, ErrRange)
	}
	if err := checkOrder(o.Order, h.Cols); err != nil {
		return x, 0, fmt.Errorf("hessian: %w", err)
	}
	if x.live == 0 {
		return x, 0, ErrNoData
	}
	return x, damp, nil
}

// Factor is a damped Hessian, H + λI = M·D·Mᵀ, taken apart for GPTQ. M is unit
// upper triangular; it is kept in f32, 2·n² bytes, D in f64. Any number of
// goroutines may use one.
type Factor struct {
	n      int
	lambda float64
	raised int
	order  []int
	panels [][]float32 // of M, as triangle has them
	d      []float64
}

// Factorize factors H + λI. H is n×n and symmetric; only its lower triangle is
// read. λ is Damp times the mean of the diagonal, dead columns left out: a column
// whose diagonal is 0 has no influence and takes none, whatever stands
// beside it.
//
// Sums are f64 (6·n² bytes until it is done), M is then rounded to f32, in which
// GPTQ multiplies by it: that moves a target by less than 2⁻²⁴·Σ|E·M|, as
// much as the rounding of the product itself.
//
// For a semidefinite H no pivot is below λ. One below λ/2 says that the rounding
// of H's entries outweighs the damping: λ is raised tenfold until there is
// none, and Raised says how often. An entry that is not finite, or a negative
// diagonal, is a *HessianError; a zero H is ErrNoData.
func (s Set) Factorize(h Dense, o FactorOptions) (*Factor, error) {
	x, damp, err := o.checked(h)
	if err != nil {
		return nil, err
	}
	threads := threadCount(o.Threads)
	t := newTriangle(h.Cols)
	lambda, raised, err := s.orReference().damped(&x, t, o.Order, damp, threads)
	if err != nil {
		return nil, err
	}
	return newFactor(t, o.Order, lambda, raised, threads), nil
}

// newFactor rounds M to f32. What is in the panels is given up.
func newFactor(t *triangle, order []int, lambda float64, raised, threads int) *Factor {
	f := &Factor{n: t.n, lambda: lambda, raised: raised, order: slices.Clone(order), d: t.d, panels: make([][]float32, len(t.panels))}
	eachTask(threads, len(t.panels), func(p int) {
		src := t.panels[p]
		dst := make([]float32, len(src))
		start, end := t.span(p)
		for i := range end { // below the diagonal is what has no meaning
			for c := max(0, i-start); c < end-start; c++ {
				dst[i*factorBlock+c] = float32(src[i*factorBlock+c])
			}
		}
		f.panels[p], t.panels[p] = dst, nil
	})
	return f
}

// damped takes H + λI apart in t.
func (s Set) damped(x *hessian, t *triangle, order []int, damp float64, threads int) (lambda float64, raised int, err error) {
	lambda = damp * x.mean
	for ; ; raised, lambda = raised+1, 10*lambda {
		x.fill(t, order, nil, lambda, threads)
		if s.factor.factor(t, lambda/2, threads) {
			return lambda, raised, nil
		}
		if raised == maxRaises {
			return 0, raised, fmt.Errorf("hessian: not positive definite with %v on its diagonal of mean %v: %w", lambda, x.mean, ErrRange)
		}
	}
}

// Lambda is what was added to the diagonal.
func (f *Factor) Lambda() float64 { return f.lambda }

// Raised is how often the damping that was asked for had to be raised tenfold.
func (f *Factor) Raised() int { return f.raised }

// Columns is n.
func (f *Factor) Columns() int { return f.n }

// span is triangle's.
func (f *Factor) span(p int) (start, end int) {
	return p * factorBlock, min(f.n, (p+1)*factorBlock)
}
