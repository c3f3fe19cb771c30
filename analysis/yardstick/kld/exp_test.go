package kld

import (
	"math"
	"testing"
)

// exp32 is within one unit in the last place of e^x, and nearly always e^x
// rounded, over all of its range.
func TestExp32(t *testing.T) {
	other, n := 0, 0
	for bits := uint32(0x80000000); bits < 0xC2D20000; bits += 9973 { // −0 to −105
		x := math.Float32frombits(bits)
		want, got := float32(math.Exp(float64(x))), exp32(x)
		n++
		if got == want {
			continue
		}
		other++
		if d := int64(math.Float32bits(got)) - int64(math.Float32bits(want)); d < -1 || d > 1 {
			t.Fatalf("e^%g is %g, want %g", x, got, want)
		}
	}
	if float64(other) > 0.01*float64(n) {
		t.Errorf("%d of %d values are not e^x rounded", other, n)
	}
	for x, want := range map[float32]float32{0: 1, float32(math.Inf(-1)): 0, -104: 0, 1: 2.7182817} {
		if got := exp32(x); got != want {
			t.Errorf("e^%g is %g, want %g", x, got, want)
		}
	}
	if got := exp32(float32(math.NaN())); got == got {
		t.Errorf("e^NaN is %g", got)
	}
}
