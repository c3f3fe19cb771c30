package lint

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"quantscope/analysis/census"
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

// globals reads the second-level scales, of one number each, of matrices that
// servers fuse into one (gate and up; q, k and v; q_a and kv_a), and nothing else.
// There is one finding for all blocks of a kind in a layer.
func (r *run) globals() error {
	rep, err := census.Run(r.ctx, r.Checkpoint, r.Model)
	if errors.Is(err, census.ErrConfig) { // then what is quantized cannot be told
		return r.ctx.Err()
	}
	if err != nil {
		return err
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
		worst := &found[0]
		out = append(out, Finding{
			File: worst.File, Tensor: worst.Tensor,
			Message: fmt.Sprintf("layer %d: in %d of %d blocks %s have different second-level scales: %s; a server that keeps one for all decodes the others off by that factor", l.Layer, l.Differing, l.Pairs, l.Set, strings.Join(shown, ", ")),
			Evidence: []Evidence{
				{"layer", fmt.Sprint(l.Layer)}, {"blocks", fmt.Sprint(l.Pairs)}, {"differing", fmt.Sprint(l.Differing)},
				{"ratios", fmt.Sprintf("%.6g to %.6g", l.RatioMin, l.RatioMax)}, {"worst", worst.String()},
				{"served", fmt.Sprintf("what a server that keeps the first scale decodes is off by %.3g (relative l2)", worst.Change)},
			},
		})
	}
	slices.SortStableFunc(out, func(a, b Finding) int {
		i, _ := r.indexOf(a.Tensor)
		k, _ := r.indexOf(b.Tensor)
		return cmp.Compare(i, k)
	})
	for _, f := range out {
		r.add(idGlobals, f)
	}
	return nil
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
