package kernels

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

// The grids are those of gguf-py 0.19: every point is there once, with elements that
// the type has a value for.
func TestGGUFGrids(t *testing.T) {
	if sum := sha256.Sum256([]byte(ggufGrids)); hex.EncodeToString(sum[:]) != "09b7593242bd052668b975959cdcfd43942fee2c1d75b7b9d4e2535c3c53d33e" {
		t.Errorf("the grids are %x", sum)
	}
	for name, c := range map[string]struct{ first, points, bits, values int }{
		"IQ2_XXS": {gridIQ2XXS, 256, 2, 3}, "IQ2_XS": {gridIQ2XS, 512, 2, 3}, "IQ2_S": {gridIQ2S, 1024, 2, 3}, "IQ1": {gridIQ1, 2048, 2, 3},
		"IQ3_XXS": {gridIQ3XXS, 256, 4, 8}, "IQ3_S": {gridIQ3S, 512, 4, 8},
	} {
		seen := map[uint16]bool{}
		for i := range c.points {
			p := gridPoint(c.first, i)
			if seen[p] {
				t.Errorf("%s: point %d is there before", name, i)
			}
			seen[p] = true
			for shift := 0; shift < 16; shift += c.bits {
				if int(p>>shift)&(1<<c.bits-1) >= c.values {
					t.Errorf("%s: point %d, %#x, has an element without a value", name, i, p)
				}
			}
		}
	}
	if want := 2 * (gridIQ3S + 512); len(ggufGrids) != want {
		t.Errorf("%d bytes, want %d", len(ggufGrids), want)
	}
}
