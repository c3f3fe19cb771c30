package kernels

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The search takes the first of all factors with the least error, and ends early
// only where nothing better comes. Groups with few
// elements that are not zero are where it is most tempted to: there the clipping
// of an end alone, which it looks at, is nearly the whole error.
func TestRangeEndsInTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 33))
	w := make([]float32, 32)
	for _, format := range []string{"int4-g32", "int4-g32-sym"} {
		for _, conv := range Conventions(format) {
			k := &int4Chooser{conv: conv, symmetric: format == "int4-g32-sym", search: true, rangeError: rangeErrorRef}
			k.rule = int4Rule(k.conv, k.symmetric)
			one := *k
			for trial := range 4000 {
				clear(w)
				for range 1 + trial%4 {
					w[rng.IntN(len(w))] = roundBF16(float32(rng.IntN(31)-15) / 16 * float32(1+rng.Float64()/8))
				}
				r := finiteRange(w)
				if r.amax == 0 {
					continue
				}
				var c blockChoice
				k.choose(w, r, &c)
				norm := rangeNorm(r.amax)
				errorOf := func(step, offset float32) float32 {
					p := &one.tried[0]
					p.step, p.offset, p.inverse = step, offset, min(1/step, math.MaxFloat32)
					one.errorsOf(w, r, 0, 1, norm)
					return one.errors[0]
				}
				best := blockParams{}
				least := float32(math.Inf(1))
				for i := range rangeFactors {
					f := rangeFactor(i)
					step, offset := one.params(float32(r.lo*f), float32(r.hi*f))
					if e := errorOf(step, offset); e < least {
						least, best.step, best.offset = e, step, offset
					}
				}
				if c.step != best.step || c.offset != best.offset {
					t.Fatalf("%s %v: %v: scale %v and offset %v with an error of %v, want %v and %v with %v", format, conv, w, c.step, c.offset, errorOf(c.step, c.offset), best.step, best.offset, least)
				}
			}
		}
	}
}

// From elements with more places than bf16 compressed-tensors' own tools take
// the bf16 of the largest magnitude first, and round the scale once more.
func TestInt4RoundsTwiceUnderCT(t *testing.T) {
	twice := 0
	for i := range 4096 {
		x := math.Float32frombits(0x3f800000 + uint32(i)*2003)
		m := f32Matrix(1, 32, append(make([]float32, 31), x))
		b := quantizeBlocks(t, Best(), m, Spec{Format: "int4-g32-sym", Convention: CT}, 0)
		want := roundBF16(roundBF16(x) / 7.5)
		if got := storedScale(t, b.Scales); got != want {
			t.Fatalf("scale of %v is %v, want %v", x, got, want)
		}
		if want != roundBF16(x/7.5) {
			twice++
		}
	}
	if twice < 100 {
		t.Errorf("rounding once would have shown in %d scales only", twice)
	}
}
