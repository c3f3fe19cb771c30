package convert

import (
	"fmt"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/export"
	"quantscope/quant/layout"
)

// Layouts that can be converted to.
const (
	ModelOpt          = layout.ModelOpt
	CompressedTensors = layout.CompressedTensors
	Own               = layout.Quantscope
	GPTQ              = layout.GPTQ
)

// form is what a module is, whoever stored it.
type form string

const (
	integers form = "integers" // scale·(code − zero point)
	affine   form = "affine"   // scale·code + minimum
	nvfp4    form = "nvfp4"
	mxfp4    form = "mxfp4"
	fp8      form = "fp8" // of whatever scope

	code2      form = "code2" // four values of nvfp4's, in two bits
	code2mxfp4 form = "code2-mxfp4"
)

// sayable is the table of what can be said in which layout, and by which function.
var sayable = []struct {
	form   form
	layout string
	plan   func(*planner, *piece) error
}{
	{integers, CompressedTensors, planWords},
	{integers, GPTQ, planGPTQ},
	{integers, Own, planOwn},
	{affine, Own, planOwn},
	{affine, CompressedTensors, planWords}, // where every minimum is a whole number of steps
	{affine, GPTQ, planGPTQ},
	{nvfp4, CompressedTensors, planNVFP4},
	{nvfp4, ModelOpt, planNVFP4},
	{nvfp4, Own, planPacked}, // where four values are enough
	{mxfp4, CompressedTensors, planMXFP4},
	{mxfp4, Own, planPacked},
	{code2, CompressedTensors, planUnpacked},
	{code2, ModelOpt, planUnpacked},
	{code2mxfp4, CompressedTensors, planUnpacked},
	{fp8, CompressedTensors, planFP8},
	{fp8, ModelOpt, planFP8},
}

// Layouts lists the layouts that can be converted to.
func Layouts() []string {
	var names []string
	for _, s := range sayable {
		if !slices.Contains(names, s.layout) {
			names = append(names, s.layout)
		}
	}
	return names
}

// formOf finds out what a module is; "" for what is none of the forms.
func formOf(m *layout.Module) form {
	f := m.Format()
	_, ints := m.Integers()
	switch {
	case m.BookTensor() != nil:
		return form(f.Name)
	case ints && (m.Method == layout.GPTQ || m.Method == layout.AWQ):
		return integers
	case (ints || f.Element == "int4") && m.Method == layout.CompressedTensors && strings.HasSuffix(m.CodeTensor().Name, ".weight_packed"):
		return integers
	case m.Method == layout.Quantscope || m.Method == layout.MLX && strings.HasPrefix(f.Element, "int"):
		return affine
	case f.Name == "nvfp4" && (m.Method == layout.ModelOpt || m.Method == layout.CompressedTensors):
		return nvfp4
	case f.Name == "mxfp4" && slices.Contains([]string{layout.CompressedTensors, layout.MLX, layout.FP8, layout.MXFP4}, m.Method):
		return mxfp4
	case f.Element == "e4m3" && slices.Contains([]kernels.Scope{kernels.ScopeTensor, kernels.ScopeChannel, kernels.ScopeTile}, f.Scope) && f.Scale == "f32" && slices.Contains([]string{layout.ModelOpt, layout.CompressedTensors, layout.FP8}, m.Method):
		return fp8
	}
	return ""
}

// planOf is the function for a form in a layout.
func planOf(f form, to string) (func(*planner, *piece) error, error) {
	var can []string
	for _, s := range sayable {
		if s.form != f {
			continue
		}
		if s.layout == to {
			return s.plan, nil
		}
		can = append(can, s.layout)
	}
	if len(can) == 0 {
		return nil, fmt.Errorf("cannot be said in another layout: %w", ErrRefused)
	}
	return nil, fmt.Errorf("cannot be said in layout %s: %w (can be in %s)", to, ErrRefused, strings.Join(can, ", "))
}

// Known refuses a layout that none converts to.
func Known(name string) error {
	if !slices.Contains(Layouts(), name) {
		return fmt.Errorf("layout %q: %w (known: %s)", name, export.ErrUnknown, strings.Join(Layouts(), ", "))
	}
	return nil
}
