package landscape

import (
	"fmt"
	"strconv"
	"strings"

	"quantscope/quant/export"
	"quantscope/quant/topology"
)

// Granularity says which items are tied together, so that they have one arm.
type Granularity uint8

// Granularities.
const (
	ByTensor     Granularity = iota // every item by itself
	ByFused                         // what servers fuse: gate and up, q and k and v (export.SharedGroups)
	ByExpert                        // all matrices of an expert of a layer; what belongs to none as under ByFused
	ByLayer                         // all matrices of a layer; what belongs to none by itself
	ByProjection                    // a projection of one kind over all layers and experts
)

var granularities = []string{"tensor", "fused", "expert", "layer", "projection"}

// String is the word for it.
func (g Granularity) String() string {
	if int(g) < len(granularities) {
		return granularities[g]
	}
	return fmt.Sprintf("granularity(%d)", uint8(g))
}

// Granularities lists the words that ParseGranularity takes.
func Granularities() []string { return append([]string(nil), granularities...) }

// ParseGranularity reads the word; an unknown one is an error that lists the
// known.
func ParseGranularity(word string) (Granularity, error) {
	for i, w := range granularities {
		if w == word {
			return Granularity(i), nil
		}
	}
	return 0, fmt.Errorf("granularity %q is not known (known: %s)", word, strings.Join(granularities, ", "))
}

// unit is what is decided on together.
type unit struct {
	items []int // ascending
	name  string
}

// layerKey tells layers apart; -1 is outside any.
type layerKey struct {
	layer int
	mtp   bool
}

func layerOf(r *topology.Role) layerKey { return layerKey{r.Layer, r.MTP} }

// String is L5, M46 for an MTP layer, "no layer" outside any.
func (k layerKey) String() string {
	return topology.Role{Layer: k.layer, MTP: k.mtp}.LayerName()
}

// units groups the items for which keep holds, in the order of their first
// members.
func units(t *Table, g Granularity, keep func(i int) bool) []unit {
	var items []int
	for i := range t.Items {
		if keep(i) {
			items = append(items, i)
		}
	}
	fused := fusedOf(t, g)
	at := map[string]int{}
	var out []unit
	for _, i := range items {
		key, name := unitKey(t, i, g, fused)
		u, ok := at[key]
		if !ok {
			u = len(out)
			at[key] = u
			out = append(out, unit{name: name})
		}
		out[u].items = append(out[u].items, i)
	}
	for u := range out {
		if n := len(out[u].items); n > 1 && fused != nil && fused[out[u].items[0]] >= 0 && (g == ByFused || t.Items[out[u].items[0]].Role.Kind != topology.Expert) {
			out[u].name = fusedName(t, out[u].items)
		}
	}
	return out
}

// unitKey names what an item is tied to: a key that differs between units, and
// a name for people.
func unitKey(t *Table, i int, g Granularity, fused []int) (key, name string) {
	r := &t.Items[i].Role
	own := "tensor " + strconv.Itoa(i)
	switch {
	case g == ByTensor:
	case g == ByLayer && r.Layer >= 0:
		l := layerOf(r).String()
		return l, l
	case g == ByProjection:
		p := projectionOf(r)
		return p, p
	case g == ByExpert && r.Kind == topology.Expert && r.Expert >= 0:
		e := fmt.Sprintf("%v expert %d", layerOf(r), r.Expert)
		return e, e
	case (g == ByFused || g == ByExpert) && fused[i] >= 0:
		own = "fused " + strconv.Itoa(fused[i])
	}
	return own, t.Items[i].Name
}

// projectionOf is a projection with the kind where that is not clear: down,
// mlp down, attention q. Routed experts go without.
func projectionOf(r *topology.Role) string {
	switch {
	case r.Projection == "":
		return r.Kind.String()
	case r.Kind == topology.Expert:
		return r.Projection
	}
	return r.Kind.String() + " " + r.Projection
}

// fusedName is the first of the names with the projections of the others.
func fusedName(t *Table, items []int) string {
	var projections []string
	for _, i := range items {
		projections = append(projections, t.Items[i].Role.Projection)
	}
	return t.Items[items[0]].Name + " (" + strings.Join(projections, "+") + ")"
}

// fusedOf says of each item in which group that servers fuse it is, -1 for
// none; nil where the granularity does not ask for it.
func fusedOf(t *Table, g Granularity) []int {
	if g != ByFused && g != ByExpert {
		return nil
	}
	of := make([]int, len(t.Items))
	for i := range of {
		of[i] = -1
	}
	for k, group := range fusedGroups(t) {
		for _, i := range group {
			of[i] = k
		}
	}
	return of
}

// fusedGroups are the groups of two or more items that a server fuses into one
// matrix.
func fusedGroups(t *Table) [][]int { return export.SharedGroups(matricesOf(t)) }

// storedName is the tensor that holds an item: its name without [expert] and
// the half where it is a part of one (topology.Matrix.Name).
func storedName(it *Item) string {
	if it.Role.Expert < 0 {
		return it.Name
	}
	mark := "[" + strconv.Itoa(it.Role.Expert) + "]"
	at := strings.LastIndex(it.Name, mark)
	if at <= 0 {
		return it.Name
	}
	if rest := it.Name[at+len(mark):]; rest != "" && rest != "."+it.Role.Projection {
		return it.Name
	}
	return it.Name[:at]
}
