package lint

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	modules "quantscope/quant/layout"
	"quantscope/quant/topology"
)

// shownBlocks is how many blocks of a layer a message names, the worst first.
const shownBlocks = 4

// apart is a block whose fused matrices have different second-level scales.
type apart struct {
	expert        int
	first, second string // projections
	ratio         float64
	module        *modules.Module // of the second
}

// String says by how much, as in "expert 3 up/gate 10".
func (a apart) String() string {
	where := ""
	if a.expert >= 0 {
		where = fmt.Sprintf("expert %d ", a.expert)
	}
	return fmt.Sprintf("%s%s/%s %.6g", where, a.second, a.first, a.ratio)
}

// globalsDiffer reads the second-level scales, of one number each, of matrices
// that servers fuse into one (gate and up; q, k and v), and nothing else. There
// is one finding for all blocks of a kind in a layer.
func globalsDiffer(ctx context.Context, c *checkpoint.Checkpoint, m *topology.Model) ([]Finding, error) {
	l, err := modules.Open(c, m)
	if err != nil { // then what is quantized cannot be told
		return nil, ctx.Err()
	}
	var selection []topology.Matrix
	var of []*modules.Module
	for i := range l.Modules {
		if mod := &l.Modules[i]; mod.GlobalTensor() != nil && export.SharesGlobal(mod.Spec.Format) {
			name := mod.Name + ".weight"
			selection = append(selection, topology.Matrix{Name: name, Tensor: name, Role: mod.Role, ColStride: 1})
			of = append(of, mod)
		}
	}
	type place struct {
		kind  topology.Kind
		layer int
		set   string
	}
	differing, blocks := map[place][]apart{}, map[place]int{}
	var order []place
	for _, group := range export.SharedGroups(selection) {
		a, differ, err := compareGlobals(ctx, group, of)
		if err != nil {
			return nil, err
		}
		role := of[group[0]].Role
		p := place{role.Kind, role.Layer, projections(group, of)}
		if blocks[p]++; !differ {
			continue
		}
		if differing[p] == nil {
			order = append(order, p)
		}
		differing[p] = append(differing[p], a)
	}
	var out []Finding
	for _, p := range order {
		found := differing[p]
		slices.SortStableFunc(found, func(a, b apart) int {
			return cmp.Compare(math.Abs(math.Log(b.ratio)), math.Abs(math.Log(a.ratio)))
		})
		shown := make([]string, 0, shownBlocks+1)
		for _, a := range found[:min(len(found), shownBlocks)] {
			shown = append(shown, a.String())
		}
		if len(found) > shownBlocks {
			shown = append(shown, "…")
		}
		t := found[0].module.GlobalTensor()
		out = append(out, Finding{
			Severity: Error, File: c.Files[t.File].Name, Tensor: t.Name,
			Message: fmt.Sprintf("layer %d: in %d of %d blocks %s have different second-level scales: %s; a server that keeps one for all decodes the others off by that factor", p.layer, len(found), blocks[p], p.set, strings.Join(shown, ", ")),
			Fix:     "quantize these tensors again with one second-level scale over what a server fuses",
		})
	}
	return out, nil
}

// projections names the members of a group, as in "gate and up".
func projections(group []int, of []*modules.Module) string {
	names := make([]string, len(group))
	for i, k := range group {
		names[i] = of[k].Role.Projection
	}
	slices.SortStableFunc(names, byStacking)
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// compareGlobals finds the member whose scale is furthest from the first one's.
// Scales that are not finite or not positive are left to other rules.
func compareGlobals(ctx context.Context, group []int, of []*modules.Module) (worst apart, differ bool, err error) {
	group = slices.SortedStableFunc(slices.Values(group), func(a, b int) int { return byStacking(of[a].Role.Projection, of[b].Role.Projection) })
	var first float64
	for i, k := range group {
		mod := of[k]
		g, err := mod.Global(ctx)
		if err != nil {
			return worst, false, err
		}
		scale := float64(g)
		if conv := mod.Spec.Convention; conv == kernels.CT || conv == kernels.CT32 {
			scale = 1 / scale // it divides
		}
		if !(scale > 0) || math.IsInf(scale, 0) {
			return worst, false, nil
		}
		if i == 0 {
			first = scale
			continue
		}
		if ratio := scale / first; ratio != 1 && math.Abs(math.Log(ratio)) >= math.Abs(math.Log(cmp.Or(worst.ratio, 1))) {
			worst, differ = apart{mod.Role.Expert, of[group[0]].Role.Projection, mod.Role.Projection, ratio, mod}, true
		}
	}
	return worst, differ, nil
}

// byStacking orders projections as servers stack them: q before k before v,
// gate before up.
func byStacking(a, b string) int {
	order := []string{"q", "k", "v", "gate", "up", "q_a", "kv_a", "qkv", "z"}
	return cmp.Compare(slices.Index(order, a), slices.Index(order, b))
}
