package recipe

import (
	"fmt"
	"strings"

	"quantscope/quant/topology"
)

// holdsWeight says whether a tensor holds a weight itself, plain or packed,
// rather than a bias or a scale.
func holdsWeight(r *topology.Role) bool {
	switch r.Param {
	case "weight", "weight_packed", "qweight", "blocks", "trellis":
		return true
	}
	return false
}

// module is a tensor's name without the parameter: what quantizers call a
// module or layer name.
func module(name string, r *topology.Role) string {
	return strings.TrimSuffix(name, "."+r.Param)
}

// mayBeMatrix keeps vectors and convolutions out of a list of what is missing.
func mayBeMatrix(t *topology.Named) bool { return len(t.Shape) >= 2 }

// sourceReason says why a matrix cannot be a source, "" where it can.
func sourceReason(m *topology.Model, i int) string {
	switch d := m.Tensors[i].DType; d {
	case "BF16", "F16", "F32":
		return ""
	case "F64":
		return "stored as F64; BF16, F16 and F32 can be quantized"
	default:
		return alreadyQuantized(m, d)
	}
}

func alreadyQuantized(m *topology.Model, dtype string) string {
	how := "the config does not say how"
	if c := &m.Config; c.QuantMethod != "" {
		how = c.QuantMethod
		if c.QuantFormat != "" && c.QuantFormat != how {
			how += " " + c.QuantFormat
		}
	}
	return fmt.Sprintf("already quantized (%s), stored as %s", how, dtype)
}

// tensorReason says why a tensor holds no matrix to quantize.
func (s *selector) tensorReason(i int) string {
	t, role := &s.Tensors[i], &s.Roles[i]
	if why, ok := s.unresolved[t.Name]; ok {
		return why
	}
	floating := strings.HasPrefix(t.DType, "F") || t.DType == "BF16"
	switch {
	case !holdsWeight(role) && role.Param != "" && role.Param != "bias":
		return role.Param + ", not a weight"
	case holdsWeight(role) && role.Kind != topology.Unknown && packed(t.DType):
		return alreadyQuantized(s.Model, t.DType)
	case !floating:
		return fmt.Sprintf("stored as %s, not in floating point", t.DType)
	case len(t.Shape) < 2:
		return "a vector"
	case len(t.Shape) > 2:
		return fmt.Sprintf("%d-dimensional, and not a stack of experts", len(t.Shape))
	}
	for _, d := range t.Shape {
		if d == 0 {
			return "empty"
		}
	}
	return "no linear map"
}

// packed says whether a dtype of a weight means codes.
func packed(dtype string) bool {
	switch dtype {
	case "U8", "I8", "I16", "I32", "U16", "U32", "F4", "F8_E4M3", "F8_E5M2", "F8_E8M0":
		return true
	}
	return false
}
