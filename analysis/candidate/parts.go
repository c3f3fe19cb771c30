package candidate

import (
	"fmt"
	"strings"

	"quantscope/quant/topology"
)

// Group is a part of a model that what it does to predictions can be attributed to.
type Group struct {
	Name    string // experts, attention, …; of one kind alone its projections: experts gate
	Tensors int    // that differ from the reference's, or whose origin is not known
}

// kindNames are the groups by kind, in the order of tables.
var kindNames = []struct {
	kind topology.Kind
	name string
}{
	{topology.Expert, "experts"}, {topology.SharedExpert, "shared experts"}, {topology.MLP, "mlp"}, {topology.Attention, "attention"},
	{topology.Router, "routers"}, {topology.Norm, "norms"}, {topology.Embedding, "embedding"}, {topology.Head, "head"},
	{topology.Mixing, "mixing"},
}

// joint is the group of embedding and head where one of the two sides has them in
// one matrix.
const joint = "embedding and head"

// tables is the group of embeddings that layers have of their own.
const tables = "layers' own embeddings"

// groupOf names the group of a tensor.
func groupOf(p param, tied, byProjection bool) string {
	name := "other"
	for _, k := range kindNames {
		if k.kind == p.Kind {
			name = k.name
		}
	}
	if p.Kind == topology.Embedding && p.Projection != "" {
		name = tables
	} else if tied && (p.Kind == topology.Embedding || p.Kind == topology.Head) {
		name = joint
	}
	if byProjection && p.Projection != "" {
		name += " " + p.Projection
	}
	return name
}

// partition says which groups of c differ from ref's, in the order of tables, and
// whether they are projections of a single kind.
func partition(ref, c *Candidate) (groups []Group, tied, byProjection bool, err error) {
	if err := Compatible(ref, c); err != nil {
		return nil, false, false, err
	}
	a, err := ref.traced()
	if err != nil {
		return nil, false, false, err
	}
	b, err := c.traced()
	if err != nil {
		return nil, false, false, err
	}
	tied = ref.Arch.Tied || c.Arch.Tied
	var changed []param
	for _, it := range c.inventory() {
		if from := originOf(b, it.param); from == nil || from != originOf(a, it.param) {
			changed = append(changed, it.param)
		}
	}
	count := func(byProjection bool) []Group {
		var out []Group
		at := map[string]int{}
		for _, p := range changed {
			name := groupOf(p, tied, byProjection)
			i, ok := at[name]
			if !ok {
				i = len(out)
				at[name] = i
				out = append(out, Group{Name: name})
			}
			out[i].Tensors++
		}
		return out
	}
	if groups = count(false); len(groups) == 1 {
		groups, byProjection = count(true), true
	}
	return inOrder(groups), tied, byProjection, nil
}

// inOrder lists groups by kind as tables do; of one kind they stay in the order of
// the model.
func inOrder(groups []Group) []Group {
	var out []Group
	taken := make([]bool, len(groups))
	take := func(prefix string) {
		for i, g := range groups {
			if !taken[i] && strings.HasPrefix(g.Name, prefix) {
				taken[i] = true
				out = append(out, g)
			}
		}
	}
	for _, k := range kindNames {
		take(k.name)
	}
	take("")
	return out
}

// Parts lists the groups of tensors in which c differs from ref: kinds of tensors,
// or the projections of a kind where there is no other. Tensors of two checkpoints
// count as different, whatever they hold.
func Parts(ref, c *Candidate) ([]Group, error) {
	groups, _, _, err := partition(ref, c)
	return groups, err
}

// Only is ref with the tensors of one of its Parts from c. An unknown group is
// refused with those that there are.
func Only(ref, c *Candidate, group string) (*Candidate, error) {
	groups, tied, byProjection, err := partition(ref, c)
	if err != nil {
		return nil, err
	}
	var names []string
	known := false
	for _, g := range groups {
		names = append(names, g.Name)
		known = known || g.Name == group
	}
	if !known {
		return nil, fmt.Errorf("%w: %s has no part %q that differs from %s; it has %s", ErrSpec, c.Label, group, ref.Label, strings.Join(names, ", "))
	}
	mix := newMixture(c, ref, c.Label+" only "+group, false, func(p param) bool { return groupOf(p, tied, byProjection) != group })
	mix.Effective = c.Effective + ", only " + group
	return mix, nil
}
