package kernels

import "math"

// What a layer of gated delta rule does to rows round it.

// L2Norm divides every dim values of x by √(Σx²+eps), and multiplies them by
// scale; the factor is made in f64 and rounded.
func (s Set) L2Norm(x []float32, dim int, eps, scale float64) {
	for rows := s.orReference().rows; dim > 0 && len(x) >= dim; x = x[dim:] {
		rows.scale(x[:dim], float32(scale/math.Sqrt(rows.sumSquares(x[:dim])+eps)))
	}
}

// GatedNorm writes RMS(x)·w·silu(gate) to gate, where RMS divides every len(w)
// values of x by √(mean x²+eps). x holds RMS(x)·w afterwards.
func (s Set) GatedNorm(gate, x, w []float32, eps float64) {
	rows, dim := s.orReference().rows, len(w)
	n := min(len(gate), len(x))
	for at := 0; dim > 0 && at+dim <= n; at += dim {
		y := x[at : at+dim]
		rows.mulScaled(y, y, w, float32(1/math.Sqrt(rows.sumSquares(y)/float64(dim)+eps)), false)
		rows.silu(gate[at:at+dim], y)
	}
}

// Softplus is ln(1+e^x), in f64 and rounded.
func Softplus(x float32) float32 { return float32(softplus(float64(x))) }

func softplus(x float64) float64 {
	if x != x {
		return x
	}
	return max(x, 0) + math.Log1p(exp64(-math.Abs(x)))
}

// Sigmoid is 1/(1+e^−x), in f64 and rounded.
func Sigmoid(x float32) float32 {
	switch {
	case x != x:
		return x
	case x < 0: // so that e^x never overflows
		e := exp64(float64(x))
		return float32(e / (1 + e))
	default:
		return float32(1 / (1 + exp64(-float64(x))))
	}
}

// DeltaGates turns what a layer projects into what Delta wants, over rows of one
// value a head: a into g = −e^aLog·softplus(a+bias), b into β = sigmoid(b).
// Arithmetic is f64, results are rounded; no e^aLog is more than e^709.
func DeltaGates(a, b, aLog, bias []float32) {
	heads := min(len(aLog), len(bias))
	if heads == 0 {
		return
	}
	decay := make([]float64, heads)
	for h := range decay {
		x := float64(aLog[h])
		if decay[h] = -exp64(min(x, 709)); x != x {
			decay[h] = x
		}
	}
	for i, x := range a {
		h := i % heads
		a[i] = float32(decay[h] * softplus(float64(x)+float64(bias[h])))
	}
	for i, x := range b {
		b[i] = Sigmoid(x)
	}
}
