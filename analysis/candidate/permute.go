package candidate

import (
	"context"
	"fmt"
	"math"
	"slices"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/topology"
)

// Permuted is the ID of findings about rows in another order.
const Permuted = "permuted"

// Thresholds of Compare. Quantizing to four bits gives relative errors of about
// 0.1, another order of independent rows √2 times the root of their share.
const (
	farOff     = 0.5  // relative error from which a matrix is looked into
	suspicious = 0.35 // the same of the rows that are looked at first
	sampleRows = 48   // how many these are
	sameNorm   = 0.1  // how far norms of rows may be apart, relatively, sorted: in the middle half
	explained  = 0.5  // a permutation must bring the relative error below this times what it was
)

// Compare holds a candidate's matrices against the reference's, row by row, and
// finds those whose rows stand in another order: by names for the orders that are
// known, by matching rows otherwise. A matrix that is merely far off is no
// finding of Compare. Matrices that both take from one place are left out.
//
// A few rows of each matrix are looked at first, of experts those of a few; only
// where they are far off, all of it is read.
func Compare(ctx context.Context, ref, c *Candidate) ([]Finding, error) {
	found, err := permutations(ctx, ref, c)
	if err != nil {
		return nil, err
	}
	out := make([]Finding, len(found))
	for i := range found {
		out[i] = found[i].finding()
	}
	return out, nil
}

// permutation is what is known of the rows of one matrix, or of the gate and up
// of one MLP, which are taken together.
type permutation struct {
	places  []model.Place
	names   []string // as the candidate calls them
	order   []int32  // row r of the reference is row order[r] of the candidate, counted through all places; nil: not known
	name    string   // of the order; "" where it has none
	moved   int      // rows
	before  float64  // relative error
	after   float64
	columns bool // it is of columns; order is not used then
}

func (p *permutation) finding() Finding {
	what := "rows"
	if p.columns {
		what = "columns"
	}
	name := p.name
	if name == "" {
		name = fmt.Sprintf("a permutation of %d %s that has no name", p.moved, what)
	} else if p.columns {
		name += ", in the columns"
	}
	with := ""
	if len(p.names) > 1 {
		with = "with " + p.names[1] + ": "
	}
	return Finding{ID: Permuted, Tensor: p.names[0], Message: fmt.Sprintf("%s%s; relative error %.3g as stored, %.3g in the reference's order", with, name, p.before, p.after)}
}

// comparing is the work of one Compare.
type comparing struct {
	ref, c traced
	spec   *model.Spec
	set    kernels.Set
	names  map[model.Place]string
	shapes map[model.Place][2]int // rows and columns
}

// permutations finds them, in the order of the candidate's files.
func permutations(ctx context.Context, ref, c *Candidate) ([]permutation, error) {
	if err := Compatible(ref, c); err != nil {
		return nil, err
	}
	a, err := ref.traced()
	if err != nil {
		return nil, err
	}
	b, err := c.traced()
	if err != nil {
		return nil, err
	}
	x := &comparing{ref: a, c: b, spec: c.Arch, set: kernels.Best(), names: map[model.Place]string{}, shapes: map[model.Place][2]int{}}
	for _, n := range append(needs(c.Arch), need{param{headAt, "weight"}, c.Arch.Vocab, c.Arch.Hidden}) {
		if n.rows > 0 {
			x.shapes[n.Place] = [2]int{n.rows, n.cols}
		}
	}
	var places []model.Place
	for _, it := range c.inventory() {
		if it.matrix && it.name == "weight" && a.Has(it.Place, "weight") && a.WeightOrigin(it.Place) != b.WeightOrigin(it.Place) {
			places = append(places, it.Place)
			x.names[it.Place] = it.tensor
		}
	}
	var out []permutation
	odd := map[int]bool{} // layers of which an expert is suspicious
	done := map[model.Place]bool{}
	for _, all := range []bool{false, true} {
		for _, p := range places {
			if done[p] || all != (p.Kind == topology.Expert && !sampledExpert(p)) || all && !odd[p.Layer] {
				continue
			}
			found, far, err := x.matrix(ctx, p)
			if err != nil {
				return nil, err
			}
			odd[p.Layer] = odd[p.Layer] || far && p.Kind == topology.Expert
			done[p] = true
			if found == nil {
				continue
			}
			for _, q := range found.places {
				done[q] = true
			}
			out = append(out, *found)
		}
	}
	order := map[model.Place]int{}
	for i, p := range places {
		order[p] = i
	}
	slices.SortStableFunc(out, func(a, b permutation) int { return order[a.places[0]] - order[b.places[0]] })
	return out, nil
}

