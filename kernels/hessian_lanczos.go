package kernels

import (
	"math"
	"math/rand/v2"
)

const (
	lanczosSteps = 40
	lanczosClose = 1e-2 // relative change of the last steps that is none
)

// lanczos is the largest eigenvalue of a positive definite operator of n
// dimensions, which times applies in place: that of its projection on the space
// that its powers make of a fixed random vector, with every vector orthogonalized
// against all others (Golub and Van Loan, Matrix Computations, section 10.1). It
// approaches the eigenvalue from below.
func lanczos(n int, times func(v []float64)) float64 {
	rng := rand.New(rand.NewPCG(11, 13))
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	scaleTo1(v)
	var basis [][]float64
	var diagonal, beside []float64
	last, still := 0.0, 0
	for step := range min(lanczosSteps, n) {
		basis = append(basis, append([]float64(nil), v...))
		times(v)
		diagonal = append(diagonal, dot64(v, basis[step]))
		for range 2 { // once is not enough in floating point
			for _, b := range basis {
				f := dot64(v, b)
				for i := range v {
					v[i] -= f * b[i]
				}
			}
		}
		top := largestOfTridiagonal(diagonal, beside)
		if step > 0 && top <= last*(1+lanczosClose) {
			if still++; still == 2 {
				return top
			}
		} else {
			still = 0
		}
		last = top
		b := math.Sqrt(dot64(v, v))
		if !(b > 1e-14*math.Abs(top)) {
			return top // the space is invariant
		}
		beside = append(beside, b)
		for i := range v {
			v[i] /= b
		}
	}
	return last
}

// dot64 is ⟨x,y⟩ in four running sums, so that one need not wait for another.
func dot64(x, y []float64) float64 {
	var s [4]float64
	for len(x) >= 4 && len(y) >= 4 {
		s[0] += x[0] * y[0]
		s[1] += x[1] * y[1]
		s[2] += x[2] * y[2]
		s[3] += x[3] * y[3]
		x, y = x[4:], y[4:]
	}
	for i := range x {
		s[0] += x[i] * y[i]
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}

func scaleTo1(v []float64) {
	f := 1 / math.Sqrt(dot64(v, v))
	for i := range v {
		v[i] *= f
	}
}

// largestOfTridiagonal is the largest eigenvalue of a symmetric tridiagonal
// matrix, by bisection: pivots of what is left of it less x are all negative
// where x is above.
func largestOfTridiagonal(diagonal, beside []float64) float64 {
	low, high := math.Inf(-1), math.Inf(-1)
	for i, d := range diagonal {
		r := 0.0
		if i > 0 {
			r += beside[i-1]
		}
		if i < len(diagonal)-1 {
			r += beside[i]
		}
		low, high = max(low, d), max(high, d+r)
	}
	above := func(x float64) bool {
		pivot := 1.0
		for i, d := range diagonal {
			off := 0.0
			if i > 0 {
				off = beside[i-1] * beside[i-1] / pivot
			}
			if pivot = d - x - off; pivot >= 0 {
				return false
			}
		}
		return true
	}
	for range 60 {
		mid := low + (high-low)/2
		if above(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}
