package kernels

import "math"

// F32ToInt4 rounds to the nearest integer, ties to even, clamped to −8…7; NaN
// gives 0.
func F32ToInt4(x float32) int8 { return roundInt(x, -8, 7) }

// F32ToInt8 rounds to the nearest integer, ties to even, clamped to −128…127;
// NaN gives 0.
func F32ToInt8(x float32) int8 { return roundInt(x, -128, 127) }

func roundInt(x float32, low, high float64) int8 {
	if x != x {
		return 0
	}
	return int8(math.RoundToEven(min(max(float64(x), low), high)))
}

// Int4ToInt8 reads the low four bits of c as a two's complement integer.
func Int4ToInt8(c byte) int8 { return int8(c<<4) >> 4 }
