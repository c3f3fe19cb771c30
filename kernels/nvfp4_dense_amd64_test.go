//go:build amd64 && !noasm

package kernels

import (
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// A kernel that takes too many blocks for crowded ones loses speed alone, since
// what follows looks at them again. So it is asked itself: in each lane, none,
// one and more elements above the limit, and elements equal to it.
func TestNVFP4DenseIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 3))
	src := make([]byte, 2*BlockNVFP4*nvfp4Chunk)
	for name, dense := range map[string]struct {
		can bool
		f   func(words int, src *byte, c *uint32)
	}{"avx2": {hasAVX2, nvfp4DenseAVX2}, "avx512": {hasAVX512, nvfp4DenseAVX512}} {
		if !dense.can {
			continue
		}
		for range 40 {
			var c nvfp4Clips
			var want [nvfp4Chunk / 64]uint64
			for b := range nvfp4Chunk {
				limit := BF16ToF32(uint16(0x3f80 + rng.IntN(256)))
				c.limits[b] = math.Float32bits(limit) | rng.Uint32()&0xffff // what bf16 does not have
				above := 0
				for i := range BlockNVFP4 {
					w := uint16(math.Float32bits(limit)>>16) - uint16(rng.IntN(3)) // at it and below
					if rng.IntN(12) == 0 {
						w += 3
					}
					if BF16ToF32(w) > math.Float32frombits(c.limits[b]) {
						above++
					}
					binary.LittleEndian.PutUint16(src[2*(b*BlockNVFP4+i):], w|uint16(rng.IntN(2))<<15)
				}
				if above > 1 {
					want[b/64] |= 1 << (b % 64)
				}
			}
			dense.f(len(want), &src[0], &c.amax[0])
			for i, got := range c.dense {
				if got != want[i] {
					t.Fatalf("%s: blocks %d on: %d are crowded, %d are said to be: %#x, want %#x", name, 64*i, bits.OnesCount64(want[i]), bits.OnesCount64(got), got, want[i])
				}
			}
		}
	}
}
