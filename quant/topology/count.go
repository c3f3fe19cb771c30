package topology

import (
	"fmt"
	"strings"
)

// countParams counts the elements of weights and biases.
func (r *resolver) countParams() {
	opaque, first := 0, -1
	r.TensorParams = make([]int64, len(r.Tensors))
	for i := range r.Tensors {
		role := &r.Roles[i]
		n, ok := r.paramsOf(i)
		if !ok {
			if opaque++; first < 0 {
				first = i
			}
			continue
		}
		r.TensorParams[i] = n
		r.Params[role.Kind] += n
		r.TotalParams += n
		if role.MTP {
			r.MTPParams += n
		}
		if role.Kind == Expert {
			r.layer(role).expertParams += n
		}
	}
	if opaque > 0 {
		r.findf(NotCounted, r.Tensors[first].Name, "parameters of %s are not counted: neither headers nor config say how many codes a word holds", counted(opaque, "packed tensor"))
	}
	r.ActiveParams = r.TotalParams - r.MTPParams - r.Params[Vision]
	for _, l := range r.layers {
		switch {
		case l.mtp || l.experts == 0:
		case r.TopK == 0:
			r.ActiveParams = 0
			return
		default:
			perExpert := l.expertParams / int64(l.experts)
			r.ActiveParams -= l.expertParams - perExpert*int64(min(r.TopK, l.experts))
		}
	}
}

// paramsOf is the number of the model's elements that a tensor stands for. It
// is false where a packed tensor's headers and the config do not say.
func (r *resolver) paramsOf(i int) (int64, bool) {
	t, role, n := &r.Tensors[i], &r.Roles[i], r.numel[i]
	class := params[role.Param]
	if role.Kind == Router && role.Param == "scale" {
		class = ownValues
	}
	switch {
	case class == metadata || strings.HasPrefix(role.Param, "weight."):
		return 0, true
	case floatSize(t.DType) > 0 || t.DType == "F4":
		return n, true
	case role.Kind == Unknown: // integers that no table knows are not taken for codes
		return 0, true
	}
	base := strings.TrimSuffix(t.Name, role.Param)
	switch role.Param {
	case "weight":
		return r.packedWeight(t, base, n)
	case "weight_packed":
		if _, two := r.index[base+"weight_codebook"]; two {
			return 4 * n, t.DType == "U8" // two-bit codes
		}
		if t.DType == "U8" {
			return 2 * n, true // four-bit codes
		}
		return r.packedWords(t, n, base+"weight_scale")
	case "qweight":
		return r.packedQweight(t, base, n)
	case "blocks":
		return 2 * n, t.DType == "U8"
	}
	return 0, class == ownValues // integers beside the weights, as tables of indices
}

// packedWeight counts a weight of integer type: one byte an element, or two
// FP4 codes a byte where the block scales say so.
func (r *resolver) packedWeight(t *Named, base string, n int64) (int64, bool) {
	switch t.DType {
	case "U8", "I8":
		for _, name := range []string{base + "weight_scale", base + "scale"} {
			if cols, ok := r.lastSide(name); ok && len(t.Shape) > 0 {
				stored := t.Shape[len(t.Shape)-1]
				if 2*stored == 16*cols || 2*stored == 32*cols {
					return 2 * n, true
				}
			}
		}
		if t.DType == "I8" {
			return n, true
		}
		if r.Config.QuantBits == 4 || strings.Contains(r.Config.QuantFormat, "4") {
			return 2 * n, true
		}
	case "U32", "I32":
		return r.packedWords(t, n, base+"scales")
	}
	return 0, false
}

// packedWords counts codes that cross or fill 32-bit words along the inputs:
// by the groups of the scales, else by the bits that the config states.
func (r *resolver) packedWords(t *Named, n int64, scales string) (int64, bool) {
	group := int64(r.Config.QuantGroup)
	if cols, ok := r.lastSide(scales); ok && group > 0 && len(t.Shape) > 0 && t.Shape[len(t.Shape)-1] > 0 {
		return n / t.Shape[len(t.Shape)-1] * cols * group, true
	}
	if b := int64(r.Config.QuantBits); b > 0 {
		return n * 32 / b, true
	}
	return 0, false
}

// packedQweight counts GPTQ and AWQ: the first packs along the inputs (rows)
// and has one scale for each column, the second packs along the outputs.
func (r *resolver) packedQweight(t *Named, base string, n int64) (int64, bool) {
	if len(t.Shape) != 2 {
		return 0, false
	}
	outs, ok := r.lastSide(base + "scales")
	if ok && outs != t.Shape[1] {
		return t.Shape[0] * outs, true
	}
	if ins, ok := r.lastSide(base + "g_idx"); ok {
		return ins * t.Shape[1], true
	}
	if b := int64(r.Config.QuantBits); b > 0 {
		return n * 32 / b, true
	}
	return 0, false
}

// lastSide is the innermost dimension of another tensor.
func (r *resolver) lastSide(name string) (int64, bool) {
	i, ok := r.index[name]
	if !ok || len(r.Tensors[i].Shape) == 0 {
		return 0, false
	}
	shape := r.Tensors[i].Shape
	return shape[len(shape)-1], true
}

// summary is the line for a header.
func (r *resolver) summary() string {
	parts := []string{r.Family}
	plus := func(n, mtp int, word string) string {
		if mtp > 0 {
			return fmt.Sprintf("%d+%d %ss", n, mtp, word)
		}
		return counted(n, word)
	}
	switch {
	case r.ExpertLayers+r.MTPExpertLayers > 0 && r.Layers > 0:
		parts = append(parts, plus(r.ExpertLayers, r.MTPExpertLayers, "MoE layer"))
	case r.Layers > 0:
		parts = append(parts, plus(r.Layers, r.MTPLayers, "layer"))
	}
	switch {
	case r.ExpertMatrices == 1:
		parts = append(parts, "1 expert matrix")
	case r.ExpertMatrices > 0:
		parts = append(parts, fmt.Sprintf("%d expert matrices", r.ExpertMatrices))
	}
	if n := len(r.Unknown); n > 0 {
		parts = append(parts, fmt.Sprintf("%d of unknown role", n))
	}
	parts = append(parts, FormatCount(r.TotalParams)+" params")
	return strings.Join(parts, " · ")
}

// counted is "1 layer", "2 layers".
func counted(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// FormatCount writes a count as people say it: 412, 4.9 M, 235 B.
func FormatCount(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	v, unit := float64(n), 0
	for v >= 999.5 && unit < len("KMBT") {
		v /= 1000
		unit++
	}
	if v < 99.95 {
		return fmt.Sprintf("%.1f %c", v, "KMBT"[unit-1])
	}
	return fmt.Sprintf("%.0f %c", v, "KMBT"[unit-1])
}
