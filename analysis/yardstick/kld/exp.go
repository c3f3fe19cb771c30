package kld

import "math"

// expTable are 2^(i/32).
var expTable = func() (t [32]float64) {
	for i := range t {
		t[i] = math.Exp2(float64(i) / 32)
	}
	return t
}()

// exp32 is e^x in f32, for x up to 88. It follows the method of the C library
// that llama-perplexity is usually linked with (glibc's expf since 2.27, by
// S. Nagy: x·32/ln 2 = k + r with |r| ≤ 1/2, e^x = 2^(k/32)·P(r), P of degree 3, in
// f64), so that both round alike: the error is below 0.51 units in the last
// place, and a correctly rounded e^x would differ in one of some hundred values.
func exp32(x float32) float32 {
	if x < -104 { // below half the least number
		return 0
	}
	const (
		scale = 32 * math.Log2E
		c3    = 0x1.c6af84b912394p-5 / (32 * 32 * 32)
		c2    = 0x1.ebfce50fac4f3p-3 / (32 * 32)
		c1    = 0x1.62e42ff0c52d6p-1 / 32
		shift = 3 << 51 // a sum with it has steps of one
	)
	z := float64(float64(x) * scale) // not fused with the sum
	up := z + shift
	k := int64(math.Float64bits(up))
	r := z - (up - shift)
	s := math.Float64frombits(math.Float64bits(expTable[k&31]) + uint64(k>>5)<<52)
	head := math.FMA(c3, r, c2)
	tail := math.FMA(c1, r, 1)
	return float32(math.FMA(head, r*r, tail) * s)
}
