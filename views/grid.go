package views

import (
	"cmp"
	"slices"
	"strconv"

	"quantscope/quant/topology"
	"quantscope/sessions"
)

// Grid is the geometry of a map: rows are layers, columns are dense and shared
// projections and then experts. It depends on the tensors alone and is built
// once. A cell may hold several tensors (the projections of an expert) or none.
type Grid struct {
	Rows  []GridRow
	Cols  []GridCol
	Dense int      // how many of Cols stand left of the experts
	Parts []string // projections of the experts, in the order of the forward pass

	place []gridPlace // by tensor
	order []int32     // tensors by row, column, part
	start []int32     // of each row in order; one more than there are rows
}

// GridRow is one layer, or what belongs to none.
type GridRow struct {
	Label string // L12; D0 for a dense layer among MoE ones, M46 for MTP, V3 in a vision tower, – outside any layer
	Layer int    // -1 outside any layer
	Kind  RowKind
}

// RowKind says what a row of a grid is.
type RowKind uint8

// Kinds of rows, in the order in which they stand.
const (
	RowVision RowKind = iota
	RowLayer
	RowDense // a layer without experts in a model that has them
	RowMTP
	RowNone // tensors outside any layer
)

// GridCol is one column.
type GridCol struct {
	Label, Short string // gate, g
	Projection   string // as the role spells it; "" for experts
	Group        string // attention, mlp, shared, …; "" for experts
	Expert       int    // -1 for dense and shared projections
}

type gridPlace struct{ row, col, part int32 }

// Tensors is the number of tensors.
func (g *Grid) Tensors() int { return len(g.place) }

// Place is where a tensor stands. The part is its projection's index in Parts,
// 0 outside experts.
func (g *Grid) Place(tensor int) (row, col, part int) {
	p := g.place[tensor]
	return int(p.row), int(p.col), int(p.part)
}

// At lists the tensors of a cell, by part.
func (g *Grid) At(row, col int) []int32 {
	if row < 0 || row >= len(g.Rows) {
		return nil
	}
	in := g.order[g.start[row]:g.start[row+1]]
	byCol := func(t int32, col int) int { return cmp.Compare(int(g.place[t].col), col) }
	from, _ := slices.BinarySearchFunc(in, col, byCol)
	to, _ := slices.BinarySearchFunc(in, col+1, byCol)
	return in[from:to]
}

// NewGrid places tensors. A tensor's index in the slice is its ID.
func NewGrid(tensors []sessions.Tensor) *Grid {
	g := &Grid{place: make([]gridPlace, len(tensors)), order: make([]int32, len(tensors))}
	g.placeRows(tensors)
	g.placeCols(tensors)
	for i := range g.order {
		g.order[i] = int32(i)
	}
	slices.SortFunc(g.order, func(a, b int32) int {
		p, q := g.place[a], g.place[b]
		return cmp.Or(cmp.Compare(p.row, q.row), cmp.Compare(p.col, q.col), cmp.Compare(p.part, q.part), cmp.Compare(a, b))
	})
	g.start = make([]int32, len(g.Rows)+1)
	for _, p := range g.place {
		g.start[p.row+1]++
	}
	for r := range g.Rows {
		g.start[r+1] += g.start[r]
	}
	return g
}

type rowKey struct {
	kind  RowKind
	layer int
}

