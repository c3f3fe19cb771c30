package method

import (
	"fmt"

	"quantscope/kernels"
)

// NeedsMatrix says that something is chosen from a whole matrix before its first
// row is coded, the codebook of code2: Prepared does, or, where rows come in
// chunks, kernels.Set.BeginCodebook in a reading of its own.
func (v Variant) NeedsMatrix() bool { return whole(v.Scheme) }

// NamesBook says whether the variant names its four values, code2+book:A:B:C:D, and
// chooses none.
func (v Variant) NamesBook() bool { return kernels.NamesBook(v.Spec.Method) }

// Prepared is the spec that one matrix is quantized with: the variant's own, with
// what is chosen once a matrix. amax is what kernels.Set.Begin wants. importance
// has a number for each column where v.Importance says so and is nil elsewhere;
// what is not as it should be is ErrNeedsCalibration or kernels.ErrShape.
func (v Variant) Prepared(set kernels.Set, w kernels.Operand, amax float32, importance []float32) (kernels.Spec, error) {
	if err := v.checkImportance(importance, w); err != nil {
		return kernels.Spec{}, err
	}
	spec := v.Spec
	if v.NeedsMatrix() && spec.Codebook == 0 {
		book, err := set.ChooseBook(spec, w, amax, importance)
		if err != nil {
			return kernels.Spec{}, fmt.Errorf("variant %q: %w", v.Name, err)
		}
		spec.Use(book)
	}
	return spec, nil
}

func (v Variant) checkImportance(importance []float32, w kernels.Operand) error {
	_, cols := w.Dims()
	switch {
	case v.Importance && importance == nil && cols > 0:
		return fmt.Errorf("variant %q: %w", v.Name, ErrNeedsCalibration)
	case !v.Importance && importance != nil:
		return fmt.Errorf("variant %q: importance of %d columns, which it does not weigh: %w", v.Name, len(importance), kernels.ErrShape)
	}
	return nil
}

// Begin begins the quantization of a matrix, by its importance where the variant
// takes that: Prepared, and then the pass of what it gives. Variants with a
// Hessian are ErrNeedsCalibration: kernels.Set.GPTQ makes them.
func (v Variant) Begin(set kernels.Set, m kernels.Matrix, amax float32, importance []float32) (*kernels.Pass, error) {
	if v.GPTQ {
		return nil, fmt.Errorf("variant %q: %w", v.Name, ErrNeedsCalibration)
	}
	spec, err := v.Prepared(set, kernels.StoredOperand(m), amax, importance)
	if err != nil {
		return nil, err
	}
	return v.BeginPrepared(set, spec, m.Element, m.Rows, m.Cols, amax, importance)
}

// BeginPrepared is Begin with a spec that Prepared gave, for some of the rows or
// for rows that are not in memory.
func (v Variant) BeginPrepared(set kernels.Set, spec kernels.Spec, e kernels.Element, rows, cols int, amax float32, importance []float32) (*kernels.Pass, error) {
	if v.Spec.Method == imatrix {
		return set.BeginWeighted(spec, e, rows, cols, amax, importance)
	}
	return set.Begin(spec, e, rows, cols, amax)
}
