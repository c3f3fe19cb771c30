package speed

import (
	"context"
	"fmt"
	"math"
	"time"

	"quantscope/kernels"
)

// product is a matrix product of productSize³ multiply-adds.
type product struct {
	name string
	run  func(set kernels.Set, c, x kernels.Dense, w kernels.Matrix, o kernels.GEMMOptions) error
	work float64 // multiply-adds, in productSize³
}

var products = []product{
	{"gemm-f32", func(s kernels.Set, c, x kernels.Dense, _ kernels.Matrix, o kernels.GEMMOptions) error {
		return s.GEMM(c, kernels.DenseOperand(x), kernels.DenseOperand(x).T(), o)
	}, 1},
	{"gemm-bf16", func(s kernels.Set, c, x kernels.Dense, w kernels.Matrix, o kernels.GEMMOptions) error {
		return s.GEMM(c, kernels.DenseOperand(x), kernels.StoredOperand(w).T(), o)
	}, 1},
	// One triangle is computed, of what is counted in full elsewhere.
	{"syrk-f32", func(s kernels.Set, c, x kernels.Dense, _ kernels.Matrix, o kernels.GEMMOptions) error {
		return s.SYRK(c, kernels.DenseOperand(x), o)
	}, 0.5},
}

func (p product) measure(ctx context.Context, set kernels.Set, threads int, each time.Duration) (Kernel, error) {
	const n = productSize
	var dense [2]kernels.Dense
	for i := range dense {
		d, err := kernels.NewDense(n, n)
		if err != nil {
			return Kernel{}, err
		}
		dense[i] = d
	}
	c, x := dense[0], dense[1]
	for i := range x.Data {
		x.Data[i] = float32(math.Sin(float64(i)))
	}
	w := kernels.Matrix{Element: kernels.BF16, Rows: n, Cols: n, Data: make([]byte, 2*n*n)}
	if err := kernels.EncodeFloats(w.Data, kernels.BF16, x.Data); err != nil {
		return Kernel{}, err
	}
	best := math.Inf(1)
	for start := time.Now(); ; {
		if err := ctx.Err(); err != nil {
			return Kernel{}, err
		}
		one := time.Now()
		if err := p.run(set, c, x, w, kernels.GEMMOptions{Threads: threads}); err != nil {
			return Kernel{}, fmt.Errorf("speed: %s: %w", p.name, err)
		}
		best = min(best, time.Since(one).Seconds())
		if time.Since(start) >= each {
			break
		}
	}
	return Kernel{Name: p.name, Set: set.Name, Threads: threads, Of: OfFMA, GFLOPs: 2 * p.work * n * n * n / best / 1e9}, nil
}
