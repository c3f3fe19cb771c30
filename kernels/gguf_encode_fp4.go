package kernels

import "math"

// ggufHalvesOfE2M1 are the bounds between magnitudes of E2M1; a tie goes down, as
// ggml's search for the first least error has it.
var ggufHalvesOfE2M1 = [7]float32{0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5}

// putE2M1 packs a block's codes under a scale, halves of it in low and high nibbles.
// A code is that of the nearest value, of two the one of the smaller magnitude; a
// zero has code 0.
func putE2M1(dst []byte, x []float32, d float32) {
	var h [7]float32
	for i, v := range ggufHalvesOfE2M1 {
		h[i] = v * d
	}
	code := func(v float32) byte {
		a := abs32(v)
		c := one(a > h[0]) + one(a > h[1]) + one(a > h[2]) + one(a > h[3]) + one(a > h[4]) + one(a > h[5]) + one(a > h[6])
		return c | one(v < 0)&one(c > 0)<<3
	}
	n := len(x) / 2
	for j := range n {
		dst[j] = code(x[j]) | code(x[j+n])<<4
	}
}

// exponentE8M0 is E8M0's code of 2^(floor(log2 amax)−2), and 0 of zero.
func exponentE8M0(amax float32) int {
	if amax == 0 {
		return 0
	}
	_, e := math.Frexp(float64(amax))
	return max(0, e-1-2+127)
}

func encodeGGUFMXFP4(dst []byte, x []float32) bool {
	e := exponentE8M0(largest(x))
	dst[0] = byte(e)
	putE2M1(dst[1:], x, E8M0ToF32(byte(e)))
	return true
}

// bestFP4 is the scale with the least error of a list, by its place in it.
func (k *ggufScratch) bestFP4(scales []float32, x, w []float32) (best int) {
	n := 0
	for _, s := range scales {
		n = k.try(n, float64(s), 0)
	}
	k.sum(gridE2M1, n, x, w)
	least := math.Inf(1)
	for i, s := range scales {
		if e := k.sums[i].loss(float64(s)); e < least {
			best, least = i, e
		}
	}
	return best
}

// searchGGUFMXFP4 takes the best of the usual exponent and its neighbours.
func searchGGUFMXFP4(k *ggufScratch, dst []byte, x, w []float32) bool {
	e := exponentE8M0(largest(x))
	if e == 0 || e == 252 { // one more, and the largest value would be infinite
		return encodeGGUFMXFP4(dst, x)
	}
	scales := [3]float32{E8M0ToF32(byte(e)), E8M0ToF32(byte(e + 1)), E8M0ToF32(byte(e - 1))}
	best := k.bestFP4(scales[:], x, w)
	dst[0] = [3]byte{byte(e), byte(e + 1), byte(e - 1)}[best]
	putE2M1(dst[1:], x, scales[best])
	return true
}

// searchGGUFNVFP4 takes, for each sixteen, the best of the scales from the one that
// puts the largest magnitude at 9 to the one after that which puts it at 3.
func searchGGUFNVFP4(k *ggufScratch, dst []byte, x, w []float32) bool {
	for s := range 4 {
		b, wb := x[16*s:16*s+16], w[16*s:16*s+16]
		amax := largest(b)
		if amax > 6*464 {
			return false
		}
		first := max(1, int(F32ToE4M3(amax/8)))
		last := min(0x7e, max(first, int(F32ToE4M3(amax/3.5))+1))
		var list [maxTries]float32
		scales := list[:0]
		for c := first; c <= last; c++ {
			scales = append(scales, ggufUE4M3(byte(c)))
		}
		best := byte(first + k.bestFP4(scales, b, wb))
		if amax == 0 {
			best = 0
		}
		dst[s] = best
		putE2M1(dst[4+8*s:12+8*s], b, ggufUE4M3(best))
	}
	return true
}
