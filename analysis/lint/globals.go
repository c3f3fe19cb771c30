package lint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"quantscope/analysis/census"
	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// shownBlocks is how many blocks of a layer a message names, the worst first.
const shownBlocks = 4

// apart is a block whose fused matrices have different second-level scales: the
// member whose scale is furthest from the first one's.
type apart struct {
	expert int
	first  string // projection
	census.Member
}

// String says by how much, as in "expert 3 up/gate 10".
func (a apart) String() string {
	where := ""
	if a.expert >= 0 {
		where = fmt.Sprintf("expert %d ", a.expert)
	}
	return fmt.Sprintf("%s%s/%s %.6g", where, a.Projection, a.first, a.Ratio)
}

func (a apart) distance() float64 { return math.Abs(math.Log(a.Ratio)) }

// globalsDiffer reads the second-level scales, of one number each, of matrices
// that servers fuse into one (gate and up; q, k and v), and nothing else. There
// is one finding for all blocks of a kind in a layer.
func globalsDiffer(ctx context.Context, c *checkpoint.Checkpoint, m *topology.Model) ([]Finding, error) {
	rep, err := census.Run(ctx, c, m)
	if errors.Is(err, census.ErrConfig) { // then what is quantized cannot be told
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	var out []Finding
	for i := range rep.Layers {
		l := &rep.Layers[i]
		if l.Differing == 0 {
			continue
		}
		found := differing(l)
		shown := make([]string, 0, shownBlocks+1)
		for _, a := range found[:min(len(found), shownBlocks)] {
			shown = append(shown, a.String())
		}
		if len(found) > shownBlocks {
			shown = append(shown, "…")
		}
		out = append(out, Finding{
			Severity: Error, File: found[0].File, Tensor: found[0].Tensor,
			Message: fmt.Sprintf("layer %d: in %d of %d blocks %s have different second-level scales: %s; a server that keeps one for all decodes the others off by that factor", l.Layer, l.Differing, l.Pairs, l.Set, strings.Join(shown, ", ")),
			Fix:     "quantize these tensors again with one second-level scale over what a server fuses; quantscope census --fix writes a copy that has one",
		})
	}
	at := make(map[string]int, len(c.Tensors))
	for i := range c.Tensors {
		at[c.Tensors[i].Name] = i
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(at[a.Tensor], at[b.Tensor]) })
	return out, nil
}

// differing lists the blocks of a layer that differ, the worst first.
func differing(l *census.Layer) []apart {
	var found []apart
	for k := range l.Groups {
		g := &l.Groups[k]
		if !g.Differ {
			continue
		}
		worst := apart{expert: g.Expert, first: g.Members[0].Projection, Member: g.Members[0]}
		for _, m := range g.Members[1:] {
			if a := (apart{g.Expert, worst.first, m}); a.distance() >= worst.distance() {
				worst = a
			}
		}
		found = append(found, worst)
	}
	slices.SortStableFunc(found, func(a, b apart) int { return cmp.Compare(b.distance(), a.distance()) })
	return found
}
