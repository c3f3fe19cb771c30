package model

import (
	"context"
	"fmt"

	"quantscope/kernels"
)

// linear is a weight with its bias.
type linear struct {
	w    Weight
	bias []float32 // nil where there is none
}

// linear reads a matrix and, where one is stored, its bias. rows and cols are
// what the architecture says; 0 is whatever it is.
func (r *run) linear(ctx context.Context, p Place, rows, cols int) (linear, error) {
	w, err := r.src.Weight(ctx, p)
	if err != nil {
		return linear{}, err
	}
	if rows > 0 && w.Rows != rows || cols > 0 && w.Cols != cols {
		return linear{}, fmt.Errorf("%w: %s is %d×%d where the config asks for %d×%d", ErrArchitecture, p, w.Rows, w.Cols, rows, cols)
	}
	l := linear{w: w}
	if r.src.Has(p, "bias") {
		if l.bias, err = r.vector(ctx, p, "bias", w.Rows); err != nil {
			return linear{}, err
		}
	}
	return l, nil
}

// vector reads a vector of n values.
func (r *run) vector(ctx context.Context, p Place, param string, n int) ([]float32, error) {
	v, err := r.src.Vector(ctx, p, param)
	if err != nil {
		return nil, err
	}
	if len(v) != n {
		return nil, fmt.Errorf("%w: %s %s has %d values in place of %d", ErrArchitecture, p, param, len(v), n)
	}
	return v, nil
}

// apply is y = x·Wᵀ + b over n rows. y is made as large as it must be.
func (r *run) apply(l linear, x []float32, n int, y []float32) ([]float32, error) {
	return r.applyOn(l, x, n, y, r.o.Threads)
}

func (r *run) applyOn(l linear, x []float32, n int, y []float32, threads int) ([]float32, error) {
	in, out := l.w.Cols, l.w.Rows
	y = grow(y, n*out)
	if n == 0 {
		return y, nil
	}
	err := r.o.Set.GEMM(
		kernels.Dense{Rows: n, Cols: out, Stride: out, Data: y},
		kernels.DenseOperand(kernels.Dense{Rows: n, Cols: in, Stride: in, Data: x}),
		l.w.Operand.T(), kernels.GEMMOptions{Alpha: 1, Threads: threads})
	if err != nil {
		return nil, err
	}
	for i := 0; l.bias != nil && i < n; i++ {
		row := y[i*out:][:out]
		for j, b := range l.bias {
			row[j] += b
		}
	}
	r.round(y)
	return y, nil
}

// round rounds activations to bf16 where that is asked for.
func (r *run) round(x []float32) {
	if r.o.BF16 {
		r.o.Set.RoundBF16(x)
	}
}

// grow is a slice of n values, of the same memory where that is enough.
func grow(b []float32, n int) []float32 {
	if cap(b) < n {
		return make([]float32, n)
	}
	return b[:n]
}
