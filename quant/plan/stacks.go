package plan

import (
	"fmt"
	"slices"
	"strings"

	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// stack is a module of experts that stand in 3-D tensors, one for each projection.
type stack struct {
	module                         string
	matrices, targeted, untargeted int
	tensors                        []int
	bias                           string // of all experts in one tensor
	whole, part                    string // the first tensor that no group has, the first of which a group has some
}

// stacks finds them, in the order of their first tensors.
func (p *planner) stacks() []*stack {
	var list []*stack
	at := map[string]*stack{}
	m := p.model
	for i := range m.Tensors {
		r := &m.Roles[i]
		if r.Kind != topology.Expert || r.Expert >= 0 || r.MTP && r.Param == "weight" && !p.anyTargeted(i) {
			continue // MTP layers are rarely quantized
		}
		name := m.Tensors[i].Name
		module := moduleOf(name, r)
		if d := strings.LastIndexByte(module, '.'); d > 0 {
			module = module[:d]
		}
		s := at[module]
		if s == nil {
			s = &stack{module: module}
			at[module] = s
			list = append(list, s)
		}
		if r.Param != "weight" {
			if s.bias == "" {
				s.bias = name
			}
			continue
		}
		s.tensors = append(s.tensors, i)
		targeted, untouched := 0, 0
		for k := p.first[i]; k < p.first[i+1]; k++ {
			switch st := p.state[k]; {
			case st >= 0:
				targeted++
			case st == untargeted:
				untouched++
			}
		}
		all := p.first[i+1] - p.first[i]
		if all == 0 && len(m.Tensors[i].Shape) >= 3 && !p.named(name, r) { // its layout is not known
			all, untouched = 1, 1
		}
		if untouched == all && s.whole == "" {
			s.whole = name
		}
		if targeted > 0 && targeted < all && s.part == "" {
			s.part = name
		}
		s.matrices, s.targeted, s.untargeted = s.matrices+all, s.targeted+targeted, s.untargeted+untouched
	}
	return list
}

func (p *planner) anyTargeted(tensor int) bool {
	return slices.ContainsFunc(p.state[p.first[tensor]:p.first[tensor+1]], func(s state) bool { return s >= 0 })
}

// named says whether ignore or exemptions name a tensor.
func (p *planner) named(name string, r *topology.Role) bool {
	return slices.ContainsFunc(slices.Concat(p.file.Ignore, p.file.Exemptions), func(pattern string) bool {
		m, err := recipe.ParseTarget(pattern)
		return err == nil && (m.Match(name) || m.Match(moduleOf(name, r)))
	})
}

// checkStacks reports fused experts that a recipe misses, takes in part, or that no
// layout can take apart; and experts of a layer that are stored in different ways.
func (p *planner) checkStacks() {
	var missed, partly []*stack
	for _, s := range p.stacks() {
		switch {
		case s.targeted == 0 && s.untargeted > 0:
			missed = append(missed, s)
		case s.targeted > 0 && s.targeted < s.matrices:
			partly = append(partly, s)
		}
		if s.targeted > 0 && s.bias != "" {
			p.find(Finding{ID: FusedBias, Tensor: s.bias,
				Message: fmt.Sprintf("experts of %s would become tensors of their own, and a bias of all experts in one tensor cannot follow", s.module),
				Fix:     "name the experts in ignore"})
		}
	}
	if len(missed) > 0 && len(p.Selection) > 0 {
		p.reportMissed(missed)
	}
	for n, s := range partly {
		if n == 4 {
			break
		}
		tensor := s.part
		if tensor == "" {
			tensor = s.whole
		}
		more := ""
		if n == 3 && len(partly) > 4 {
			more = fmt.Sprintf(" (and so in %d more)", len(partly)-4)
		}
		p.find(Finding{ID: FusedPartly, Tensor: tensor,
			Message: fmt.Sprintf("%d of the %d matrices of %s are in a group; they become tensors of their own, so target all or none%s", s.targeted, s.matrices, s.module, more),
			Fix:     "target gate_up and down of all experts, or name the module in ignore"})
	}
	p.checkExpertSchemes()
}

// reportMissed says which share of the linear maps the recipe reaches.
func (p *planner) reportMissed(missed []*stack) {
	m := p.model
	var all, reached, fused int64
	for i := range m.Tensors {
		r := &m.Roles[i]
		switch {
		case !mappedKind(r.Kind) || r.Param != "weight" || len(m.Tensors[i].Shape) < 2 || r.Projection == "conv":
			continue
		case len(m.Tensors[i].Shape) > 2 && r.Kind != topology.Expert:
			continue
		}
		all += p.params[i]
		for k := p.first[i]; k < p.first[i+1]; k++ {
			if p.state[k] >= 0 {
				reached += int64(m.Matrices[k].Rows) * int64(m.Matrices[k].Cols)
			}
		}
	}
	tensors := 0
	for _, s := range missed {
		tensors += len(s.tensors)
		for _, i := range s.tensors {
			fused += p.params[i]
		}
	}
	percent := func(n int64) float64 { return 100 * float64(n) / float64(max(all, 1)) }
	first := m.Tensors[missed[0].tensors[0]]
	p.find(Finding{ID: FusedMissed, Tensor: first.Name,
		Message: fmt.Sprintf("the recipe reaches %.1f %% of the parameters of linear maps; %.1f %% stand in %s of all experts that no group matches, the first %s %v",
			percent(reached), percent(fused), counted(tensors, "3-D tensor"), first.Name, first.Shape),
		Fix: "experts in one tensor have no .weight and are no Linear: target " + missed[0].module + ".* and those like it, or name them in ignore"})
}

// mappedKind says whether a kind's matrices are the linear maps of layers.
func mappedKind(k topology.Kind) bool {
	switch k {
	case topology.Attention, topology.MLP, topology.Expert, topology.SharedExpert:
		return true
	}
	return false
}

// checkExpertSchemes reports layers whose routed experts are not all stored alike.
func (p *planner) checkExpertSchemes() {
	schemes := map[int]string{} // of each layer: that of its first expert
	var split []int
	tensor := ""
	for k := range p.model.Matrices {
		m := &p.model.Matrices[k]
		if m.Role.Kind != topology.Expert || p.state[k] == noSource {
			continue
		}
		scheme := "the source's bytes"
		if g := p.state[k]; g >= 0 {
			scheme = p.formats[g].Name
		}
		first, ok := schemes[m.Role.Layer]
		switch {
		case !ok:
			schemes[m.Role.Layer] = scheme
		case first != scheme && !slices.Contains(split, m.Role.Layer):
			if split = append(split, m.Role.Layer); tensor == "" {
				tensor = m.Name
			}
		}
	}
	if len(split) > 0 {
		p.find(Finding{ID: ExpertsSplit, Tensor: tensor,
			Message: fmt.Sprintf("the routed experts of %s, the first layer %d, are not all stored alike; servers hold the experts of a layer in one matrix of one scheme", counted(len(split), "layer"), split[0]),
			Fix:     "decide by layer (price --by layer), or serve with what takes experts one by one"})
	}
}
