package report

import (
	"cmp"
	"slices"
	"strconv"

	"quantscope/analysis/landscape"
	"quantscope/quant/topology"
)

// grid is where the tensors of a session stand on maps: panels of layers down
// and experts, or projections, across.
type grid struct {
	panels []panel
	pool   int // experts that share a column
	off    int // tensors that have no place: outside layers
}

// panel is one map. Cells hold the tensors of a place, more than one where
// columns are pooled.
type panel struct {
	title   string
	experts bool
	rows    []string
	cols    []string
	cells   [][]int // items, [row·len(cols)+col]
}

// most is how many cells the maps of a page may have in all: what keeps a page
// of them within some 2 MB.
const most = 280_000

// layerKey orders layers: those of the model, then those of its MTP part.
type layerKey struct {
	mtp   bool
	layer int
}

func (k layerKey) label() string {
	return topology.Role{Layer: k.layer, MTP: k.mtp}.LayerName()
}

func compareLayers(a, b layerKey) int {
	if a.mtp != b.mtp {
		if a.mtp {
			return 1
		}
		return -1
	}
	return cmp.Compare(a.layer, b.layer)
}

func keyOf(r topology.Role) layerKey { return layerKey{r.MTP, r.Layer} }

// newGrid lays the items out for a number of maps of each panel.
func newGrid(items []landscape.Item, maps int) grid {
	var experts, others []int
	g := grid{pool: 1}
	for i := range items {
		r := items[i].Role
		switch {
		case r.Layer < 0:
			g.off++
		case r.Kind == topology.Expert && r.Expert >= 0:
			experts = append(experts, i)
		default:
			others = append(others, i)
		}
	}
	rows := layersOf(items, experts)
	var ids []int
	var projections []string
	for _, i := range experts {
		r := items[i].Role
		ids = append(ids, r.Expert)
		if !slices.Contains(projections, r.Projection) {
			projections = append(projections, r.Projection)
		}
	}
	slices.SortStableFunc(projections, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for g.pool < len(ids) && len(rows)*((len(ids)+g.pool-1)/g.pool)*len(projections)*max(maps, 1) > most {
		g.pool++
	}
	var cols []string
	at := map[int]int{}
	for i, id := range ids {
		if i%g.pool == 0 {
			last := ids[min(i+g.pool, len(ids))-1]
			label := strconv.Itoa(id)
			if last != id {
				label += "–" + strconv.Itoa(last)
			}
			cols = append(cols, label)
		}
		at[id] = i / g.pool
	}
	for _, p := range projections {
		var of []int
		for _, i := range experts {
			if items[i].Role.Projection == p {
				of = append(of, i)
			}
		}
		g.panels = append(g.panels, newPanel(cmp.Or(p, "experts"), true, items, of, rows, cols, func(i int) int { return at[items[i].Role.Expert] }))
	}
	if len(others) > 0 {
		g.panels = append(g.panels, otherPanel(items, others))
	}
	return g
}

// place is where a projection stands among others: as data flows through a layer.
// Those without a place follow in the order of the checkpoint.
func place(projection string) int {
	known := []string{"q", "k", "v", "qkv", "o", "gate_up", "gate", "up", "down"}
	if i := slices.Index(known, projection); i >= 0 {
		return i
	}
	return len(known)
}

// otherPanel has a column for each kind and projection.
func otherPanel(items []landscape.Item, others []int) panel {
	var cols []string
	at := map[string]int{}
	name := func(i int) string {
		r := items[i].Role
		n := cmp.Or(r.Projection, r.Kind.String())
		switch r.Kind {
		case topology.Attention, topology.MLP:
			return n
		case topology.SharedExpert:
			return "shared " + n
		}
		return cmp.Or(r.Kind.String()+" "+r.Projection, n)
	}
	order := slices.Clone(others)
	slices.SortStableFunc(order, func(a, b int) int {
		ra, rb := items[a].Role, items[b].Role
		return cmp.Or(cmp.Compare(ra.Kind, rb.Kind), cmp.Compare(place(ra.Projection), place(rb.Projection)))
	})
	for _, i := range order {
		if _, ok := at[name(i)]; !ok {
			at[name(i)] = len(cols)
			cols = append(cols, name(i))
		}
	}
	return newPanel("other matrices", false, items, others, layersOf(items, others), cols, func(i int) int { return at[name(i)] })
}

func newPanel(title string, experts bool, items []landscape.Item, of []int, rows []layerKey, cols []string, col func(int) int) panel {
	p := panel{title: title, experts: experts, cols: cols, cells: make([][]int, len(rows)*len(cols))}
	for _, k := range rows {
		p.rows = append(p.rows, k.label())
	}
	for _, i := range of {
		row, _ := slices.BinarySearchFunc(rows, keyOf(items[i].Role), compareLayers)
		c := row*len(cols) + col(i)
		p.cells[c] = append(p.cells[c], i)
	}
	return p
}

func layersOf(items []landscape.Item, of []int) []layerKey {
	var keys []layerKey
	for _, i := range of {
		keys = append(keys, keyOf(items[i].Role))
	}
	slices.SortFunc(keys, compareLayers)
	return slices.Compact(keys)
}
