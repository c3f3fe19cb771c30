package kernels

import (
	"math/rand/v2"
	"testing"
)

// Counts by sets of bits give the counts of nibbles: every nibble alone, and
// random ones.
func TestNibbleCounts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var c nibbleCounts
		var want, got [16]int64
		for range rng.IntN(300) {
			v := rng.UintN(16) & rng.UintN(16)
			want[v]++
			c.total++
			for s := uint(1); s < 16; s++ {
				if v&s == s {
					c.having[s][rng.IntN(8)]++
				}
			}
		}
		c.addTo(got[:])
		if got != want {
			t.Fatalf("counts %v, want %v", got, want)
		}
	}
}
