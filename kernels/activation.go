package kernels

import "math"

// What a forward pass does to rows between its products. A function of several
// rows works on as many values as the shortest has; every set returns the same
// bits, but for a NaN's payload. Sums are kept in 16 f64 lanes, value i in lane
// i mod 16, and the lanes are added in halves (laneTree).

// rowKernels is what a Set brings to rows of f32; rows are not empty and of one
// length. Reference has the definitions.
type rowKernels struct {
	silu       func(gate, up []float32)                          // see siluRef
	geluTanh   func(gate, up []float32)                          // see geluTanhRef
	swiGLU     func(gate, up []float32, limit, slope float32)    // see swiGLURef
	expSum     func(x []float32, m float32) float64              // see expSumRef
	max        func(x []float32) float32                         // see maxRef
	scale      func(x []float32, a float32)                      // see scaleRef
	addScaled  func(y, x []float32, a float32)                   // see addScaledRef
	sumSquares func(x []float32) float64                         // see sumSquaresRef
	mulScaled  func(y, x, w []float32, a float32, plusOne bool)  // see mulScaledRef
	top        func(x []float32) (most float32, first int)       // see topRef
	logSum     func(x []float32, m float64) float64              // see logSumRef
	divergence func(p, q []float32, by *divergenceOf) [3]float64 // see divergenceRef
}

// SiLU writes silu(gate)·up = gate/(1+e^−gate)·up to gate, each operation rounded
// to f32, with exp32's exponential. Below −88.7, where e^−gate has no f32, it is −0.
func (s Set) SiLU(gate, up []float32) {
	if n := min(len(gate), len(up)); n > 0 {
		s.rows.silu(gate[:n], up[:n])
	}
}

// GELUTanh writes gelu(gate)·up to gate, by the tanh formula of Hendrycks and
// Gimpel (arXiv 1606.08415), ½·x·(1+tanh z) = x/(1+e^−2z) with
// z = √(2/π)·(x + 0.044715·x³).
func (s Set) GELUTanh(gate, up []float32) {
	if n := min(len(gate), len(up)); n > 0 {
		s.rows.geluTanh(gate[:n], up[:n])
	}
}

// SwiGLU writes g/(1+e^(−slope·g))·(u+1) to gate, g being gate where it is at most
// limit, and u up within ±limit: gpt-oss has it with 7 and 1.702.
func (s Set) SwiGLU(gate, up []float32, limit, slope float32) {
	if n := min(len(gate), len(up)); n > 0 {
		s.rows.swiGLU(gate[:n], up[:n], limit, slope)
	}
}

// ExpSum writes e^(x−m) to x, as exp32 has it, and returns the sum of what was
// written.
func (s Set) ExpSum(x []float32, m float32) (sum float64) {
	if len(x) == 0 {
		return 0
	}
	return s.rows.expSum(x, m)
}

// Softmax turns the scores x[from:to] into weights, which add up to 1, and makes
// the others 0. A range beyond x is cut to it. Where sink is not −Inf it takes
// part in the sum and gets nothing. Scores that are all −Inf give NaN.
func (s Set) Softmax(x []float32, from, to int, sink float32) {
	from = min(max(from, 0), len(x))
	to = min(max(to, from), len(x))
	clear(x[:from])
	clear(x[to:])
	seen := x[from:to]
	if len(seen) == 0 {
		return
	}
	m := max(s.rows.max(seen), sink)
	sum := s.rows.expSum(seen, m)
	if !math.IsInf(float64(sink), -1) {
		sum += math.Exp(float64(sink) - float64(m))
	}
	s.rows.scale(seen, float32(1/sum))
}

// Max is the largest of x, −Inf where there is none, +0 where it is a zero; a
// NaN makes it NaN.
func (s Set) Max(x []float32) float32 {
	if len(x) == 0 {
		return float32(math.Inf(-1))
	}
	return s.rows.max(x)
}

// Scale multiplies x by a.
func (s Set) Scale(x []float32, a float32) {
	if len(x) > 0 {
		s.rows.scale(x, a)
	}
}

// AddScaled adds a·x to y, rounding once.
func (s Set) AddScaled(y, x []float32, a float32) {
	if n := min(len(y), len(x)); n > 0 {
		s.rows.addScaled(y[:n], x[:n], a)
	}
}

// SumSquares is Σx². Every square is exact in f64.
func (s Set) SumSquares(x []float32) (sum float64) {
	if len(x) == 0 {
		return 0
	}
	return s.rows.sumSquares(x)
}

// MulScaled writes (x·a)·w to y, or (x·a)·(1+w). y may be x.
func (s Set) MulScaled(y, x, w []float32, a float32, plusOne bool) {
	if n := min(len(y), len(x), len(w)); n > 0 {
		s.rows.mulScaled(y[:n], x[:n], w[:n], a, plusOne)
	}
}
