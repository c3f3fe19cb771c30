// Package method turns variant names, scheme+method+method, into quantizers.
//
// Promises: a name that is not known, or that asks for what cannot be done, is
// refused with the known ones; nothing falls back.
package method

import (
	"fmt"

	"quantscope/kernels"
)

// Variant is a scheme with its methods.
type Variant struct {
	Name          string // canonical: nvfp4, nvfp4+mse_ge1, …
	Scheme        string
	Methods       []string // without rtn, which is what is left when there is none
	BitsPerWeight float64  // scales included, what is stored once a tensor not
	Multipliers   []string // labels of Tap.Multipliers, in order

	nvfp4 kernels.NVFP4Options
}

// Help is one line of a picker.
type Help struct {
	Name        string
	Description string
}

// Parse reads a variant name.
func Parse(name string) (Variant, error) {
	return Variant{}, fmt.Errorf("variant %q: %w", name, kernels.ErrUnsupported)
}

// ParseList reads a comma-separated list of variant names; a variant that
// appears twice is refused.
func ParseList(comma string) ([]Variant, error) {
	return nil, fmt.Errorf("variants %q: %w", comma, kernels.ErrUnsupported)
}

// Known lists the variants that can be had, with a line on each.
func Known() []Help { return nil }

// Measure quantizes a matrix and returns its tap record.
func (v Variant) Measure(set kernels.Set, m kernels.Matrix) (kernels.Tap, error) {
	return set.NVFP4(m, v.nvfp4, nil)
}

// MeasureRows is Measure with the relative l2 error ‖w−q‖/‖w‖ of each row.
func (v Variant) MeasureRows(set kernels.Set, m kernels.Matrix) (kernels.Tap, []float64, error) {
	t, err := set.NVFP4(m, v.nvfp4, nil)
	return t, nil, err
}

// Bytes is what a matrix of this shape takes when stored.
func (v Variant) Bytes(rows, cols int) int64 { return 0 }
