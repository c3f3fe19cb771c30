package candidate

import (
	"fmt"

	"quantscope/analysis/model"
	"quantscope/quant/topology"
)

// unasked says which weights and norms of the decoder are stored and not computed,
// because the config asks for none of them: fewer layers than are there, no shared
// expert. Nothing that is missing tells of it, and the figures are finite.
func unasked(top *topology.Model, spec *model.Spec) []Finding {
	asked := map[param]bool{{headAt, "weight"}: true}
	for _, n := range needs(spec) {
		asked[n.param] = true
	}
	var first string
	n := 0
	note := func(r topology.Role, name string) {
		if !decodes(r) || r.Param != "weight" || asked[param{placeOf(r), "weight"}] || r.Layer < len(spec.Layers) && !reads(r, spec) {
			return
		}
		if n++; n == 1 {
			first = name
		}
	}
	k := 0
	for i, r := range top.Roles {
		from := k
		for k < len(top.Matrices) && top.MatrixTensor[k] == i {
			k++
		}
		if from == k && (r.Kind != topology.Expert || r.Expert >= 0) { // a vector, or the codes of a module; not those of all experts
			note(r, top.Tensors[i].Name)
		}
		for _, m := range top.Matrices[from:k] {
			note(m.Role, m.Name)
		}
	}
	if n == 0 {
		return nil
	}
	f := Finding{ID: "not-computed", Tensor: first, Message: first + " is stored, but the config asks for no such part, and it is not computed"}
	if n > 1 {
		f.Message += fmt.Sprintf(" (and %d more like it)", n-1)
	}
	return []Finding{f}
}

// decodes says whether a role is one of a decoder layer's own, which a pass reads.
func decodes(r topology.Role) bool {
	if r.MTP || r.Layer < 0 || r.Projection == "rotary" {
		return false
	}
	switch r.Kind {
	case topology.Norm, topology.Mixing, topology.Attention, topology.MLP, topology.Expert, topology.SharedExpert, topology.Router:
		return true
	}
	return false
}
