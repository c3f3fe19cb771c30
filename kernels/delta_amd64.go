//go:build amd64 && !noasm

package kernels

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) {
		s.delta = deltaKernels{scaleRows: scaleRowsWith(scaleRowsAVX2), convolve: convolveWith(convolveAVX2)}
	})
	avx512Kernels = append(avx512Kernels, func(s *Set) {
		s.delta = deltaKernels{scaleRows: scaleRowsWith(scaleRowsAVX512), convolve: convolveWith(convolveAVX512)}
	})
}

func scaleRowsWith(asm func(dst *float32, ldd int, src *float32, lds int, by *float32, rows, cols int)) func(dst []float32, ldd int, src []float32, lds int, by []float32, rows, cols int) {
	return func(dst []float32, ldd int, src []float32, lds int, by []float32, rows, cols int) {
		_, _, _ = dst[(rows-1)*ldd+cols-1], src[(rows-1)*lds+cols-1], by[rows-1]
		asm(&dst[0], 4*ldd, &src[0], 4*lds, &by[0], rows, cols)
	}
}

func convolveWith(asm func(y, x *float32, ldx int, w *float32, ldw, taps, n int)) func(y, x []float32, ldx int, w []float32, ldw, taps int) {
	return func(y, x []float32, ldx int, w []float32, ldw, taps int) {
		n := len(y)
		_, _ = x[(taps-1)*ldx+n-1], w[(taps-1)*ldw+n-1]
		asm(&y[0], &x[0], 4*ldx, &w[0], 4*ldw, taps, n)
	}
}
