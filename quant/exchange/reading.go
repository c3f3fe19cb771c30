package exchange

import (
	"fmt"
	"slices"

	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// reading is what a file says of each module.
type reading struct {
	modules []module
	groups  []recipe.Group
	of      []int // by module: of groups, -1 for none
	notes   []Note
}

func newReading(m *topology.Model) *reading {
	r := &reading{modules: modules(m)}
	r.of = make([]int, len(r.modules))
	for i := range r.of {
		r.of[i] = -1
	}
	return r
}

// group is the index of a scheme with its methods, made where it is new.
func (r *reading) group(scheme string, methods ...string) int {
	k := slices.IndexFunc(r.groups, func(g recipe.Group) bool { return g.Scheme == scheme && slices.Equal(g.Methods, methods) })
	if k < 0 {
		k = len(r.groups)
		r.groups = append(r.groups, recipe.Group{Scheme: scheme, Methods: slices.Clone(methods)})
	}
	return k
}

func (r *reading) note(place, format string, args ...any) {
	n := Note{place, fmt.Sprintf(format, args...)}
	if !slices.Contains(r.notes, n) {
		r.notes = append(r.notes, n)
	}
}

// assignment is what is read of the matrices.
func (r *reading) assignment(m *topology.Model) *Assignment {
	a := &Assignment{Model: m, Groups: r.groups, Of: make([]int, len(m.Matrices))}
	for i := range a.Of {
		a.Of[i] = -1
	}
	for i := range r.modules {
		for _, k := range r.modules[i].matrices {
			a.Of[k] = r.of[i]
		}
	}
	return a
}

// take gives a module to a group. What a pattern matches beside linear maps (the norms
// of a block) is said and left alone; so do the tools, whose quantizers are for linear
// maps.
func (r *reading) take(i, group int, place string) {
	m := &r.modules[i]
	if len(m.matrices) == 0 || !m.linear && m.role.Kind != topology.Router {
		r.note(place, "matches %s, which is no linear map: left alone", m.name)
		return
	}
	r.of[i] = group
}
