package model

import (
	"context"

	"quantscope/quant/topology"
)

// wants says whether the inputs of a map are asked for.
func (r *run) wants(p Place) bool { return r.want == nil || r.want(p) }

// wantsExpert says whether anything of an expert has to be computed.
func (r *run) wantsExpert(l *Layer, e int) bool {
	return !r.look || r.wants(expert(l, e, "gate")) || r.wants(expert(l, e, "up")) || r.wants(expert(l, e, "down"))
}

// begin is where a tile's hidden states are: in x or, in a look, in a copy.
func (r *run) begin(ctx context.Context, s *scratch, t *tile, x []float32) ([]float32, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h := r.spec.Width()
	if !r.look {
		return x[t.first*h:][:t.n*h], nil
	}
	s.rows = grow(s.rows, t.n*h)
	if r.rowsOf != nil {
		return s.rows, r.rowsOf(ctx, s, t, s.rows)
	}
	copy(s.rows, x[t.first*h:])
	return s.rows, nil
}

var finalNormAt = Place{Kind: topology.Norm, Layer: -1, Expert: -1, Projection: "norm"}
