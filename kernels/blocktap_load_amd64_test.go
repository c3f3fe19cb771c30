//go:build amd64 && !noasm

package kernels

import (
	"fmt"
	"math"
	"testing"

	"golang.org/x/sys/cpu"
)

// A kernel that took finite blocks for others would have the reference go
// through them again, with the same result and half the speed. So it is asked
// itself for the largest magnitude.
func TestBlockLoadKnowsFiniteBlocks(t *testing.T) {
	type kernel struct {
		name string
		can  bool
		e    Element
		load blockLoadAsm
	}
	avx2, avx512 := cpu.X86.HasAVX2, cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL
	for _, k := range []kernel{
		{"avx2", avx2, BF16, blockLoadBF16AVX2}, {"avx2", avx2 && cpu.X86.HasF16C, F16, blockLoadF16AVX2}, {"avx2", avx2, F32, blockLoadF32AVX2},
		{"avx512", avx512, BF16, blockLoadBF16AVX512}, {"avx512", avx512, F16, blockLoadF16AVX512}, {"avx512", avx512, F32, blockLoadF32AVX512},
	} {
		if !k.can {
			continue
		}
		const group, groups = 32, 3
		x := make([]float32, group*groups)
		for i := range x {
			x[i] = float32(i%7-3) / 4
		}
		for at := range x {
			for _, v := range []float32{-5, 5, float32(math.Inf(1)), float32(math.NaN())} {
				old := x[at]
				x[at] = v
				data := make([]byte, len(x)*k.e.Size())
				if err := EncodeFloats(data, k.e, x); err != nil {
					t.Fatal(err)
				}
				w, ranges := make([]float32, len(x)), make([]blockRange, groups)
				got := k.load(&data[0], &w[0], &ranges[0].lo, groups, group)
				name := fmt.Sprintf("%s %v, %v at %d", k.name, k.e, v, at)
				if finite := math.Abs(float64(v)) == 5; finite && got != math.Float32bits(5) || !finite && got < infF32 {
					t.Fatalf("%s: the largest magnitude is %#x", name, got)
				}
				x[at] = old
			}
		}
	}
}
