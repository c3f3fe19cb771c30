package topology

// layerCount is what one layer holds.
type layerCount struct {
	layer        int
	mtp          bool
	experts      int   // distinct routed experts
	expertParams int64 // their elements
}

type expertKey struct{ layer, expert int }

// Which projections of an expert are stored.
const (
	hasGate uint8 = 1 << iota
	hasUp
	hasDown
	reported // its absence from the findings
)

func projectionBits(proj string) uint8 {
	switch proj {
	case "gate":
		return hasGate
	case "up":
		return hasUp
	case "down":
		return hasDown
	case "gate_up":
		return hasGate | hasUp
	}
	return 0
}

// primary says whether a parameter holds the weight itself, plain or packed.
func primary(param string) bool { return param == "weight" || params[param] == packedCodes }

func (r *resolver) layer(role *Role) *layerCount {
	if n := len(r.layers); n > 0 && r.layers[n-1].layer == role.Layer {
		return &r.layers[n-1]
	}
	i, ok := r.layerAt[role.Layer]
	if !ok {
		i = len(r.layers)
		r.layerAt[role.Layer] = i
		r.layers = append(r.layers, layerCount{layer: role.Layer, mtp: role.MTP})
	}
	return &r.layers[i]
}

// countLayers counts layers, experts and expert matrices.
func (r *resolver) countLayers() {
	r.layerAt, r.experts = map[int]int{}, map[expertKey]uint8{}
	mtp := false
	for i := range r.Roles {
		role := &r.Roles[i]
		mtp = mtp || role.MTP
		if role.Layer < 0 && role.Kind != Expert {
			continue
		}
		l := r.layer(role)
		if role.Kind != Expert || !primary(role.Param) {
			continue
		}
		shape := r.Tensors[i].Shape
		switch {
		case role.Expert >= 0:
			key := expertKey{role.Layer, role.Expert}
			old := r.experts[key]
			if old == 0 {
				l.experts++
			}
			r.experts[key] = old | projectionBits(role.Projection)
			r.ExpertMatrices++
		case len(shape) >= 3 && shape[0] <= maxStacked:
			n := int(shape[0])
			l.experts = max(l.experts, n)
			r.ExpertMatrices += n
			if role.Projection == "gate_up" {
				r.ExpertMatrices += n
			}
		}
	}
	for _, l := range r.layers {
		r.Experts = max(r.Experts, l.experts)
		switch {
		case l.layer < 0:
		case l.mtp:
			r.MTPLayers++
		}
		switch {
		case l.experts == 0:
		case l.mtp:
			r.MTPExpertLayers++
		default:
			r.ExpertLayers++
		}
	}
	if mtp && r.MTPLayers == 0 {
		r.MTPLayers = 1 // one that has only parts outside a layer
	}
	r.SharedExperts = r.Config.SharedExperts
	if r.SharedExperts == 0 {
		for i := range r.Roles {
			if r.Roles[i].Kind == SharedExpert {
				r.SharedExperts = 1
				break
			}
		}
	}
}
