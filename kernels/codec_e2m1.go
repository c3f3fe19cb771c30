package kernels

import "math"

// MaxE2M1 is the largest E2M1 value.
const MaxE2M1 = 6

// e2m1Values holds what each E2M1 code stands for.
var e2m1Values = [16]float32{
	0, 0.5, 1, 1.5, 2, 3, 4, 6,
	float32(math.Copysign(0, -1)), -0.5, -1, -1.5, -2, -3, -4, -6,
}

// E2M1ToF32 decodes the low four bits of c: the sign in bit 3, then 0, 0.5, 1,
// 1.5, 2, 3, 4, 6. Code 8 is −0.
func E2M1ToF32(c byte) float32 { return e2m1Values[c&15] }

// F32ToE2M1 encodes to nearest, ties to even code, saturating at ±6. A negative
// that rounds to zero gives code 8, −0 and NaN give code 0 (as in
// compressed-tensors).
func F32ToE2M1(x float32) byte { return e2m1Codes[e2m1Cell(x)] }

// Rounding to E2M1 is a table lookup. Every rounding boundary (0.25, 0.75,
// 1.25, 1.75, 2.5, 3.5, 5) has at most two mantissa bits, so f32 values that
// agree in sign, exponent and two mantissa bits, 2048 cells in all, have the
// same code, but for the lower end of a cell when that is a tie. At ties the
// even code is the lower one exactly where the upper of the two mantissa bits
// is 0 (0.25, 1.25, 2.5, 5) and the upper one where it is 1 (0.75, 1.75, 3.5).
// So cells are taken as (lower, upper] in the first case and as [lower, upper)
// in the second: index (bits + that bit − 1) >> 21, shifted up by one cell to
// leave +0 at index 0 and −0 alone at index 1024.
var (
	e2m1Codes   = e2m1Table()
	e2m1Nearest = e2m1NearestTable() // the value of that code; +0 for code 8
)

// e2m1Cell is x's index into e2m1Codes and e2m1Nearest.
func e2m1Cell(x float32) uint32 {
	b := math.Float32bits(x)
	return (b + b>>22&1 + (1<<21 - 1)) >> 21
}

func e2m1Table() (t [2048]byte) {
	bounds := [...]float32{0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5}
	const infCell = infF32 >> 21
	for i := range t {
		mag := i & 1023
		if mag == 0 || mag > infCell {
			continue // ±0 and NaN
		}
		lower := math.Float32frombits(uint32(mag-1) << 21)
		var code byte
		for _, b := range bounds {
			if lower >= b {
				code++
			}
		}
		t[i] = code | byte(i>>10<<3)
	}
	return t
}

func e2m1NearestTable() (t [2048]float32) {
	for i, c := range e2m1Table() {
		t[i] = e2m1Values[c] + 0 // −0 + 0 is +0
	}
	return t
}
