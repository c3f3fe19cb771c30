package verify

import (
	"quantscope/kernels"
	"quantscope/quant/layout"
	"quantscope/quant/method"
)

// convertedFrom are the conventions of the layout that a checkpoint was converted
// from, where that one multiplies by second-level scales and this one divides by
// them, or the other way round: its codes and block scales are then those that
// the other convention makes, beside the reciprocal of its second-level scale.
func convertedFrom(l *layout.Layout, m *layout.Module) []kernels.Convention {
	if m.Spec.Format != "nvfp4" || m.GlobalTensor() == nil {
		return nil
	}
	from := l.Receipt.Converted.From
	if from == layout.Quantscope { // which has either
		from = layout.ModelOpt
		if c := l.Receipt.Converted.Receipt.Convention; c == kernels.CT.String() || c == kernels.CT32.String() {
			from = layout.CompressedTensors
		}
	}
	switch {
	case m.Method == layout.ModelOpt && from == layout.CompressedTensors:
		return []kernels.Convention{kernels.CT32, kernels.CT}
	case m.Method == layout.CompressedTensors && from == layout.ModelOpt:
		return []kernels.Convention{kernels.ModelOpt, kernels.ModelOptStatic}
	}
	return nil
}

func divides(c kernels.Convention) bool { return c == kernels.CT || c == kernels.CT32 }

// foreign says whether a way of making a module has its second-level scale as the
// reciprocal of the stored one.
func foreign(m *layout.Module, s kernels.Spec) bool {
	return (s.Format == "nvfp4" || s.Format == "code2") && m.GlobalTensor() != nil && divides(s.Convention) != divides(m.Spec.Convention)
}

// globalOf is a stored second-level scale as a way of making the module has it, to
// within the rounding of a reciprocal.
func globalOf(m *layout.Module, s kernels.Spec, stored float32) float32 {
	if foreign(m, s) {
		return 1 / stored
	}
	return stored
}

// beforeConverted is the variant that a checkpoint was made by before it was
// converted, where its codes can be made again by that: of nvfp4 or of two bits, and
// not of what was calibrated or followed a recipe.
func (r *run) beforeConverted() (statement, bool) {
	was := r.layout.Receipt.Converted.Receipt
	v, err := method.Parse(was.Variant)
	if err != nil || v.Scheme != "nvfp4" && !isBook(v.Scheme) || v.Calibrated() {
		return statement{}, false
	}
	return statement{v, "config", was.Convention}, true
}
