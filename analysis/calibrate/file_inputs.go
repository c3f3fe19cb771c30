package calibrate

import (
	"fmt"

	"quantscope/analysis/model"
	"quantscope/quant/topology"
)

// Kept is one input that a file keeps the moments of.
type Kept struct {
	At      model.Place // as InputOf names it
	N       int         // columns
	Hessian bool
	For     []string // the linear maps that read it, as in "attention q"; "expert gate" stands for those of all experts
}

// KeptUnit are inputs that are measured together: a layer's, or the head's.
type KeptUnit struct {
	Name   string // layer 3, mtp 5, head
	Inputs []Kept
}

// headUnit is the name of the unit that is the head.
const headUnit = "head"

// UnitName is what a layer is called as a unit.
func UnitName(l *model.Layer) string {
	if l.MTP {
		return fmt.Sprintf("mtp %d", l.Index)
	}
	return fmt.Sprintf("layer %d", l.Index)
}

// AllInputs lists the inputs of all linear maps of a model, in the order in which
// they are measured. src says which MTP layers have a head of their own, and where
// the head is.
func AllInputs(s *model.Spec, src model.Source, hessians bool) []KeptUnit {
	var units []KeptUnit
	for _, list := range [][]model.Layer{s.Layers, s.MTP} {
		for i := range list {
			l := &list[i]
			u := KeptUnit{Name: UnitName(l)}
			readers := readersOf(l)
			for _, in := range Inputs(s, l, OwnHead(src, l)) {
				u.Inputs = append(u.Inputs, Kept{in.At, in.N, hessians, readers[in.At]})
			}
			units = append(units, u)
		}
	}
	head := HeadInput(s, src)
	return append(units, KeptUnit{headUnit, []Kept{{head.At, head.N, hessians, []string{topology.Head.String()}}}})
}

// readersOf are the linear maps of a layer by what they read.
func readersOf(l *model.Layer) map[model.Place][]string {
	out := map[model.Place][]string{}
	add := func(kind topology.Kind, expert int, projections ...string) {
		for _, p := range projections {
			at := InputOf(model.Place{Kind: kind, Layer: l.Index, Expert: expert, Projection: p}, l.MoE != nil)
			name := kind.String()
			if p != "" {
				name += " " + p
			}
			if n := len(out[at]); n == 0 || out[at][n-1] != name {
				out[at] = append(out[at], name)
			}
		}
	}
	if l.MTP {
		add(topology.MTPExtra, -1, "eh_proj", "shared_head.head")
	}
	switch r := l.Attn.LowRank; {
	case r == nil:
		add(topology.Attention, -1, "q", "k", "v", "o")
	case r.Q > 0:
		add(topology.Attention, -1, "q_a", "kv_a", "q_b", "kv_b", "o")
	default:
		add(topology.Attention, -1, "q", "kv_a", "kv_b", "o")
	}
	m := l.MoE
	if m == nil {
		add(topology.MLP, -1, "gate", "up", "down")
		return out
	}
	add(topology.Router, -1, "")
	for _, p := range []string{"gate", "up", "down"} {
		for e := range m.Experts {
			add(topology.Expert, e, p)
		}
	}
	if m.Shared > 0 {
		add(topology.SharedExpert, -1, "gate", "up", "down")
	}
	return out
}
