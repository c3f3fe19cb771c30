package kernels

import "math"

// Exponentials of rows. The functions here are the definition; a set computes
// whole vectors of them, to the same bits.

// Bounds of exp32: below the first the result is under f32's normal range, above
// the second over its largest number.
const (
	exp32Low  = -87.33654
	exp32High = 88.72283
)

// exp32 is e^x in f32, within 1 unit in the last place, with +0 where e^x is
// below 2⁻¹²⁶: a softmax has no use for subnormal weights, and processors are
// slow with them. A NaN stays one.
//
// x = n·ln 2 + r with |r| ≤ ½·ln 2 (Cody and Waite, Software Manual for the
// Elementary Functions, 1980); e^r is 1 + r + r²·p(r) with p of degree 4, whose
// relative error is 3.1e-9 at most (Remez exchange).
func exp32(x float32) float32 {
	switch {
	case x != x:
		return x
	case x < exp32Low:
		return 0
	case x > exp32High:
		return float32(math.Inf(1))
	}
	// Adding 1.5·2²³ leaves n in the lowest bits of the sum.
	const shifter = 0x1.8p23
	t := fma32(x, 0x1.715476p0, shifter)
	n := t - shifter
	r := fma32(-n, 0x1.62e430p-1, x)
	r = fma32(-n, -0x1.05c610p-29, r)
	p := float32(0x1.6a244cp-10)
	p = fma32(p, r, 0x1.1239d4p-7)
	p = fma32(p, r, 0x1.5558f2p-5)
	p = fma32(p, r, 0x1.555492p-3)
	p = fma32(p, r, 0x1.fffffcp-2)
	p = fma32(p, r, 1)
	p = fma32(p, r, 1)
	return math.Float32frombits(math.Float32bits(p) + math.Float32bits(t)<<23)
}

// exp64Low bounds exp64 from below.
const exp64Low = -708

// exp64 is e^x in f64 for x ≤ 709, within 1.2 units in the last place, with +0
// for x < −708 and for a NaN.
//
// x = n·ln 2/16 + r; e^x = 2^(n/16)·e^r with the power of two from a table and a
// polynomial of degree 6, whose relative error is 1.2e-17 at most.
func exp64(x float64) float64 {
	if !(x >= exp64Low) {
		return 0
	}
	const shifter = 0x1.8p52
	t := math.FMA(x, 0x1.71547652b82fep4, shifter)
	n := t - shifter
	r := math.FMA(-n, 0x1.62e42fefa39efp-5, x)
	r = math.FMA(-n, 0x1.abc9e3b39803fp-60, r)
	p := 0x1.6c14c6deef237p-10
	p = math.FMA(p, r, 0x1.11123aae4bb8fp-7)
	p = math.FMA(p, r, 0x1.55555558fcb59p-5)
	p = math.FMA(p, r, 0x1.555555548f894p-3)
	p = math.FMA(p, r, 0x1.fffffffffffb9p-2)
	p = math.FMA(p, r, 1)
	p *= r
	k := math.Float64bits(t)
	scale := math.Float64frombits(exp64Table[k&15] + k<<48)
	return math.FMA(scale, p, scale)
}

// exp64Table is 2^(i/16) as bits, less i<<48: what adding n<<48 puts back where
// n has i for its lowest four bits.
var exp64Table = [16]uint64{
	0x3ff0000000000000, 0x3fefb5586cf9890f, 0x3fef72b83c7d517b, 0x3fef387a6e756238,
	0x3fef06fe0a31b715, 0x3feedea64c123422, 0x3feebfdad5362a27, 0x3feeab07dd485429,
	0x3feea09e667f3bcd, 0x3feea11473eb0187, 0x3feeace5422aa0db, 0x3feec49182a3f090,
	0x3feee89f995ad3ad, 0x3fef199bdd85529c, 0x3fef5818dcfba487, 0x3fefa4afa2a490da,
}
