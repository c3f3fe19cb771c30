package recode

import (
	"errors"
	"fmt"

	"quantscope/kernels"
	"quantscope/quant/method"
)

// ErrVariant is wrapped by errors about a variant that cannot be made of FP4 codes.
var ErrVariant = errors.New("cannot be made of FP4 codes")

// Possible says what can be made of FP4 codes, for errors about what cannot.
const Possible = "of FP4 codes two bits can be made: code2+l2, code2+sym"

// Schemes of two bits: as which kind of scales they stand under.
const (
	code2      = "code2"
	code2MXFP4 = "code2-mxfp4"
)

// Recodes says whether a variant is one of two bits, which changes codes alone.
func Recodes(v method.Variant) bool { return v.Scheme == code2 || v.Scheme == code2MXFP4 }

// Check says why a variant cannot be made of FP4 codes; nil where it can, whatever their
// scales are but for what On says.
func Check(v method.Variant) error {
	switch {
	case !Recodes(v):
		return fmt.Errorf("variant %s: %w: what is there is rounded already, and only which of its fifteen values are in use can be chosen, under the scales that it has (%s)", v.Name, ErrVariant, Possible)
	case v.Calibrated():
		return fmt.Errorf("variant %s: %w: calibrating moves errors of weights that have scales still to be chosen, and here scales stay (possible: %s)", v.Name, ErrVariant, v.Baseline().Name)
	}
	return nil
}

// On is what a variant is on a matrix: code2 under the scales that the matrix has.
func (m *Matrix) On(v method.Variant) (method.Variant, error) {
	if err := Check(v); err != nil {
		return method.Variant{}, err
	}
	scheme := code2
	if m.Module.Spec.Format == mxfp4 {
		scheme = code2MXFP4
	}
	if v.Scheme == code2MXFP4 && scheme == code2 {
		return method.Variant{}, fmt.Errorf("variant %s: %w: %s has NVFP4's scales, which stay (possible: code2)", v.Name, ErrVariant, m.Name)
	}
	name := scheme
	if len(v.Methods) > 0 && v.Methods[0] != "l2" {
		name += "+" + v.Methods[0]
	}
	on, err := method.Parse(name)
	if err != nil {
		return on, err
	}
	on.Spec.Convention = m.Module.Spec.Convention
	return on, nil
}

// Choose chooses the codebook of a matrix that was read.
func Choose(set kernels.Set, m kernels.FP4, v method.Variant) (kernels.Recoding, error) {
	r, err := set.ChooseRecoding(m, v.Spec.Method, nil)
	if err != nil {
		return r, fmt.Errorf("variant %s: %w", v.Name, err)
	}
	return r, nil
}
