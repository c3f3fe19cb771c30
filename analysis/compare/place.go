package compare

import (
	"cmp"
	"slices"

	"quantscope/quant/topology"
)

// layerOrder sorts layers as the model has them, what has none last.
func layerOrder(a, b topology.Role) int {
	no := func(r topology.Role) int {
		if r.Layer < 0 {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(no(a), no(b)), cmp.Compare(a.Layer, b.Layer))
}

// projectionName is the name of a projection, with the kind of the block it is
// in where experts have one of that name too.
func projectionName(r topology.Role) string {
	switch {
	case r.Projection == "":
		return r.Kind.String()
	case r.Kind == topology.SharedExpert:
		return "shared " + r.Projection
	case r.Kind == topology.MLP:
		return "mlp " + r.Projection
	}
	return r.Projection
}

var forward = []string{"q", "q_a", "q_b", "k", "kv_a", "v", "kv_b", "qkv", "o", "gate", "up", "gate_up", "down"}

// projectionOrder sorts projections as the forward pass meets them.
func projectionOrder(a, b topology.Role) int {
	at := func(r topology.Role) int {
		if i := slices.Index(forward, r.Projection); i >= 0 {
			return i
		}
		return len(forward)
	}
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(at(a), at(b)), cmp.Compare(a.Projection, b.Projection))
}