// sampledExpert picks the experts of a layer that are always looked at.
func sampledExpert(p model.Place) bool { return p.Expert%16 == p.Layer%16 }

// matrix looks at one matrix. far says that some of it is far off.
func (x *comparing) matrix(ctx context.Context, p model.Place) (found *permutation, far bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	if far, err = x.sample(ctx, p); !far || err != nil {
		return nil, far, err
	}
	one, err := x.load(ctx, p)
	defer x.release()
	if err != nil {
		return nil, false, err
	}
	if one == nil {
		return nil, false, nil
	}
	if one.before <= farOff {
		return nil, true, nil
	}
	if order, name := x.known(one, p); order != nil {
		return one.as(order, name), true, nil
	}
	if other, ok := partner(p); ok && x.names[other] != "" {
		both, err := x.load(ctx, gateFirst(p, other)...)
		if err != nil {
			return nil, true, err
		}
		if both != nil {
			if order, name := knownPair(both); order != nil {
				return both.as(order, name), true, nil
			}
		}
		if one, err = x.load(ctx, p); err != nil {
			return nil, true, err
		}
	}
	if !sortedNormsMatch(one.normsRef, one.norms) {
		return nil, true, nil
	}
	order, err := one.match()
	if err != nil {
		return nil, true, err
	}
	if order != nil {
		return one.as(order, x.nameOf(order, p)), true, nil
	}
	turned, err := one.turned()
	if err != nil {
		return nil, true, err
	}
	if order, err = turned.match(); order == nil {
		return nil, true, err
	}
	found = turned.as(order, x.nameOf(order, p))
	found.columns, found.order, found.before = true, nil, one.before
	return found, true, nil
}

// sample looks at some rows, at uneven distances so that no period hides what was
// moved.
func (x *comparing) sample(ctx context.Context, p model.Place) (far bool, err error) {
	defer x.release()
	shape, ok := x.shapes[p]
	if !ok || shape[0] == 0 || shape[1] == 0 {
		return true, nil // what its shape is will show
	}
	rows := make([]int32, min(sampleRows, shape[0]))
	for k := range rows {
		rows[k] = int32(k)
		if shape[0] > sampleRows {
			const golden = 0.6180339887498949
			_, fraction := math.Modf(float64(k+1) * golden)
			rows[k] = int32(fraction * float64(shape[0]))
		}
	}
	a, b := make([]float32, len(rows)*shape[1]), make([]float32, len(rows)*shape[1])
	for _, of := range []struct {
		s   model.Source
		dst []float32
	}{{x.ref, a}, {x.c, b}} {
		if err := of.s.Rows(ctx, p, rows, of.dst); ctx.Err() != nil {
			return false, ctx.Err()
		} else if err != nil {
			return true, nil // not to be had by rows: all of it is looked at
		}
	}
	e2, w2 := distance(a, b)
	return e2 > suspicious*suspicious*w2, nil // a NaN is not far off, it is not a number
}

func (x *comparing) release() {
	x.ref.Release()
	x.c.Release()
}

// distance is Σ(a−b)² and Σa².
func distance(a, b []float32) (e2, w2 float64) {
	for i, v := range a {
		d := float64(v) - float64(b[i])
		e2 += d * d
		w2 += float64(v) * float64(v)
	}
	return e2, w2
}

// partner is the place whose rows may have changed places with those of p.
func partner(p model.Place) (model.Place, bool) {
	switch p.Projection {
	case "gate":
		p.Projection = "up"
	case "up":
		p.Projection = "gate"
	default:
		return p, false
	}
	return p, true
}

func gateFirst(p, q model.Place) []model.Place {
	if p.Projection == "gate" {
		return []model.Place{p, q}
	}
	return []model.Place{q, p}
}
