package kernels

import (
	"math"
	"testing"
)

// A scale counts as clamped where it would round to more than 448 or to 0: from
// above 464, and up to 2⁻¹⁰, ties that round to 448 and to 0. In whole blocks
// every set says so, for as many blocks as a kernel takes at once and one more.
func TestTapScaleClampsInWholeBlocks(t *testing.T) {
	const g = 0x1p-3 // raw scales are amax/(6·g), exact for what is here
	type edge struct {
		raw       float32
		high, low int64
	}
	edges := []edge{
		{464, 0, 0}, {448, 0, 0}, {472, 1, 0}, {896, 1, 0},
		{0x1p-10, 0, 1}, {0x1.1p-10, 0, 0}, {0x1p-9, 0, 0}, {0x1p-11, 0, 1},
	}
	for _, set := range Available() {
		for _, e := range []Element{BF16, F16, F32} {
			for _, method := range []string{"rtn", "mse_ge1", "sweep"} {
				for _, blocks := range []int{1, 8, 16, 17, nvfp4Chunk, nvfp4Chunk + 1} {
					for at, x := range edges {
						if e == F16 && x.raw == 896 {
							continue
						}
						w := make([]float32, blocks*BlockNVFP4)
						for i := range w {
							w[i] = 6 * g // a scale of 1
						}
						k := (blocks*3/4 + at) % blocks
						for i := range BlockNVFP4 {
							w[k*BlockNVFP4+i] = 6 * g * x.raw / 2
						}
						w[k*BlockNVFP4+at%BlockNVFP4] = -6 * g * x.raw
						data := make([]byte, len(w)*e.Size())
						if err := EncodeFloats(data, e, w); err != nil {
							t.Fatal(err)
						}
						p, err := set.Begin(Spec{Format: "nvfp4", Method: method, Global: g}, e, 1, len(w), 0)
						if err != nil {
							t.Fatal(err)
						}
						if err := p.Rows(data, nil); err != nil {
							t.Fatal(err)
						}
						tap, err := p.Finish()
						if err != nil {
							t.Fatal(err)
						}
						if tap.ScaleHigh != x.high || tap.ScaleLow != x.low || tap.Amax != math.Abs(float64(6*g*max(x.raw, 1))) && blocks > 1 {
							t.Fatalf("%s, %v, %s, %d blocks, raw scale %v: %d clamped high, %d low, amax %v", set.Name, e, method, blocks, x.raw, tap.ScaleHigh, tap.ScaleLow, tap.Amax)
						}
					}
				}
			}
		}
	}
}
