package kernels

// deltaKernels is what a Set brings to Delta and Convolve beside products and
// rows.
type deltaKernels struct {
	scaleRows func(dst []float32, ldd int, src []float32, lds int, by []float32, rows, cols int) // see scaleRowsRef
	convolve  func(y, x []float32, ldx int, w []float32, ldw, taps int)                          // see convolveRef
}

var deltaRef = deltaKernels{scaleRows: scaleRowsRef, convolve: convolveRef}

// scaleRowsRef sets dst[r·ldd+c] = src[r·lds+c]·by[r] for rows rows and cols
// columns, which are positive.
func scaleRowsRef(dst []float32, ldd int, src []float32, lds int, by []float32, rows, cols int) {
	for r, a := range by[:rows] {
		to := dst[r*ldd:][:cols]
		for c, x := range src[r*lds:][:cols] {
			to[c] = x * a
		}
	}
}

// convolveRef sets y[c] to the sum of x[i·ldx+c]·w[i·ldw+c] over ascending taps
// i: from +0, each step rounded once. y is not empty, taps are positive.
func convolveRef(y, x []float32, ldx int, w []float32, ldw, taps int) {
	clear(y)
	for i := range taps {
		by := w[i*ldw:][:len(y)]
		for c, v := range x[i*ldx:][:len(y)] {
			y[c] = fma32(v, by[c], y[c])
		}
	}
}
