// Package method turns variant names, scheme+method+method, into quantizers.
//
// Promises: a name that is not known, or that asks for what cannot be done, is
// refused with the known ones; nothing falls back. A Variant is a value that
// may be used from many goroutines at once.
package method

import (
	"math"

	"quantscope/kernels"
)

// Variant is a scheme with its methods.
type Variant struct {
	Name          string // canonical: nvfp4, nvfp4+mse_ge1, …
	Scheme        string // a name in the table of formats
	Methods       []string
	BitsPerWeight float64  // with the scales of whole groups; what is stored once a tensor is in Bytes
	Multipliers   []string // labels of kernels.Tap.Multipliers, in order

	format kernels.Format
	nvfp4  kernels.NVFP4Options
}

// Measure quantizes a matrix and returns its tap record.
func (v Variant) Measure(set kernels.Set, m kernels.Matrix) (kernels.Tap, error) {
	return set.NVFP4(m, v.nvfp4, nil)
}

// MeasureRows is Measure with the relative l2 error ‖w−q‖/‖w‖ of each row; 0
// where the error is 0, so for zero rows too. There is none where the matrix has
// no columns.
func (v Variant) MeasureRows(set kernels.Set, m kernels.Matrix) (kernels.Tap, []float64, error) {
	// A wrong Rows is refused below, where it is compared with the data.
	rows := max(min(m.Rows, len(m.Data)), 0)
	out := kernels.NVFP4Output{RowE2: make([]float64, rows), RowW2: make([]float64, rows)}
	if m.Cols == 0 {
		out = kernels.NVFP4Output{}
	}
	tap, err := set.NVFP4(m, v.nvfp4, &out)
	if err != nil {
		return kernels.Tap{}, nil, err
	}
	if m.Cols == 0 {
		return tap, nil, nil
	}
	errs := out.RowE2
	for r, e2 := range errs {
		if e2 != 0 {
			errs[r] = math.Sqrt(e2 / out.RowW2[r])
		}
	}
	return tap, errs, nil
}

// Bytes is what a rows×cols matrix takes when stored, scales and all; −1 where
// that is no shape or too large to count.
func (v Variant) Bytes(rows, cols int) int64 {
	n, err := v.format.Bytes(rows, cols)
	if err != nil {
		return -1
	}
	return n
}
