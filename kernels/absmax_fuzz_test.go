package kernels

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Largest magnitudes of all elements and of each block, every set against the
// reference. Each element of a run has its turn at being the largest, and at being
// the one that is not finite.
func FuzzAbsMax(f *testing.F) {
	rng := rand.New(rand.NewPCG(19, 19))
	for _, e := range []Element{BF16, F16, F32} {
		blocks := 33 // two groups of AVX-512, four of AVX2, and a rest
		if e == F32 {
			blocks = 18
		}
		raw := make([]byte, blocks*BlockNVFP4*e.Size())
		for i := 0; i < len(raw); i += e.Size() {
			x := []float32{float32(rng.NormFloat64())}
			if err := EncodeFloats(raw[i:i+e.Size()], e, x); err != nil {
				f.Fatal(err)
			}
		}
		for at := range blocks * BlockNVFP4 {
			bits := []uint32{0x447a0000, 0xc47a0000}[at%2] // ±1000
			if at%7 == 0 {
				bits = []uint32{0x7f800000, 0xff800000, 0x7fc00000}[at%3]
			}
			f.Add(raw, uint8(e-BF16), uint16(at), bits)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, element uint8, at uint16, bits uint32) {
		e := []Element{BF16, F16, F32}[element%3]
		size := e.Size()
		src, intact := guarded(len(raw) / size * size)
		copy(src, raw)
		if n := len(src) / size; n > 0 {
			i := int(at) % n * size
			if err := EncodeFloats(src[i:i+size], e, []float32{math.Float32frombits(bits)}); err != nil {
				t.Fatal(err)
			}
		}
		whole := src[:len(src)/(BlockNVFP4*size)*BlockNVFP4*size]
		all := absMaxRef(e, src)
		want := make([]uint32, len(whole)/(BlockNVFP4*size))
		done := blockAmaxRef(e, whole, want)
		for _, s := range Available() {
			if got := s.absMax(e, src); got != all {
				t.Fatalf("%s: largest magnitude of %d elements of type %v %#x, want %#x", s.Name, len(src)/size, e, got, all)
			}
			got := make([]uint32, len(want))
			n := s.blockAmax(e, whole, got)
			if n != done || !slices.Equal(got[:n], want[:n]) {
				t.Fatalf("%s: largest magnitudes of %d blocks of type %v: %d %#x, want %d %#x", s.Name, len(want), e, n, got, done, want)
			}
		}
		if !intact() {
			t.Fatal("a kernel wrote over its source")
		}
	})
}
