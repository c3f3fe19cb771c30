package candidate

import (
	"fmt"

	"quantscope/analysis/model"
	"quantscope/quant/topology"
)

// Part is a group of a candidate's tensors.
type Part struct {
	Name string
	has  func(p model.Place) bool
	head bool
}

// maxBands bounds the parts of a candidate that differs in one kind of tensors.
const maxBands = 8

// partNames are the groups, by kind; what is not named is the rest: norms, routers.
var partNames = map[topology.Kind]string{
	topology.Attention: "attention", topology.MLP: "MLP", topology.Expert: "experts", topology.SharedExpert: "shared experts",
	topology.Embedding: "embedding", topology.Head: "head",
}

const restName = "norms and routers"

func partName(p model.Place) string {
	if name, ok := partNames[p.Kind]; ok {
		return name
	}
	return restName
}

// Parts are the groups of tensors in which c differs from ref: by kind, or, where
// that is one kind, by at most 8 bands of layers. Each tensor that differs is in one.
// Fewer than two are no parts.
func Parts(ref, c *Candidate) ([]Part, error) {
	if err := Compatible(ref, c); err != nil {
		return nil, err
	}
	theirs, err := ref.traced()
	if err != nil {
		return nil, err
	}
	own, err := c.traced()
	if err != nil {
		return nil, err
	}
	groups := map[string]bool{}
	layers := map[int]bool{}
	for _, it := range c.inventory() {
		if o := originOf(own, it.param); o != nil && o == originOf(theirs, it.param) {
			continue
		}
		groups[partName(it.Place)] = true
		layers[it.Layer] = true
	}
	var parts []Part
	if len(groups) > 1 {
		for _, name := range []string{"embedding", "attention", "MLP", "experts", "shared experts", restName, "head"} {
			if groups[name] {
				parts = append(parts, Part{Name: name, head: name == "head", has: func(p model.Place) bool { return partName(p) == name }})
			}
		}
		return parts, nil
	}
	n := len(c.Arch.Layers)
	bands := min(maxBands, n)
	for b := range bands {
		from, to := n*b/bands, n*(b+1)/bands // layers from to to-1
		any := false
		for l := from; l < to; l++ {
			any = any || layers[l]
		}
		if !any {
			continue
		}
		name := fmt.Sprintf("layers %d to %d", from, to-1)
		if from == to-1 {
			name = fmt.Sprintf("layer %d", from)
		}
		parts = append(parts, Part{Name: name, has: func(p model.Place) bool { return p.Layer >= from && p.Layer < to }})
	}
	if len(parts) < 2 {
		return nil, nil
	}
	return parts, nil
}

// Only is ref with one part of c.
func Only(ref, c *Candidate, p Part) (*Candidate, error) {
	if err := Compatible(ref, c); err != nil {
		return nil, err
	}
	mix := newMixture(ref, c, c.Label+" only "+p.Name, p.head, func(x param) bool { return p.has(x.Place) })
	mix.Spec, mix.Effective = c.Spec+" only "+p.Name, c.Effective+" in "+p.Name+" alone"
	return mix, nil
}
