package kernels

import (
	"fmt"
	"testing"
	"time"
)

// gptqBench is one matrix with its inputs.
func gptqBench(b *testing.B, rows, cols, tokens int) (w, x, h Dense) {
	w, x = gaussian(b, rows, cols, 1), gaussian(b, tokens, cols, 2)
	h, err := NewDense(cols, cols)
	if err != nil {
		b.Fatal(err)
	}
	return w, x, h
}

// BenchmarkGPTQ is all of one matrix of 2048×2048 after 2,048 tokens: Hessian,
// factor, codes with their record. It reports the parts, and how many of
// one product of that size it takes.
func BenchmarkGPTQ(b *testing.B) {
	const n = 2048
	w, x, h := gptqBench(b, n, n, n)
	c, _ := NewDense(n, n)
	for _, spec := range []Spec{{Format: "int4-g128", Convention: Own}, {Format: "nvfp4"}} {
		for _, s := range asmSets() {
			for _, threads := range []int{1, 0} {
				b.Run(fmt.Sprintf("%s/%s/threads=%d/2048x2048", spec.Format, s.Name, threadCount(threads)), func(b *testing.B) {
					gemm := time.Duration(1 << 62)
					for range 2 {
						gemm = min(gemm, timed(b, func() error {
							return s.GEMM(c, DenseOperand(w), DenseOperand(x), GEMMOptions{Threads: threads})
						}))
					}
					out := gptqOutput(b, spec, n, n)
					var parts [3]time.Duration
					best := time.Duration(1 << 62)
					for b.Loop() {
						var f *Factor
						took := [3]time.Duration{
							timed(b, func() error { return s.SYRK(h, DenseOperand(x), GEMMOptions{Threads: threads}) }),
							timed(b, func() (err error) {
								f, err = s.Factorize(h, FactorOptions{Threads: threads})
								return err
							}),
							timed(b, func() error {
								_, err := s.GPTQ(DenseOperand(w), f, GPTQOptions{Spec: spec, Amax: 5.5, Threads: threads}, out)
								return err
							}),
						}
						if sum := took[0] + took[1] + took[2]; sum < best {
							best, parts = sum, took
						}
					}
					b.ReportMetric(best.Seconds()*1e3, "best-ms")
					for i, name := range []string{"hessian-ms", "factor-ms", "codes-ms"} {
						b.ReportMetric(parts[i].Seconds()*1e3, name)
					}
					b.ReportMetric(best.Seconds()/gemm.Seconds(), "GEMMs")
				})
			}
		}
	}
}

func timed(b *testing.B, f func() error) time.Duration {
	start := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}
