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
	for _, spec := range []Spec{{Format: "int4-g128", Convention: Own}, {Format: "nvfp4"}, {Format: "code2", Codebook: 1<<2 | 1<<6 | 1<<10 | 1<<14}} {
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

// BenchmarkGPTQLayer is a layer of 64 experts, hidden size 2048, inner size 1024,
// the best 8 of each of 4,096 tokens: one Hessian for the gate and up of all, one
// of 512 tokens for each down; two experts at a time.
func BenchmarkGPTQLayer(b *testing.B) {
	const hidden, inner, tokens, routed = 2048, 1024, 4096, 4096 * 8 / 64
	experts := 64
	if testing.Short() {
		experts = 2
	}
	spec := Spec{Format: "int4-g128", Convention: Own}
	s := Best()
	gate, down := gaussian(b, inner, hidden, 1), gaussian(b, hidden, inner, 2)
	x, y := gaussian(b, tokens, hidden, 3), gaussian(b, routed, inner, 4)
	h, _ := NewDense(hidden, hidden)
	for _, threads := range []int{1, 0} {
		b.Run(fmt.Sprintf("%s/%s/threads=%d/%dexperts", spec.Format, s.Name, threadCount(threads), experts), func(b *testing.B) {
			for b.Loop() {
				if err := s.SYRK(h, DenseOperand(x), GEMMOptions{Threads: threads}); err != nil {
					b.Fatal(err)
				}
				shared, err := s.Factorize(h, FactorOptions{Threads: threads})
				if err != nil {
					b.Fatal(err)
				}
				errs := make([]error, experts)
				eachTask(threadCount(threads), experts, func(e int) { errs[e] = gptqExpert(s, spec, shared, gate, down, y) })
				for _, err := range errs {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// gptqExpert is one expert of a layer, alone on its thread.
func gptqExpert(s Set, spec Spec, shared *Factor, gate, down, y Dense) error {
	o := GPTQOptions{Spec: spec, Threads: 1}
	for range 2 {
		if _, err := s.GPTQ(DenseOperand(gate), shared, o, nil); err != nil {
			return err
		}
	}
	h, err := NewDense(y.Cols, y.Cols)
	if err != nil {
		return err
	}
	if err := s.SYRK(h, DenseOperand(y), GEMMOptions{Threads: 1}); err != nil {
		return err
	}
	f, err := s.Factorize(h, FactorOptions{Threads: 1})
	if err != nil {
		return err
	}
	_, err = s.GPTQ(DenseOperand(down), f, o, nil)
	return err
}

// BenchmarkGPTQDiagnose is a diagnosis beside the factorization that it must not
// cost three times.
func BenchmarkGPTQDiagnose(b *testing.B) {
	const n = 2048
	_, x, h := gptqBench(b, 1, n, n)
	s := Best()
	if err := s.SYRK(h, DenseOperand(x), GEMMOptions{}); err != nil {
		b.Fatal(err)
	}
	factor := time.Duration(1 << 62)
	for range 3 {
		factor = min(factor, timed(b, func() error {
			_, err := s.Factorize(h, FactorOptions{})
			return err
		}))
	}
	best := time.Duration(1 << 62)
	for b.Loop() {
		best = min(best, timed(b, func() error {
			_, err := s.Diagnose(h, FactorOptions{})
			return err
		}))
	}
	b.ReportMetric(best.Seconds()/factor.Seconds(), "factorizations")
}
