package calibrate

import (
	"fmt"
	"slices"

	"quantscope/analysis/model"
	"quantscope/quant/topology"
)

// Kept is one input that a file keeps the moments of.
type Kept struct {
	At      model.Place // as model.InputOf names it
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
			readers := readersOf(s, l)
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
func readersOf(s *model.Spec, l *model.Layer) map[model.Place][]string {
	out := map[model.Place][]string{}
	add := func(at, in model.Place) {
		name := at.Kind.String()
		if at.Projection != "" {
			name += " " + at.Projection
		}
		if !slices.Contains(out[in], name) {
			out[in] = append(out[in], name)
		}
	}
	for _, t := range l.Tensors(s) {
		if t.Linear() {
			add(t.At, t.Input)
		}
	}
	if l.MTP {
		head := l.OwnHead()
		add(head, head)
	}
	return out
}
