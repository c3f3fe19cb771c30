package lint

import (
	"fmt"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
)

// inputScales looks for scales of activations where the config quantizes those
// with scales from calibration, and for activations that no server multiplies with
// the weights. It reads nothing.
func (r *run) inputScales() error {
	if r.lay == nil {
		return nil
	}
	said := map[string]bool{}
	w4a8 := func(where, what string) {
		if !said[where] {
			said[where] = true
			r.add(idW4A8, Finding{File: r.quant.File, Message: where + " has " + what, Evidence: []Evidence{{where, what}}})
		}
	}
	for _, name := range r.quant.groupNames() {
		if g := r.quant.Groups[name]; g.isW4A8() {
			w4a8(name, "4-bit float weights in groups of 16 and 8-bit float inputs")
		}
	}
	if r.quant.Algo == "W4A8_NVFP4_FP8" {
		w4a8("quant_algo", r.quant.Algo)
	}
	for _, algo := range r.quant.Layers {
		if algo == "W4A8_NVFP4_FP8" {
			w4a8("quantized_layers", algo)
		}
	}
	for i := range r.lay.Modules {
		m := &r.lay.Modules[i]
		if !r.wantsInputScale(m) {
			continue
		}
		t := m.CodeTensor()
		if t == nil || r.hasField(m, "input_scale", "input_global_scale", "activation_scale") {
			continue
		}
		f := Finding{Message: fmt.Sprintf("%s is stored as %s without a scale of its inputs, and %s of %s quantizes those statically", m.Name, m.Spec.Format, r.inputsBy(m), r.quant.File)}
		f.Evidence = []Evidence{{"module", m.Name}, {"declared by", r.inputsBy(m)}, {"fields", fieldNames(m)}}
		if _, grouped := r.quant.Groups[m.Declared]; grouped && !r.groupStatic(m) {
			f.Severity = Warning
		}
		r.tensor(idInputScale, t, f)
	}
	return nil
}

// wantsInputScale says whether a module's inputs are quantized statically: by its
// group, and of ModelOpt by the algorithm's name too.
func (r *run) wantsInputScale(m *layout.Module) bool {
	return r.groupStatic(m) || staticAlgos[r.quant.algo(m.Name)]
}

// groupStatic says whether a module's group quantizes inputs statically, and its
// algorithm is none that does otherwise.
func (r *run) groupStatic(m *layout.Module) bool {
	g, ok := r.quant.Groups[m.Declared]
	return ok && g.Inputs != nil && g.Inputs.static() && !dynamicAlgos[r.quant.algo(m.Name)]
}

// inputsBy is what says that inputs are quantized.
func (r *run) inputsBy(m *layout.Module) string {
	if r.groupStatic(m) {
		return m.Declared + ".input_activations"
	}
	return "quant_algo " + r.quant.algo(m.Name)
}

func (r *run) hasField(m *layout.Module, params ...string) bool {
	for _, f := range m.Fields {
		for _, p := range params {
			if f.Param == p {
				return true
			}
		}
	}
	return false
}

// fieldNames lists the parameters that a module has.
func fieldNames(m *layout.Module) string {
	var names []string
	for _, f := range m.Fields {
		names = append(names, f.Param)
	}
	return some(sorted(names), 12)
}

// plainDType says whether a dtype is that of weights that are not quantized.
func plainDType(d checkpoint.DType) bool {
	return d == checkpoint.BF16 || d == checkpoint.F16 || d == checkpoint.F32
}
