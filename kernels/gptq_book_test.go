package kernels

import (
	"math"
	"math/bits"
	"testing"
)

// The value that GPTQ takes of a codebook is the one that a pass takes, on every
// border, beside it and between two, for all codebooks.
func TestGPTQBookIsThePasss(t *testing.T) {
	inf := float32(math.Inf(1))
	targets := []float32{float32(math.Copysign(0, -1)), 1e-45, -1e-45, 3e38, -3e38, inf, -inf}
	for q := float32(-7); q <= 7; q += 0.125 {
		targets = append(targets, q, math.Nextafter32(q, inf), math.Nextafter32(q, -inf))
	}
	masks := 0
	for mask := range uint16(1 << 15) {
		mask = mask&0xff | mask&0x7f00<<1 // no −0
		if bits.OnesCount16(mask) != CodebookValues {
			continue
		}
		masks++
		pass, book, values := newCodebook(mask), newGPTQBook(mask), Codebook(mask)
		for _, u := range targets {
			code, q := book.code(u, 1)
			if want := pass.values[bookCell(u+0)]; q != want || values[code] != want {
				t.Fatalf("%v of %v: %v (code %d), a pass takes %v", u, values, q, code, want)
			}
			if code, q := book.code(u, 0); values[code] != pass.values[bookCell(0)] || q != 0 {
				t.Fatalf("%v of %v by a step of 0: %v (code %d)", u, values, q, code)
			}
		}
	}
	if masks != 1365 {
		t.Fatalf("%d codebooks", masks)
	}
}
