package plan

import (
	"fmt"
	"slices"
	"strings"

	"quantscope/quant/topology"
)

// layerExperts is what one layer has of routed experts.
type layerExperts struct {
	stored, targeted, kept, fused, missing int
	first                                  string // of the missing
	firstExpert                            int
}

// holdsCodes says whether a tensor of an expert holds the weight, plain or packed.
func holdsCodes(r *topology.Role) bool {
	switch r.Param {
	case "weight", "weight_packed", "qweight", "blocks", "trellis":
		return true
	}
	return false
}

// experts counts the routed experts' matrices against the config.
func (p *planner) experts() error {
	m := p.model
	layers := map[int]*layerExperts{}
	mtp := map[int]bool{}
	projections := map[string]bool{}
	at := func(r *topology.Role) *layerExperts {
		if layers[r.Layer] == nil {
			layers[r.Layer] = &layerExperts{}
			mtp[r.Layer] = r.MTP
		}
		return layers[r.Layer]
	}
	for i := range m.Tensors {
		r := &m.Roles[i]
		if r.Kind != topology.Expert || !holdsCodes(r) {
			continue
		}
		is, n := at(r), 1
		if shape := m.Tensors[i].Shape; r.Expert < 0 && len(shape) >= 3 {
			n = int(min(shape[0], 1<<20))
		}
		if r.Projection == "gate_up" {
			projections["gate"], projections["up"] = true, true
			if r.Expert < 0 {
				n *= 2
			}
		} else {
			projections[r.Projection] = true
		}
		is.stored += n
		for k := p.first[i]; k < p.first[i+1]; k++ {
			is.add(p.state[k], &m.Matrices[k])
		}
	}
	cfg := &m.Config
	count := max(cfg.Experts, 0)
	if count == 0 {
		count = m.Experts
	}
	if count == 0 || len(layers) == 0 && cfg.Experts == 0 {
		return nil
	}
	e := &Experts{Experts: count, Projections: max(len(projections), 2), Missing: []string{}}
	p.Experts = e
	var numbers []int // of layers that shall have experts, or have
	for l := range m.Layers {
		moe, known := cfg.MoELayer(l)
		if known && moe || !known && layers[l] != nil {
			numbers = append(numbers, l)
		}
	}
	e.Layers = len(numbers)
	mtpTargeted := false
	for l, is := range layers {
		if mtp[l] {
			e.MTPLayers++
			mtpTargeted = mtpTargeted || is.targeted > 0
			numbers = append(numbers, l)
		}
	}
	slices.Sort(numbers)
	perLayer := count * e.Projections
	e.Expected = e.Layers * perLayer
	if mtpTargeted {
		e.Expected += e.MTPLayers * perLayer
	}
	p.countExperts(numbers, layers, mtp, mtpTargeted, perLayer)
	return nil
}

func (is *layerExperts) add(s state, x *topology.Matrix) {
	switch {
	case s >= 0:
		is.targeted++
		if x.Name != x.Tensor {
			is.fused++
		}
	case s == ignored || s == exempted:
		is.kept++
	default:
		if is.missing == 0 {
			is.first, is.firstExpert = x.Name, x.Role.Expert
		}
		is.missing++
	}
}

// countExperts says which layers are not as they should be.
func (p *planner) countExperts(numbers []int, layers map[int]*layerExperts, mtp map[int]bool, mtpTargeted bool, perLayer int) {
	e := p.Experts
	var wrong []string // layers that do not store what the config says
	var first string
	missing := 0
	for _, l := range numbers {
		is := layers[l]
		if is == nil {
			is = &layerExperts{}
		}
		e.Targeted, e.Kept, e.Fused = e.Targeted+is.targeted, e.Kept+is.kept, e.Fused+is.fused
		name := layerName(l, mtp[l])
		if is.stored != perLayer {
			wrong = append(wrong, fmt.Sprintf("%s stores %d of %d", name, is.stored, perLayer))
		}
		if is.missing == 0 || mtp[l] && !mtpTargeted {
			continue
		}
		missing += is.missing
		if first == "" {
			first = is.first
		}
		switch {
		case is.missing == is.stored:
			e.Missing = append(e.Missing, fmt.Sprintf("%s: all %d", name, is.missing))
		default:
			e.Missing = append(e.Missing, fmt.Sprintf("%s: %d of %d, the first %s", name, is.missing, is.stored, is.first))
		}
	}
	product := fmt.Sprintf("%d layers × %d experts × %d projections", e.Layers, e.Experts, e.Projections)
	if mtpTargeted {
		product += fmt.Sprintf(", and %s like them", counted(e.MTPLayers, "MTP layer"))
	}
	if len(wrong) > 0 && p.model.Config.Experts > 0 {
		p.find(Finding{ID: ExpertStored, Message: fmt.Sprintf("the config makes it %s: %s", product, few(wrong)),
			Fix: "the checkpoint is not whole, or its config is of another one: compare num_hidden_layers, the number of experts and the layers without experts"})
	}
	if e.Targeted > 0 && missing > 0 {
		p.find(Finding{ID: ExpertCount, Tensor: first,
			Message: fmt.Sprintf("groups take %d of %d routed-expert matrices (%s), %d are in no group: %s", e.Targeted, e.Expected, product, missing, few(e.Missing)),
			Fix:     "extend the targets to them, or name them in ignore or exemptions"})
	}
}

func layerName(l int, mtp bool) string {
	switch {
	case l < 0:
		return "outside any layer"
	case mtp:
		return fmt.Sprintf("MTP layer %d", l)
	}
	return fmt.Sprintf("layer %d", l)
}

// few joins the first of a list.
func few(list []string) string {
	const most = 4
	if len(list) > most {
		return fmt.Sprintf("%s; and %d more", strings.Join(list[:most], "; "), len(list)-most)
	}
	return strings.Join(list, "; ")
}

// counted is "1 layer", "2 layers".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func countedMatrices(n int) string {
	if n == 1 {
		return "1 matrix"
	}
	return fmt.Sprintf("%d matrices", n)
}
