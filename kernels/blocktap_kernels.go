package kernels

// blockKernels are what the formats of blockTap need of a set.
type blockKernels struct {
	// load: len(ranges) blocks of group elements, a multiple of 16; see blockLoadRef.
	load func(e Element, src []byte, w []float32, group int, ranges []blockRange)
	// encode: len(params) groups of group finite elements, a multiple of 16; see blockEncodeRef.
	encode func(r blockRule, w []float32, group int, params []blockParams, codes, bins []byte, sums *blockSums)
	// measure: 16·n finite elements; see blockMeasureRef.
	measure func(w, q []float32, bins float32, dst []byte, sums *blockSums)
	// count: see countRef.
	count func(kind countKind, data []byte, counts *[countBins]int64)
	// mass: 16·n finite elements; see blockMassRef.
	mass func(w []float32, mid, limit float64, lanes *[8]float64)
	// rangeError: 16·n finite elements; see rangeErrorRef.
	rangeError func(r blockRule, w []float32, candidates []blockParams, norm float32, lanes [][16]float32)
	// weighedError: 16·n finite elements; see weighedErrorRef.
	weighedError func(r blockRule, w, f []float32, candidates []blockParams, norm float32, lanes [][16]float32)
}

var blocksRef = blockKernels{load: blockLoadRef, encode: blockEncodeRef, measure: blockMeasureRef, count: countRef, mass: blockMassRef, rangeError: rangeErrorRef, weighedError: weighedErrorRef}
