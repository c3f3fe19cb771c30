package landscape

import (
	"cmp"
	"slices"
)

// clamps counts clamped block scales over all measured tensors, those with
// figures that are not finite included, by layer and projection.
func (g *group) clamps() {
	c := &g.report.Clamps
	type place struct {
		layerKey
		projection string
	}
	at := map[place]*ClampPlace{}
	var keys []place
	for i := range g.table.Items {
		r := &g.table.Items[i].Role
		s := &g.arm.Samples[i]
		if s.State != Measured || r.Kind != g.kind {
			continue
		}
		c.High += s.ScaleHigh
		c.Low += s.ScaleLow
		c.Blocks += s.Blocks
		k := place{layerOf(r), r.Projection}
		p := at[k]
		if p == nil {
			p = &ClampPlace{Layer: k.layerKey.String(), Projection: projectionName(k.projection)}
			at[k] = p
			keys = append(keys, k)
		}
		p.High += s.ScaleHigh
		p.Low += s.ScaleLow
		p.Blocks += s.Blocks
		if s.ScaleHigh+s.ScaleLow > 0 {
			p.Tensors++
		}
	}
	for _, k := range keys { // in the table's order, which the sort keeps among equals
		if p := at[k]; p.Tensors > 0 {
			c.Places = append(c.Places, *p)
		}
	}
	slices.SortStableFunc(c.Places, func(a, b ClampPlace) int { return cmp.Compare(b.High+b.Low, a.High+a.Low) })
}
