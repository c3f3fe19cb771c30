package kernels

import "math"

// rowsRef is the definition of every kernel of rows.
var rowsRef = rowKernels{
	silu: siluRef, geluTanh: geluTanhRef, swiGLU: swiGLURef, expSum: expSumRef, max: maxRef, scale: scaleRef, addScaled: addScaledRef,
	sumSquares: sumSquaresRef, mulScaled: mulScaledRef, top: topRef, logSum: logSumRef, divergence: divergenceRef,
}

// rowLanes is how many running sums a row has.
const rowLanes = 16

func siluRef(gate, up []float32) {
	for i, g := range gate {
		gate[i] = g / (1 + exp32(-g)) * up[i]
	}
}

// −2·√(2/π), and 0.044715 times that.
const (
	geluLinear = -1.5957691216057308
	geluCubic  = -0.07135481627260025
)

func geluTanhRef(gate, up []float32) {
	for i, g := range gate {
		z := g * fma32(geluCubic, float32(g*g), geluLinear)
		gate[i] = g / (1 + exp32(z)) * up[i]
	}
}

func swiGLURef(gate, up []float32, limit, slope float32) {
	for i, g := range gate {
		u := up[i]
		if g > limit {
			g = limit
		}
		if u > limit {
			u = limit
		}
		if u < -limit {
			u = -limit
		}
		gate[i] = g / (1 + exp32(-slope*g)) * (u + 1)
	}
}

func expSumRef(x []float32, m float32) float64 {
	var lanes [rowLanes]float64
	for i, v := range x {
		x[i] = exp32(v - m)
		lanes[i%rowLanes] += float64(x[i])
	}
	return laneTree(lanes)
}

func maxRef(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, v := range x {
		m = max(m, v)
	}
	return m + 0 // makes −0 +0
}

func scaleRef(x []float32, a float32) {
	for i := range x {
		x[i] *= a
	}
}

func addScaledRef(y, x []float32, a float32) {
	for i, v := range x {
		y[i] = fma32(a, v, y[i])
	}
}

func sumSquaresRef(x []float32) float64 {
	var lanes [rowLanes]float64
	for i, v := range x {
		lanes[i%rowLanes] += float64(v) * float64(v)
	}
	return laneTree(lanes)
}

func mulScaledRef(y, x, w []float32, a float32, plusOne bool) {
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
