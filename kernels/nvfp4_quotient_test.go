package kernels

import (
	"math"
	"math/rand/v2"
	"testing"
)

// undivided is w/step as kernels in assembly compute it.
func undivided(w, step float32) float32 {
	y := 1 / step
	q := w * y
	return fma32(fma32(-q, step, w), y, q)
}

// The quotient without a division is the quotient: for every mantissa of bf16
// over mantissas of f32 from the first to the last.
func TestNVFP4QuotientOfBF16(t *testing.T) {
	const last = 1<<23 - 1
	for step := 0; ; {
		s := math.Float32frombits(0x3f800000 | uint32(step))
		for m := range uint32(128) {
			w := math.Float32frombits(0x3f800000 | m<<16)
			if x := undivided(w, s); x != w/s {
				t.Fatalf("%v/%v is %v, want %v", w, s, x, w/s)
			}
		}
		switch {
		case step == last:
			return
		case step < 64 || step >= last-64:
			step++
		default:
			step = min(step+1021, last-64)
		}
	}
}

// So it is for any f32, over any step that a kernel gets; where the element is
// so small that the rest is not exact, it is still code 0 in the first bin.
func TestNVFP4QuotientOfF32(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 1_000_000 {
		s := math.Float32frombits(uint32(rng.IntN(198)+38)<<23 | rng.Uint32()&0x7fffff) // 2⁻⁸⁹ to 2¹⁰⁹
		w := math.Float32frombits(rng.Uint32N(infF32))
		if rng.IntN(2) == 0 { // near the step
			w = s * float32(8*rng.Float64())
		}
		want := w / s
		x := undivided(w, s)
		switch {
		case w < 0x1p-100 || want < 0x1p-126:
			if !(x < 1.0/16) || !(want < 1.0/16) {
				t.Fatalf("%v/%v is %v, want something small as %v is", w, s, x, want)
			}
		case want >= 0x1p127:
			if x < 0x1p126 {
				t.Fatalf("%v/%v is %v, want something large as %v is, or NaN", w, s, x, want)
			}
		case x != want:
			t.Fatalf("%v/%v is %v, want %v", w, s, x, want)
		}
	}
}
