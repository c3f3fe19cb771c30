package kernels

import (
	"math/rand/v2"
	"testing"
	"time"
)

// bestOf is the shortest time that work takes.
func bestOf(b *testing.B, work func()) time.Duration {
	best := time.Duration(1 << 62)
	start := time.Now()
	for b.Loop() {
		work()
		now := time.Now()
		best, start = min(best, now.Sub(start)), now
	}
	return best
}

// BenchmarkRows reports the best rate of a thread, with the copy that makes the
// first row anew.
func BenchmarkRows(b *testing.B) {
	rng := rand.New(rand.NewPCG(6, 7))
	const n = 4096
	source := randomRows(rng, n, 2, 0)
	for _, s := range asmSets() {
		for _, k := range rowKernelTable {
			b.Run(s.Name+"/"+k.name, func(b *testing.B) {
				rows := randomRows(rng, n, 2, 0)
				best := bestOf(b, func() {
					copy(rows[0], source[0])
					k.call(s, rows[0], rows[1], rows[2], [2]float32{1, 1.702})
				})
				b.ReportMetric(n/best.Seconds()/1e9, "Gvalues/s")
			})
		}
	}
}

// BenchmarkLogits is what a position costs a candidate: the sum of its row of
// logits, and the divergence from the reference's, whose sum is known.
func BenchmarkLogits(b *testing.B) {
	const n = 49152
	rows := randomRows(rand.New(rand.NewPCG(6, 8)), n, 3, 0)
	p, q := rows[0], rows[1]
	for _, s := range asmSets() {
		rp := s.LogSum(p)
		b.Run(s.Name+"/49152", func(b *testing.B) {
			best := bestOf(b, func() { s.Divergence(p, q, rp, s.LogSum(q)) })
			b.ReportMetric(best.Seconds()*1e6, "µs/pair")
		})
		b.Run(s.Name+"/LogSum", func(b *testing.B) {
			best := bestOf(b, func() { s.LogSum(q) })
			b.ReportMetric(best.Seconds()*1e6, "µs")
		})
	}
}
