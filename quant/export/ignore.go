package export

import (
	"maps"
	"slices"
	"strings"

	"quantscope/quant/topology"
)

// ignored lists the modules that a server could take for quantized linear
// layers and that are not, sorted, as Unquantized does.
func (b *planner) ignored() []string {
	var names []string
	names, b.stacks = Unquantized(b.model, func(tensor string) bool { return len(b.taken[tensor]) > 0 })
	return names
}

// Unquantized lists the modules that a server could take for quantized linear
// layers and whose tensors are not taken, sorted: every weight of two dimensions or
// more that is no embedding and no norm, and the head, which the model has even where
// it is tied and not stored. For experts that stay in one tensor it is the module
// that holds them; those are in stacks.
func Unquantized(model *topology.Model, taken func(tensor string) bool) (modules []string, stacks map[string]bool) {
	names := map[string]bool{}
	stacks = map[string]bool{}
	head := false
	for i := range model.Tensors {
		t, role := &model.Tensors[i], &model.Roles[i]
		if role.Kind == topology.Head {
			head = true
		}
		if taken(t.Name) || !mayBeLinear(t, role) {
			continue
		}
		if isStacked(role) {
			stacks[expertsOf(t.Name)] = true
			names[expertsOf(t.Name)] = true
			continue
		}
		names[strings.TrimSuffix(t.Name, weightSuffix)] = true
	}
	if !head {
		names["lm_head"] = true
	}
	return slices.Sorted(maps.Keys(names)), stacks
}

// mayBeLinear says whether a server may look for a quantized weight in the
// place of this tensor.
func mayBeLinear(t *topology.Named, role *topology.Role) bool {
	if role.Param != "weight" || len(t.Shape) < 2 {
		return false
	}
	if role.Kind == topology.Embedding || role.Kind == topology.Norm {
		return false
	}
	return strings.HasSuffix(t.Name, weightSuffix) || isStacked(role)
}

// isPattern says whether a module's name means more than itself where a config
// lists it.
func isPattern(name string) bool {
	return strings.HasPrefix(name, "re:") || strings.ContainsAny(name, `*?[]\`)
}
