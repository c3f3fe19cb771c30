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

// BenchmarkGEMMBF16 multiplies a block of activations, [tokens, in], with the
// bf16 weights of a linear layer, [out, in], transposed. With one token the
// weights are read once and used once: "memcpy" is their bytes/s over those
// that as many threads copy, each in its turn.
func BenchmarkGEMMBF16(b *testing.B) {
	for _, shape := range []struct{ tokens, in, out int }{{512, 2048, 2048}, {512, 4096, 14336}, {16, 4096, 14336}, {1, 4096, 14336}} {
		w := gaussianBF16(shape.out, shape.in, 1)
		x := gaussian(b, shape.tokens, shape.in, 2)
		y, err := NewDense(shape.tokens, shape.out)
		if err != nil {
			b.Fatal(err)
		}
		flops := 2 * float64(shape.tokens) * float64(shape.in) * float64(shape.out)
		for _, s := range asmSets() {
			for _, threads := range []int{1, 0} {
				b.Run(fmt.Sprintf("%s/threads=%d/%dx%dx%d", s.Name, threadCount(threads), shape.tokens, shape.out, shape.in), func(b *testing.B) {
					copied := MeasureMemcpy(len(w.Data)/2, 50*time.Millisecond)
					benchProduct(b, s, threads, flops, func() error {
						return s.GEMM(y, DenseOperand(x), StoredOperand(w).T(), GEMMOptions{Threads: threads})
					})
					if shape.tokens == 1 {
						rate := float64(len(w.Data)) * float64(b.N) / b.Elapsed().Seconds()
						b.ReportMetric(rate/1e9, "GB/s")
						b.ReportMetric(rate/copied, "memcpy")
					}
				})
			}
		}
	}
}

// BenchmarkSYRK adds the second moments of a chunk of tokens. The flops are
// those of one triangle.
func BenchmarkSYRK(b *testing.B) {
	for _, shape := range []struct{ tokens, n int }{{2048, 2048}, {2048, 4096}} {
		x := gaussian(b, shape.tokens, shape.n, 1)
		h, err := NewDense(shape.n, shape.n)
		if err != nil {
			b.Fatal(err)
		}
		flops := float64(shape.tokens) * float64(shape.n) * float64(shape.n+1)
		for _, s := range asmSets() {
			for _, threads := range []int{1, 0} {
				b.Run(fmt.Sprintf("%s/threads=%d/%dx%d", s.Name, threadCount(threads), shape.tokens, shape.n), func(b *testing.B) {
					benchProduct(b, s, threads, flops, func() error {
						return s.SYRK(h, DenseOperand(x), GEMMOptions{Accumulate: true, Threads: threads})
					})
				})
			}
		}
	}
}
