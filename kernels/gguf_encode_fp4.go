package kernels

import "math"

// ggufHalvesOfE2M1 are the bounds between magnitudes of E2M1; a tie goes down, as
// ggml's search for the first least error has it.
var ggufHalvesOfE2M1 = [7]float32{0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5}

// nearestGGUFE2M1 is the code whose value times d is nearest to x, the one of the
// smaller magnitude of two, and the value. A zero has code 0.
func nearestGGUFE2M1(x, d float32) (code byte) {
	a := abs32(x)
	for code < 7 && a > ggufHalvesOfE2M1[code]*d {
		code++
	}
	if x < 0 && code > 0 {
		code |= 8
	}
	return code
}

// putE2M1 packs a block's codes under a scale, halves of it in low and high nibbles.
func putE2M1(dst []byte, x []float32, d float32) {
	n := len(x) / 2
	for j := range n {
		dst[j] = nearestGGUFE2M1(x[j], d) | nearestGGUFE2M1(x[j+n], d)<<4
	}
}

// errorE2M1 is the weighted squared error of a block under a scale.
func errorE2M1(x, w []float32, d float32) float64 {
	var sum float64
	for i, v := range x {
		e := float64(v) - float64(d*ggufE2M1[nearestGGUFE2M1(v, d)])
		sum += float64(float64(w[i]) * float64(e*e))
	}
	return sum
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
	e := exponentE8M0(abs32(utmost(x)))
	dst[0] = byte(e)
	putE2M1(dst[1:], x, E8M0ToF32(byte(e)))
	return true
}

// searchGGUFMXFP4 takes the best of the usual exponent and its neighbours.
func searchGGUFMXFP4(_ *ggufScratch, dst []byte, x, w []float32) bool {
	e := exponentE8M0(abs32(utmost(x)))
	best, least := e, math.Inf(1)
	for _, c := range []int{e, e + 1, e - 1} {
		if c < 0 || c > 254 {
			continue
		}
		if err := errorE2M1(x, w, E8M0ToF32(byte(c))); err < least {
			best, least = c, err
		}
	}
	dst[0] = byte(best)
	putE2M1(dst[1:], x, E8M0ToF32(byte(best)))
	return true
}

// searchGGUFNVFP4 takes, for each sixteen, the best of the scales from the one that
// puts the largest magnitude at 3 to the one that puts it at 9.
func searchGGUFNVFP4(_ *ggufScratch, dst []byte, x, w []float32) bool {
	for s := range 4 {
		b, wb := x[16*s:16*s+16], w[16*s:16*s+16]
		amax := abs32(utmost(b))
		if amax > 6*464 {
			return false
		}
		code := F32ToE4M3(amax / 6)
		best, least := code, math.Inf(1)
		for c := max(1, int(F32ToE4M3(amax/9))); c <= min(0x7e, int(F32ToE4M3(amax/3))+1); c++ {
			if err := errorE2M1(b, wb, ggufUE4M3(byte(c))); err < least {
				best, least = byte(c), err
			}
		}
		if amax == 0 {
			best = 0
		}
		dst[s] = best
		putE2M1(dst[4+8*s:12+8*s], b, ggufUE4M3(best))
	}
	return true
}
