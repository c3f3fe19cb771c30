package views

import (
	"cmp"
	"math"
	"slices"

	"quantscope/analysis/census"
	"quantscope/quant/topology"
	"quantscope/sessions"
)

// auditRows are the lists of a report, in the order in which they are shown.
type auditRows struct {
	report *census.Report
	order  int
	layers []int     // of report.Layers
	limit  float64   // largest |log ratio|
	proof  bool      // there is one
	logs   []float64 // binary logarithms of the ratios that differ

	pairsOf    pairsKey
	pairs      []auditPair
	pairsLimit float64

	tensors []sessions.Tensor
	place   map[auditPlace]int
}

// pairsKey is what the list of pairs depends on, the report apart.
type pairsKey struct {
	report       *census.Report
	layer, order int
	only         bool
}

// auditPair is one matrix beside the first one of its group.
type auditPair struct {
	group  *census.Group
	member int           // after the first
	proof  *census.Proof // nil where there is none
}

func (p *auditPair) other() *census.Member { return &p.group.Members[p.member] }
func (p *auditPair) first() *census.Member { return &p.group.Members[0] }
func (p *auditPair) differs() bool         { return p.other().Ratio != 1 }

// auditOrders are what layers and pairs can be sorted by.
var auditOrders = [auditLevels][]string{
	auditLayers: {"layer", "how many differ", "ratio", "error as served"},
	auditPairs:  {"expert", "ratio", "error as served", "scales that clamp"},
}

// orders are those that mean something for the report.
func (p *Audit) orders() []string {
	all := auditOrders[p.level]
	switch {
	case p.rows.proof:
		return all
	case p.level == auditPairs:
		return all[:2]
	}
	return all[:3]
}

// nextOrder is what s sorts by next.
func (p *Audit) nextOrder() string {
	if p.part == auditFindings {
		return findingOrders[(p.order+1)%len(findingOrders)]
	}
	all := p.orders()
	return all[(p.lists[p.level].order+1)%len(all)]
}

// update lists the layers of a report.
func (r *auditRows) update(report *census.Report, order int) {
	if report == r.report && order == r.order {
		return
	}
	again := report != r.report
	r.report, r.order = report, order
	r.layers, r.limit, r.proof = r.layers[:0], 0, false
	if again {
		r.takeLogs()
	}
	if report == nil {
		return
	}
	r.proof = report.Proof != nil
	for i := range report.Layers {
		l := &report.Layers[i]
		r.layers = append(r.layers, i)
		if l.Differing > 0 {
			r.limit = max(r.limit, ratioApart(l.RatioMin), ratioApart(l.RatioMax))
		}
	}
	by := func(f func(l *census.Layer) float64) {
		slices.SortStableFunc(r.layers, func(a, b int) int { return cmp.Compare(f(&report.Layers[b]), f(&report.Layers[a])) })
	}
	switch order {
	case 1:
		by(func(l *census.Layer) float64 { return float64(l.Differing) })
	case 2:
		by(func(l *census.Layer) float64 { return max(ratioApart(l.RatioMin), ratioApart(l.RatioMax)) })
	case 3:
		by(func(l *census.Layer) float64 {
			if l.Proof == nil {
				return 0
			}
			return l.Proof.ServedWorst
		})
	}
}

// takeLogs gathers the ratios of all pairs that differ.
func (r *auditRows) takeLogs() {
	r.logs = r.logs[:0]
	if r.report == nil {
		return
	}
	for i := range r.report.Layers {
		for g := range r.report.Layers[i].Groups {
			for _, m := range r.report.Layers[i].Groups[g].Members {
				if l := math.Log2(m.Ratio); m.Ratio != 1 && isNumber(l) {
					r.logs = append(r.logs, l)
				}
			}
		}
	}
}

// updatePairs lists the pairs of a layer.
func (r *auditRows) updatePairs(layer, order int, only bool) {
	key := pairsKey{r.report, layer, order, only}
	if key == r.pairsOf {
		return
	}
	r.pairsOf = key
	r.pairs, r.pairsLimit = r.pairs[:0], 0
	if r.report == nil || layer < 0 || layer >= len(r.report.Layers) {
		return
	}
	groups := r.report.Layers[layer].Groups
	for g := range groups {
		for m := 1; m < len(groups[g].Members); m++ {
			pair := auditPair{group: &groups[g], member: m}
			if only && !pair.differs() {
				continue
			}
			for i := range groups[g].Proof {
				if groups[g].Proof[i].Member == pair.other().Name {
					pair.proof = &groups[g].Proof[i]
				}
			}
			r.pairs = append(r.pairs, pair)
			r.pairsLimit = max(r.pairsLimit, ratioApart(pair.other().Ratio))
		}
	}
	by := func(f func(p *auditPair) float64) {
		slices.SortStableFunc(r.pairs, func(a, b auditPair) int { return cmp.Compare(f(&b), f(&a)) })
	}
	switch order {
	case 0: // files may have them in the order of their names: 1, 10, 11, 2
		by(func(p *auditPair) float64 { return -float64(p.group.Expert) })
	case 1:
		by(func(p *auditPair) float64 { return ratioApart(p.other().Ratio) })
	case 2:
		by(func(p *auditPair) float64 {
			if p.proof == nil {
				return 0
			}
			return p.proof.Served
		})
	case 3:
		by(func(p *auditPair) float64 {
			if p.proof == nil {
				return 0
			}
			return float64(p.proof.Clamped + p.proof.Underflowed)
		})
	}
}

// auditPlace is where in the model a matrix is, whatever it is called.
type auditPlace struct {
	kind          string
	layer, expert int
	projection    string
}

// tensor is the session's tensor of the selected pair, -1 where there is none.
func (p *Audit) tensor() int {
	row := p.lists[auditPairs].selected
	if row >= len(p.rows.pairs) || p.rows.report == nil || p.layer >= len(p.rows.report.Layers) {
		return -1
	}
	l, pair := &p.rows.report.Layers[p.layer], &p.rows.pairs[row]
	if t, ok := p.rows.places(p.scene.State.Tensors)[auditPlace{l.Kind, l.Layer, pair.group.Expert, pair.other().Projection}]; ok {
		return t
	}
	return -1
}

// places finds the session's tensors by their place.
func (r *auditRows) places(tensors []sessions.Tensor) map[auditPlace]int {
	if len(tensors) == len(r.tensors) && (len(tensors) == 0 || &tensors[0] == &r.tensors[0]) && r.place != nil {
		return r.place
	}
	r.tensors, r.place = tensors, make(map[auditPlace]int, len(tensors))
	for i := range tensors {
		role := &tensors[i].Role
		expert := role.Expert
		if role.Kind != topology.Expert {
			expert = -1
		}
		r.place[auditPlace{role.Kind.String(), role.Layer, expert, role.Projection}] = i
	}
	return r.place
}
