package kernels

import (
	"slices"
	"testing"
)

// Zero points stay those of four bits where a group is all on one side of 0 and
// a fit would like one that is farther away.
func TestWeighedZeroPointsAreOfFourBits(t *testing.T) {
	const rows, cols = 8, 128
	for side, outermost := range map[float32]int8{-1: 7, 1: -8} {
		x := make([]float32, rows*cols)
		for i := range x {
			x[i] = side * (0.25 + 0.5*float32(i%cols)/cols + 0.01*float32(i/cols))
		}
		for _, conv := range []Convention{CT32, CT} {
			spec := Spec{Format: "int4-g32", Convention: conv, Method: imatrix}
			for _, set := range Available() {
				b := weigh(t, set, f32Matrix(rows, cols, x), spec, slices.Repeat([]float32{1}, cols))
				for i, z := range b.Mins {
					if int8(z) < -8 || int8(z) > 7 {
						t.Fatalf("%s, %v, side %v: zero point %d of group %d", set.Name, conv, side, int8(z), i)
					}
				}
				if !slices.ContainsFunc(b.Mins, func(z byte) bool { return int8(z) == outermost }) {
					t.Errorf("%s, %v, side %v: no zero point is the outermost, so that this says nothing: %d", set.Name, conv, side, b.Mins)
				}
			}
		}
	}
}

// Of powers of two that are equally good the largest is taken: 3.25 decodes to 3
// as the code of 3 and, at half the scale, as that of 6.
func TestWeighedTiesTakeTheLargestPower(t *testing.T) {
	for _, conv := range Conventions("mxfp4") {
		for _, set := range Available() {
			b := weigh(t, set, f32Matrix(1, 32, slices.Repeat([]float32{3.25}, 32)), Spec{Format: "mxfp4", Convention: conv, Method: imatrix}, slices.Repeat([]float32{1}, 32))
			if b.Scales[0] != 127 {
				t.Errorf("%s, %v: scale 2^%d, want 2^0", set.Name, conv, int(b.Scales[0])-127)
			}
		}
	}
}
