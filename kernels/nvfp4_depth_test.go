package kernels

import (
	"math"
	"testing"
)

// depthOf measures one block whose largest magnitude is amax under a
// weight_scale_2.
func depthOf(t *testing.T, set Set, amax, scale2 float32) Tap {
	t.Helper()
	w := make([]float32, BlockNVFP4)
	w[3] = -amax
	return quantize(t, set, f32Matrix(1, BlockNVFP4, w), NVFP4Options{GlobalScale: scale2}).tap
}

// A block of amax 2688 under a weight_scale_2 g of at most 15/16 asks for a scale
// above 448. It gets 448, represents at most 2688·g, and is clipped to a depth of
// 1 − g: exactly, where g has few bits.
func TestNVFP4DepthBins(t *testing.T) {
	const amax = MaxE2M1 * MaxE4M3
	ulp := float32(0x1p-22)
	type sample struct {
		g   float32
		bin int
	}
	samples := []sample{
		// Bins are closed below and open above; these edges are binary fractions.
		{0.75, 5}, {0.75 + ulp, 4}, {0.75 - ulp, 5},
		{0.5, 10}, {0.5 + ulp, 9}, {0.5 - ulp, 10},
		{0.25, 15}, {0.25 + ulp, 14}, {0.25 - ulp, 15},
		{0x1p-20, DepthBins - 1},
	}
	for bin := range DepthBins {
		for _, part := range []float64{0.05, 0.3, 0.7, 0.95} {
			if depth := (float64(bin) + part) / DepthBins; depth > 0.04 {
				samples = append(samples, sample{float32(1 - depth), bin})
			}
		}
	}
	for _, set := range Available() {
		for _, s := range samples {
			tap := depthOf(t, set, amax, s.g)
			var want [DepthBins]int64
			want[s.bin] = 1
			if tap.Depth != want || tap.ScaleHigh != 1 {
				t.Errorf("%s: depth %v: bins %v, want one block in bin %d", set.Name, 1-float64(s.g), tap.Depth, s.bin)
			}
		}
		// Edges that are none: 19/20 as f64 is below it, and 1 less that in the second
		// bin, 9/10 is above, and 1 less that not in the third.
		for _, s := range []struct {
			amax, g float32
			bin     int
		}{
			{53760, 19, 1}, {math.Nextafter32(53760, 0), 19, 0}, {math.Nextafter32(53760, 1e6), 19, 1},
			{26880, 9, 1}, {math.Nextafter32(26880, 0), 9, 1}, {math.Nextafter32(26880, 1e6), 9, 2},
		} {
			tap := depthOf(t, set, s.amax, s.g)
			var want [DepthBins]int64
			want[s.bin] = 1
			if tap.Depth != want {
				t.Errorf("%s: amax %v under %v: bins %v, want one block in bin %d", set.Name, s.amax, s.g, tap.Depth, s.bin)
			}
		}
		// What rounding alone clips by less than half a bin is in the first one,
		// and what it clips most, 1/17 at the tie between two scales, in the second.
		for _, s := range []struct {
			raw float32
			bin int
		}{{1.01, 0}, {1.02, 0}, {1.05, 0}, {1.0625, 1}} {
			tap := depthOf(t, set, MaxE2M1*s.raw, 1)
			var want [DepthBins]int64
			want[s.bin] = 1
			if tap.Depth != want || tap.Shallow != 1 {
				t.Errorf("%s: scale %v rounded to 1: bins %v, %d shallow, want one block in bin %d", set.Name, s.raw, tap.Depth, tap.Shallow, s.bin)
			}
		}
	}
}

// A depth of exactly 1/16 is shallow, the next one is deep; a block at its limit
// is not clipped.
func TestNVFP4ShallowEndsAtASixteenth(t *testing.T) {
	const amax = MaxE2M1 * MaxE4M3
	for _, set := range Available() {
		for _, c := range []struct {
			g             float32
			shallow, deep int64
		}{
			{1, 0, 0},
			{1 - 1./32, 1, 0},
			{1 - ShallowDepth, 1, 0},
			{math.Nextafter32(1-ShallowDepth, 0), 0, 1},
		} {
			tap := depthOf(t, set, amax, c.g)
			mass := float64(amax) * amax
			if tap.Shallow != c.shallow || tap.Deep != c.deep || tap.SubnormalClipped != 0 {
				t.Errorf("%s: depth %v: %d shallow, %d deep, want %d, %d", set.Name, 1-float64(c.g), tap.Shallow, tap.Deep, c.shallow, c.deep)
			}
			if tap.ShallowL2 != mass*float64(c.shallow) || tap.DeepL2 != mass*float64(c.deep) {
				t.Errorf("%s: depth %v: mass %v shallow, %v deep of %v", set.Name, 1-float64(c.g), tap.ShallowL2, tap.DeepL2, mass)
			}
		}
	}
}
