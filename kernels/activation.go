package kernels

import "math"

// What a forward pass does to rows between its products. The Go code here is the
// definition; sets return the same bits.

// SiLU writes silu(gate)·up = gate/(1+e^−gate)·up to gate.
func (s Set) SiLU(gate, up []float32) {
	for i, g := range gate {
		gate[i] = g / (1 + float32(math.Exp(float64(-g)))) * up[i]
	}
}

// GELUTanh writes gelu(gate)·up to gate, by the tanh formula.
func (s Set) GELUTanh(gate, up []float32) {
	for i, g := range gate {
		x := float64(g)
		t := math.Tanh(math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x))
		gate[i] = float32(0.5*x*(1+t)) * up[i]
	}
}

// ExpSum writes e^(x−m) to x and returns the sum of what was written.
func (s Set) ExpSum(x []float32, m float32) (sum float64) {
	for i, v := range x {
		x[i] = float32(math.Exp(float64(v - m)))
		sum += float64(x[i])
	}
	return sum
}

// Max is the largest of x, −Inf where there is none; a NaN makes it NaN.
func (s Set) Max(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, v := range x {
		m = max(m, v)
	}
	return m
}

// Scale multiplies x by a.
func (s Set) Scale(x []float32, a float32) {
	for i := range x {
		x[i] *= a
	}
}

// AddScaled adds a·x to y.
func (s Set) AddScaled(y, x []float32, a float32) {
	for i, v := range x {
		y[i] += a * v
	}
}

// SumSquares is Σx².
func (s Set) SumSquares(x []float32) (sum float64) {
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return sum
}

// MulScaled writes x·a·w to y, or x·a·(1+w).
func (s Set) MulScaled(y, x, w []float32, a float32, plusOne bool) {
	if plusOne {
		for i, v := range x {
			y[i] = v * a * (1 + w[i])
		}
		return
	}
	for i, v := range x {
		y[i] = v * a * w[i]
	}
}
