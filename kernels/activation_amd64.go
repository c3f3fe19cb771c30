//go:build amd64 && !noasm

package kernels

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) { s.rows = &rowsAVX2 })
	avx512Kernels = append(avx512Kernels, func(s *Set) { s.rows = &rowsAVX512 })
}

var rowsAVX2 = rowKernels{
	silu:       func(gate, up []float32) { siluAVX2(&gate[0], &up[0], len(gate)) },
	geluTanh:   func(gate, up []float32) { geluTanhAVX2(&gate[0], &up[0], len(gate)) },
	swiGLU:     func(gate, up []float32, limit, slope float32) { swiGLUAVX2(&gate[0], &up[0], len(gate), limit, slope) },
	expSum:     func(x []float32, m float32) float64 { return expSumAVX2(&x[0], len(x), m) },
	max:        func(x []float32) float32 { return maxAVX2(&x[0], len(x)) },
	scale:      func(x []float32, a float32) { scaleAVX2(&x[0], len(x), a) },
	addScaled:  func(y, x []float32, a float32) { addScaledAVX2(&y[0], &x[0], len(y), a) },
	sumSquares: func(x []float32) float64 { return sumSquaresAVX2(&x[0], len(x)) },
	mulScaled: func(y, x, w []float32, a float32, plusOne bool) {
		if plusOne {
			mulScaledPlusOneAVX2(&y[0], &x[0], &w[0], len(y), a)
		} else {
			mulScaledAVX2(&y[0], &x[0], &w[0], len(y), a)
		}
	},
	top:        func(x []float32) (float32, int) { return topBy(x, maxAVX2(&x[0], len(x)), findValueAVX2) },
	logSum:     logSumVectorsAVX2,
	divergence: divergenceVectorsAVX2,
}

var rowsAVX512 = rowKernels{
	silu:     func(gate, up []float32) { siluAVX512(&gate[0], &up[0], len(gate)) },
	geluTanh: func(gate, up []float32) { geluTanhAVX512(&gate[0], &up[0], len(gate)) },
	swiGLU: func(gate, up []float32, limit, slope float32) {
		swiGLUAVX512(&gate[0], &up[0], len(gate), limit, slope)
	},
	expSum:     func(x []float32, m float32) float64 { return expSumAVX512(&x[0], len(x), m) },
	max:        func(x []float32) float32 { return maxAVX512(&x[0], len(x)) },
	scale:      func(x []float32, a float32) { scaleAVX512(&x[0], len(x), a) },
	addScaled:  func(y, x []float32, a float32) { addScaledAVX512(&y[0], &x[0], len(y), a) },
	sumSquares: func(x []float32) float64 { return sumSquaresAVX512(&x[0], len(x)) },
	mulScaled: func(y, x, w []float32, a float32, plusOne bool) {
		if plusOne {
			mulScaledPlusOneAVX512(&y[0], &x[0], &w[0], len(y), a)
		} else {
			mulScaledAVX512(&y[0], &x[0], &w[0], len(y), a)
		}
	},
	top:        func(x []float32) (float32, int) { return topBy(x, maxAVX512(&x[0], len(x)), findValueAVX512) },
	logSum:     logSumVectorsAVX512,
	divergence: divergenceVectorsAVX512,
}
