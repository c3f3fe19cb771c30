package gguf

import (
	"context"
	"fmt"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// Tensors that stand beside a weight: a factor of all its values, as NVFP4 has it,
// one or one an expert, and what activations are divided by before they are rounded,
// which no weight depends on.
const (
	scaleParam      = "scale"
	inputScaleParam = "input_scale"
)

// beside says whether a tensor only belongs to the weight that it is named after.
func (m *Model) beside(t *Tensor, n naming, module, param string) (bool, error) {
	if param != scaleParam && param != inputScaleParam || param == scaleParam && n.scales[module] != "" {
		return false, nil
	}
	if _, ok := m.Lookup(strings.TrimSuffix(t.Name, param) + "weight"); !ok {
		return false, &checkpoint.FileError{File: m.Parts[t.Part].Name, Tensor: t.Name, Reason: "stands without its weight"}
	}
	return true, nil
}

// OwnScale says whether the tensor "scale" beside a weight of an architecture has a
// meaning of its own, and is not multiplied into the weight's values.
func OwnScale(arch string, weight *Tensor) bool {
	a, ok := architectures[arch]
	if !ok {
		return false
	}
	_, module, _ := split(weight.Name)
	return a.scales[module] != "" && weight.Type != kernels.GGUFNVFP4
}

// scalesWeight says whether the scale beside a weight multiplies its values, rather
// than being a tensor of its own meaning. With NVFP4, llama.cpp's converter multiplies
// the two, so that the other is 1.
func (n naming) scalesWeight(t *Tensor, module string) bool {
	return n.scales[module] == "" || t.Type == kernels.GGUFNVFP4
}

// scale gives weight k of tensor t the factor that stands beside it.
func (m *Model) scale(w *Weight, t *Tensor, k int, n naming) error {
	name, ok := strings.CutSuffix(t.Name, ".weight")
	if _, module, _ := split(t.Name); !ok || !n.scalesWeight(t, module) {
		return nil
	}
	for i := range w.pieces {
		p := &w.pieces[i]
		at := k
		if of := &m.Tensors[p.tensor]; of != t { // the other half of a weight made of two
			name, at = strings.TrimSuffix(of.Name, ".weight"), 0
		}
		s, ok := m.Lookup(name + "." + scaleParam)
		if !ok {
			continue
		}
		fail := func(reason string) error {
			return &checkpoint.FileError{File: m.Parts[s.Part].Name, Tensor: s.Name, Reason: reason}
		}
		values := s.Elements()
		stacked := len(t.Shape) == 3 && values == t.Shape[0]
		switch {
		case s.Type != kernels.GGUFF32:
			return fail(fmt.Sprintf("is of type %s, want F32", s.Type))
		case values != 1 && !stacked:
			return fail(fmt.Sprintf("has %d values for a weight of shape %v", values, t.Shape))
		case !stacked:
			at = 0
		case strings.HasSuffix(name, gateUp): // two weights an expert
			at = k / 2
		}
		x := make([]float32, values)
		if err := m.Decode(context.Background(), s, 0, x); err != nil {
			return err
		}
		if v := x[at]; v-v != 0 || v < 0 {
			return fail(fmt.Sprintf("value %d is %g", at, v))
		}
		p.scaled, p.scale = true, x[at]
	}
	return nil
}

// Scaled says whether values of the weight are multiplied by a factor that stands
// beside them.
func (w *Weight) Scaled() bool {
	for i := range w.pieces {
		if w.pieces[i].scaled {
			return true
		}
	}
	return false
}
