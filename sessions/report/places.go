package report

import (
	"fmt"

	"quantscope/analysis/landscape"
)

// mostPlaces is how many lines the tables of clamps, neighbours and notes have.
const mostPlaces = 40

// tail is the tensors that stand out of what layer, expert and projection
// explain, the worst first.
func (r *Report) tail(role string) table {
	t := table{Caption: "Tensors in the tail", Cols: []column{
		{Name: "variant"}, {Name: "tensor"}, {Name: "rel2", Num: true}, {Name: "over mean", Num: true},
	}}
	left := 0
	for i := range r.Variants {
		v := &r.Variants[i]
		g := v.group(role)
		if g == nil {
			continue
		}
		if g.Tail.Why != "" && t.Note == "" {
			t.Note = "None: " + g.Tail.Why + "."
		}
		for k, item := range g.Tail.Items {
			if k >= mostPlaces {
				left++
				continue
			}
			rel2 := r.table.Arms[v.ID].Samples[item].Rel2
			over := landscape.Undefined("no mean")
			if g.MeanRel2.Defined() && g.MeanRel2.V > 0 {
				over = landscape.Exact(rel2 / g.MeanRel2.V)
			}
			t.Rows = append(t.Rows, row{Cells: []td{r.named(v), {Text: r.table.Items[item].Name, Code: true}, numeric(sig(rel2, 4), rel2), of(over, ratio)}})
		}
	}
	switch {
	case left > 0:
		t.Note = fmt.Sprintf("%s more are in quantscope analyze --json.", counted(left, "tensor", "tensors"))
	case len(t.Rows) == 0 && t.Note == "":
		t.Note = "None: layer, expert and projection explain every tensor."
	}
	return t
}

// clamps are the layers and projections with clamped block scales.
func (r *Report) clamps(role string) table {
	t := table{Caption: "Where block scales are clamped", Cols: []column{
		{Name: "variant"}, {Name: "layer"}, {Name: "projection"}, {Name: "tensors", Num: true}, {Name: "high", Sub: "blocks", Num: true}, {Name: "low", Sub: "blocks", Num: true}, {Name: "of", Sub: "blocks", Num: true},
	}}
	left := 0
	for i := range r.Variants {
		v := &r.Variants[i]
		g := v.group(role)
		if g == nil {
			continue
		}
		for _, p := range g.Clamps.Places {
			if len(t.Rows) == mostPlaces {
				left++
				continue
			}
			count := func(n int64) td { return numeric(thousands(n), float64(n)) }
			t.Rows = append(t.Rows, row{Cells: []td{
				r.named(v), {Text: p.Layer}, {Text: p.Projection}, count(int64(p.Tensors)), count(p.High), count(p.Low), count(p.Blocks),
			}})
		}
	}
	switch {
	case len(t.Rows) == 0:
		t.Note = "No block scale is clamped."
	case left > 0:
		t.Note = fmt.Sprintf("%s more have some.", counted(left, "place", "places"))
	}
	return t
}

// neighbours are the pairs of layers whose experts' ranks were compared.
func (r *Report) neighbours(role string) table {
	t := table{Caption: "Experts' ranks in neighbouring layers", Cols: []column{
		{Name: "variant"}, {Name: "layers"}, {Name: "experts", Sub: "in both", Num: true}, {Name: "ρ", Sub: "Spearman", Num: true}, {Name: "p", Num: true},
	}}
	left := 0
	for i := range r.Variants {
		v := &r.Variants[i]
		g := v.group(role)
		if g == nil {
			continue
		}
		if g.Neighbours.Why != "" && t.Note == "" {
			t.Note = "None: " + g.Neighbours.Why + "."
		}
		for k, p := range g.Neighbours.Pairs {
			if k >= mostPlaces {
				left++
				continue
			}
			t.Rows = append(t.Rows, row{Cells: []td{
				r.named(v), {Text: p.A + " → " + p.B}, numeric(thousands(int64(p.N)), float64(p.N)), of(p.Rho, Places(3)), of(p.P, Chance),
			}})
		}
	}
	if left > 0 {
		t.Note = fmt.Sprintf("%s more are in quantscope analyze --json.", counted(left, "pair", "pairs"))
	}
	return t
}

// noted is what a reader must know of the run.
func (r *Report) noted() table {
	t := table{Caption: "Failures, fallbacks and findings", Cols: []column{{Name: "what"}, {Name: "variant"}, {Name: "tensor"}, {Name: "message"}}}
	for i, n := range r.Notes {
		if i == mostPlaces {
			t.Note = fmt.Sprintf("%s more are in the session.", counted(len(r.Notes)-i, "event", "events"))
			break
		}
		t.Rows = append(t.Rows, row{Cells: []td{{Text: string(n.Kind)}, {Text: n.Variant}, {Text: n.Tensor, Code: true}, {Text: n.Message}}})
	}
	return t
}
