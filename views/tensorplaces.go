package views

import (
	"slices"

	"quantscope/sessions"
)

// places is where tensors sit in the model: which row of the map, which
// projection. Both are dense indices, so that sums over a part of the model are
// sums over parts of a table.
type places struct {
	grid        *Grid
	projections []string // in the order of the forward pass
	projection  []int32  // by tensor
	tensors     []sessions.Tensor
}

// of says whether these are the tensors that p is about, by identity: a session
// never changes its tensors.
func (p *places) of(tensors []sessions.Tensor) bool {
	return p.grid != nil && len(p.tensors) == len(tensors) && (len(tensors) == 0 || &p.tensors[0] == &tensors[0])
}

// newPlaces indexes tensors.
func newPlaces(tensors []sessions.Tensor) places {
	p := places{tensors: tensors, grid: NewGrid(tensors), projection: make([]int32, len(tensors))}
	index := map[string]int32{}
	for i := range tensors {
		name := tensors[i].Role.Projection
		if _, known := index[name]; !known {
			index[name] = 0
			p.projections = append(p.projections, name)
		}
	}
	slices.SortStableFunc(p.projections, func(a, b string) int { return forwardOrder(a) - forwardOrder(b) })
	for i, name := range p.projections {
		index[name] = int32(i)
	}
	for i := range tensors {
		p.projection[i] = index[tensors[i].Role.Projection]
	}
	return p
}

// layers is the number of rows of the map.
func (p *places) layers() int {
	if p.grid == nil {
		return 0
	}
	return len(p.grid.Rows)
}

// layer is the row of a tensor.
func (p *places) layer(tensor int) int {
	row, _, _ := p.grid.Place(tensor)
	return row
}

// cells is the number of (layer, projection) pairs.
func (p *places) cells() int { return p.layers() * len(p.projections) }

// cell is the index of a tensor's (layer, projection) pair.
func (p *places) cell(tensor int) int {
	return p.layer(tensor)*len(p.projections) + int(p.projection[tensor])
}

// projectionIndex finds a projection; -1 is all of them. A name that is not
// there has an index that no tensor has.
func (p *places) projectionIndex(name string) int {
	if name == "" {
		return -1
	}
	if i := slices.Index(p.projections, name); i >= 0 {
		return i
	}
	return len(p.projections)
}

// projectionLabel names a projection in a table.
func (p *places) projectionLabel(i int) string {
	if name := Clean(p.projections[i]); name != "" {
		return name
	}
	return "other"
}

var forwardProjections = []string{"q", "q_a", "q_b", "k", "kv_a", "v", "kv_b", "qkv", "o", "gate", "up", "gate_up", "down"}

// forwardOrder sorts projections as the forward pass meets them, unknown ones
// last.
func forwardOrder(name string) int {
	if i := slices.Index(forwardProjections, name); i >= 0 {
		return i
	}
	return len(forwardProjections)
}
