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
	Name          string   // canonical: nvfp4, nvfp4+mse_ge1, …
	Scheme        string   // a name in the table of formats
	Methods       []string // the chooser, then imatrix, gptq and act where they go with it
	BitsPerWeight float64  // with the scales of whole groups; what is stored once a tensor is in Bytes
	Multipliers   []string // labels of kernels.Tap.Multipliers, in order

	Spec kernels.Spec // what the kernels are asked for; its method chooses the parameters of a group

	// What the variant reads beside the weights.
	Importance bool // second moments of the inputs, for the method imatrix
	GPTQ       bool // their Hessian: errors move on to columns that are still to be coded
	ActOrder   bool // columns in the order of the Hessian's diagonal; groups stay where they are
}

// Measure quantizes a matrix and returns its tap record. A calibrated variant is
// ErrNeedsCalibration.
func (v Variant) Measure(set kernels.Set, m kernels.Matrix) (kernels.Tap, error) {
	return v.pass(set, m, nil, nil)
}

// MeasureWeighted is Measure by the importance of columns, for variants that take
// it and no Hessian. Importance is nil for those that take none.
func (v Variant) MeasureWeighted(set kernels.Set, m kernels.Matrix, importance []float32) (kernels.Tap, error) {
	return v.pass(set, m, importance, nil)
}

// pass quantizes a matrix that is whole in memory.
func (v Variant) pass(set kernels.Set, m kernels.Matrix, importance []float32, out *kernels.Output) (kernels.Tap, error) {
	amax := float32(0)
	if v.Spec.NeedsAmax() {
		var err error
		if amax, err = set.AbsMax(m); err != nil {
			return kernels.Tap{}, err
		}
	}
	p, err := v.Begin(set, m, amax, importance)
	if err != nil {
		return kernels.Tap{}, err
	}
	rowsErr := p.Rows(m.Data, out)
	tap, err := p.Finish()
	if rowsErr != nil {
		return kernels.Tap{}, rowsErr
	}
	return tap, err
}

// MeasureRows is Measure with the relative l2 error ‖w−q‖/‖w‖ of each row; 0
// where the error is 0, so for zero rows too. There is none where the matrix has
// no columns.
func (v Variant) MeasureRows(set kernels.Set, m kernels.Matrix) (kernels.Tap, []float64, error) {
	// A wrong Rows is refused below, where it is compared with the data.
	rows := max(min(m.Rows, len(m.Data)), 0)
	out := kernels.Output{RowE2: make([]float64, rows), RowW2: make([]float64, rows)}
	if m.Cols == 0 {
		out = kernels.Output{}
	}
	tap, err := v.pass(set, m, nil, &out)
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
	f, err := kernels.FormatByName(v.Scheme)
	if err != nil {
		return -1
	}
	n, err := f.Bytes(rows, cols)
	if err != nil {
		return -1
	}
	return n
}
