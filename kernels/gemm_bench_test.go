package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// gaussian is a rows×cols matrix of normal numbers.
func gaussian(tb testing.TB, rows, cols int, seed uint64) Dense {
	tb.Helper()
	d, err := NewDense(rows, cols)
	if err != nil {
		tb.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range d.Data {
		d.Data[i] = float32(rng.NormFloat64())
	}
	return d
}

// asmSets are the sets worth a large benchmark; the reference where there is
// no other.
func asmSets() []Set {
	if sets := Available(); len(sets) > 1 {
		return sets[1:]
	}
	return Available()
}

// benchProduct reports GFLOP/s and their ratio to the multiply-add peak of the
// same threads and set, which is measured before and after; the higher one
// counts.
func benchProduct(b *testing.B, s Set, threads int, flops float64, product func() error) {
	peak := s.MeasureFMA(threads, 50*time.Millisecond)
	best := time.Duration(1 << 62)
	for b.Loop() {
		start := time.Now()
		if err := product(); err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	mean := flops * float64(b.N) / b.Elapsed().Seconds() / 1e9
	peak = max(peak, s.MeasureFMA(threads, 50*time.Millisecond))
	b.ReportMetric(mean, "GFLOP/s")
	b.ReportMetric(mean/peak, "peak")
	b.ReportMetric(flops/best.Seconds()/1e9, "best-GFLOP/s")
}

func BenchmarkGEMM(b *testing.B) {
	const n = 2048
	x, y, c := gaussian(b, n, n, 1), gaussian(b, n, n, 2), gaussian(b, n, n, 3)
	for _, s := range asmSets() {
		for _, threads := range []int{1, 0} {
			b.Run(fmt.Sprintf("%s/threads=%d/2048x2048x2048", s.Name, threadCount(threads)), func(b *testing.B) {
				benchProduct(b, s, threads, 2*n*n*n, func() error {
					return s.GEMM(c, DenseOperand(x), DenseOperand(y).T(), GEMMOptions{Threads: threads})
				})
			})
		}
	}
}
