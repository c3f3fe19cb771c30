package export

import (
	"maps"
	"slices"
	"strings"

	"quantscope/quant/topology"
)

// ignored lists the modules that a server could take for quantized linear
// layers and that are not, sorted: every weight of two dimensions or more that
// is no embedding and no norm, and the head, which the model has even where it
// is tied and not stored. For experts that stay in one tensor it is the module
// that holds them.
func (b *planner) ignored() []string {
	names := map[string]bool{}
	b.stacks = map[string]bool{}
	head := false
	for i := range b.model.Tensors {
		t, role := &b.model.Tensors[i], &b.model.Roles[i]
		if role.Kind == topology.Head {
			head = true
		}
		if len(b.taken[t.Name]) > 0 || !mayBeLinear(t, role) {
			continue
		}
		if isStacked(role) {
			b.stacks[expertsOf(t.Name)] = true
			names[expertsOf(t.Name)] = true
			continue
		}
		names[strings.TrimSuffix(t.Name, weightSuffix)] = true
	}
	if !head {
		names["lm_head"] = true
	}
	return slices.Sorted(maps.Keys(names))
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
