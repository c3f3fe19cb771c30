package kernels

import (
	"encoding/binary"
	"math"
)

// gemmKernels is what a Set brings to products. A tile of C is at most
// tileRows×tileCols.
type gemmKernels struct {
	tileRows, tileCols int

	tile          func(rows, depth int, a, b, c []float32, stride int, alpha float32, accumulate bool) // see gemmTileRef
	copyPanel     func(dst, src []float32, lds, rows int)                                              // see copyPanelRef
	transposeF32  func(dst []float32, ldd int, src []float32, lds, rows, cols int)                     // see transposeRef
	transposeBF16 func(dst []float32, ldd int, src []byte, lds, rows, cols int)                        // see transposeBF16Ref
}

var gemmRef = gemmKernels{
	tileRows: 4, tileCols: gemmTileColsRef,
	tile: gemmTileRef, copyPanel: copyPanelRef, transposeF32: transposeRef, transposeBF16: transposeBF16Ref,
}

const (
	gemmDepth       = PanelDepth // as kernels/_gen knows it
	gemmTileColsRef = 16
)

// gemmTileRef makes rows×16 elements of C, whose rows are stride apart, from
// depth ≤ gemmDepth steps: row r of A's panel starts at a[r·gemmDepth], and
// b[k·16] holds the 16 elements of B for step k. GEMM says what is computed.
func gemmTileRef(rows, depth int, a, b, c []float32, stride int, alpha float32, accumulate bool) {
	const cols = gemmTileColsRef
	for r := range rows {
		var sum [cols]float32
		for k, x := range a[r*gemmDepth:][:depth] {
			for j, y := range b[k*cols:][:cols] {
				sum[j] = fma32(x, y, sum[j])
			}
		}
		row := c[r*stride:][:cols]
		for j, s := range sum {
			if accumulate {
				row[j] = fma32(alpha, s, row[j])
			} else {
				row[j] = fma32(alpha, s, 0)
			}
		}
	}
}

// fma32 is x·y+z rounded once to f32. The product is exact in f64; the sum is
// rounded to f64 and then to f32, which is the same but where the first
// rounding ends halfway between two f32 numbers. There, and below f32's normal
// range, the f64 is first made odd when it is not exact: rounding to odd with
// two spare bits makes the second rounding right (Boldo and Melquiond,
// Emulation of FMA and correctly rounded sums, IEEE Transactions on Computers
// 57(4), 2008).
func fma32(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := p + c
	b := math.Float64bits(s)
	if b&(1<<29-1) != 1<<28 && math.Abs(s) >= 0x1p-126 {
		return float32(s)
	}
	// What the sum lost (Knuth's TwoSum); NaN where s is not finite.
	back := s - c
	lost := (p - back) + (c - (s - back))
	if lost > 0 || lost < 0 {
		if b&1 == 0 {
			if lost > 0 == (s > 0) {
				b++
			} else {
				b--
			}
		}
		s = math.Float64frombits(b)
	}
	return float32(s)
}

// copyPanelRef copies a tile's columns of each row; rows are lds apart in src,
// and adjacent in dst.
func copyPanelRef(dst, src []float32, lds, rows int) {
	for r := range rows {
		copy(dst[r*gemmTileColsRef:][:gemmTileColsRef], src[r*lds:])
	}
}

// transposeRef sets dst[c·ldd+r] = src[r·lds+c] for rows rows and cols columns
// of src.
func transposeRef(dst []float32, ldd int, src []float32, lds, rows, cols int) {
	for r := range rows {
		for c, x := range src[r*lds:][:cols] {
			dst[c*ldd+r] = x
		}
	}
}

// transposeBF16Ref is transposeRef of bf16 elements; lds counts elements, src
// holds bytes.
func transposeBF16Ref(dst []float32, ldd int, src []byte, lds, rows, cols int) {
	for r := range rows {
		row := src[2*r*lds:][:2*cols]
		for c := range cols {
			dst[c*ldd+r] = BF16ToF32(binary.LittleEndian.Uint16(row[2*c:]))
		}
	}
}
