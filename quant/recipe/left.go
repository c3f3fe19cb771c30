package recipe

import (
	"cmp"
	"slices"
	"strings"

	"quantscope/quant/topology"
)

// Part is what is left as it is of one part of the model, and why.
type Part struct {
	Part     string `json:"part"` // routers, gates of linear attention, …
	Why      string `json:"why"`
	Tensors  int    `json:"tensors"`
	Matrices int    `json:"matrices"` // among them, fused ones taken apart
	Params   int64  `json:"params"`
	Bytes    int64  `json:"bytes"`
}

// Parts that are left alone for what their tensors are, whatever the role.
var (
	partMTP    = part{name: "MTP layers", why: "drafts that are predicted worse are accepted less, and there is little to save"}
	partBias   = part{name: "biases", why: "vectors"}
	partScales = part{name: "scales of quantized weights", why: "what codes are multiplied by"}
)

// kindParts are the parts of the model that linear maps belong to.
var kindParts = map[topology.Kind]string{
	topology.Attention: "attention", topology.MLP: "MLPs", topology.Expert: "routed experts", topology.SharedExpert: "shared experts",
}

// LeftAlone lists what stays as it is in a checkpoint whose matrices are taken or
// not, the parts with most parameters first. size has the bytes of each tensor; why says of
// a linear map that could be taken why it is not.
func LeftAlone(m *topology.Model, size []int64, taken func(matrix int) bool, why func(matrix int) string) []Part {
	s := newSelector(m)
	var parts []Part
	at := map[part]int{}
	for i := range m.Tensors {
		all := int64(s.first[i+1] - s.first[i])
		left, params, bytes := all, m.TensorParams[i], size[i]
		first := -1 // matrix that is not taken
		for k := s.first[i]; k < s.first[i+1]; k++ {
			if !taken(k) {
				if first < 0 {
					first = k
				}
				continue
			}
			x := &m.Matrices[k]
			left, params, bytes = left-1, params-int64(x.Rows)*int64(x.Cols), bytes-size[i]/all
		}
		if all > 0 && left == 0 {
			continue
		}
		p := s.leftPart(i, first, why)
		n, ok := at[p]
		if !ok {
			n = len(parts)
			at[p] = n
			parts = append(parts, Part{Part: p.name, Why: p.why})
		}
		to := &parts[n]
		to.Tensors, to.Matrices, to.Params, to.Bytes = to.Tensors+1, to.Matrices+int(left), to.Params+params, to.Bytes+bytes
	}
	slices.SortStableFunc(parts, func(a, b Part) int {
		return cmp.Or(cmp.Compare(b.Params, a.Params), cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Part, b.Part), strings.Compare(a.Why, b.Why))
	})
	return parts
}

// leftPart is what a tensor belongs to that is left alone, with its first matrix that
// is not taken, -1 where it holds none.
func (s *selector) leftPart(i, matrix int, why func(int) string) part {
	r := &s.Roles[i]
	p, ok := kept(r)
	switch {
	case r.MTP && r.Kind != topology.MTPExtra:
		return partMTP
	case ok:
		p.one = ""
		return p
	}
	name := kindParts[r.Kind]
	switch {
	case r.Param == "bias":
		return partBias
	case !holdsWeight(r):
		return partScales
	case matrix < 0:
		return part{name: name, why: s.tensorReason(i)}
	}
	if reason := sourceReason(s.Model, i); reason != "" {
		return part{name: name, why: reason}
	}
	return part{name: name, why: why(matrix)}
}