// placeRows gives each tensor its layer.
func (g *Grid) placeRows(tensors []sessions.Tensor) {
	type facts struct {
		row            int32
		experts, dense bool
	}
	known := map[rowKey]*facts{}
	keys := make([]rowKey, 0, 64)
	anyExperts := false
	keyOf := func(r *topology.Role) rowKey {
		switch {
		case r.Layer < 0:
			return rowKey{RowNone, -1}
		case r.Kind == topology.Vision:
			return rowKey{RowVision, r.Layer}
		case r.MTP:
			return rowKey{RowMTP, r.Layer}
		}
		return rowKey{RowLayer, r.Layer}
	}
	for i := range tensors {
		r := &tensors[i].Role
		k := keyOf(r)
		f := known[k]
		if f == nil {
			f = &facts{}
			known[k] = f
			keys = append(keys, k)
		}
		f.experts = f.experts || r.Kind == topology.Expert
		f.dense = f.dense || r.Kind == topology.MLP
		anyExperts = anyExperts || r.Kind == topology.Expert
	}
	slices.SortFunc(keys, func(a, b rowKey) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.layer, b.layer))
	})
	for i, k := range keys {
		f := known[k]
		f.row = int32(i)
		row := GridRow{Layer: k.layer, Kind: k.kind}
		if k.kind == RowLayer && anyExperts && f.dense && !f.experts {
			row.Kind = RowDense
		}
		row.Label = rowLabel(row)
		g.Rows = append(g.Rows, row)
	}
	for i := range tensors {
		g.place[i].row = known[keyOf(&tensors[i].Role)].row
	}
}

func rowLabel(r GridRow) string {
	if r.Kind == RowNone {
		return "–"
	}
	return string("VLDM"[r.Kind]) + strconv.Itoa(r.Layer)
}

type colKey struct {
	group, expert, order int
	name, projection     string
}

// groups are the kinds of columns left of the experts, in order.
var groups = map[topology.Kind]struct {
	order int
	name  string
}{
	topology.Vision: {0, "vision"}, topology.Embedding: {1, "embedding"}, topology.Attention: {2, "attention"},
	topology.MLP: {3, "mlp"}, topology.SharedExpert: {4, "shared"}, topology.Router: {5, "router"},
	topology.Norm: {6, "norm"}, topology.MTPExtra: {7, "mtp"}, topology.Head: {8, "head"}, topology.Unknown: {9, "other"},
}

const expertGroup = 10

// placeCols gives each tensor its column and part.
func (g *Grid) placeCols(tensors []sessions.Tensor) {
	keyOf := func(r *topology.Role) colKey {
		if r.Kind == topology.Expert && r.Expert >= 0 {
			return colKey{group: expertGroup, expert: r.Expert}
		}
		name := Clean(r.Projection)
		kind := r.Kind
		if _, known := groups[kind]; !known {
			kind = topology.Unknown
		}
		if name == "" {
			name = groups[kind].name
		}
		return colKey{groups[kind].order, -1, forwardOrder(r.Projection), name, r.Projection}
	}
	known := map[colKey]int32{}
	parts := map[string]int32{}
	var keys []colKey
	for i := range tensors {
		r := &tensors[i].Role
		k := keyOf(r)
		if _, seen := known[k]; !seen {
			known[k] = 0
			keys = append(keys, k)
		}
		if _, seen := parts[r.Projection]; k.group == expertGroup && !seen {
			parts[r.Projection] = 0
			g.Parts = append(g.Parts, r.Projection)
		}
	}
	slices.SortFunc(keys, func(a, b colKey) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.expert, b.expert), cmp.Compare(a.order, b.order), cmp.Compare(a.name, b.name), cmp.Compare(a.projection, b.projection))
	})
	slices.SortFunc(g.Parts, func(a, b string) int {
		return cmp.Or(cmp.Compare(forwardOrder(a), forwardOrder(b)), cmp.Compare(a, b))
	})
	for i, name := range g.Parts {
		parts[name] = int32(i)
	}
	names := map[int]string{}
	for kind, group := range groups {
		names[groups[kind].order] = group.name
	}
	for i, k := range keys {
		known[k] = int32(i)
		col := GridCol{Label: k.name, Projection: k.projection, Group: names[k.group], Expert: k.expert}
		if k.group == expertGroup {
			col.Label = strconv.Itoa(k.expert)
			col.Short = col.Label
		} else {
			n, _ := next(k.name)
			col.Short = k.name[:n]
			g.Dense++
		}
		g.Cols = append(g.Cols, col)
	}
	for i := range tensors {
		r := &tensors[i].Role
		k := keyOf(r)
		g.place[i].col = known[k]
		if k.group == expertGroup {
			g.place[i].part = parts[r.Projection]
		}
	}
}
