package model

import (
	"context"
	"fmt"

	"quantscope/quant/topology"
)

// linear is a weight with its bias.
type linear struct {
	at   Place
	w    Weight
	bias []float32 // nil where there is none
}

// gated are the three maps of a gated MLP.
type gated struct{ gate, up, down linear }

// body is what a layer has beside its routed experts, as it was read. What the
// layer does not have is zero.
type body struct {
	l    *Layer
	from Source // whose memory it is

	in, postAttn, preMLP, postMLP []float32
	q, k, v, o                    linear
	qNorm, kNorm, sinks           []float32

	qa, qb, kva, kvb linear // of low rank
	qaNorm, kvaNorm  []float32

	mlp        gated
	router     linear
	correction []float32
	shared     gated
}

// The places of a layer's weights.
func attn(l *Layer, projection string) Place {
	return Place{Kind: topology.Attention, Layer: l.Index, Expert: -1, Projection: projection}
}

func normAt(l *Layer, projection string) Place {
	return Place{Kind: topology.Norm, Layer: l.Index, Expert: -1, Projection: projection}
}

func expert(l *Layer, e int, projection string) Place {
	return Place{Kind: topology.Expert, Layer: l.Index, Expert: e, Projection: projection}
}

func router(l *Layer) Place { return Place{Kind: topology.Router, Layer: l.Index, Expert: -1} }

func (l *Layer) mlp(kind topology.Kind, projection string) Place {
	return Place{Kind: kind, Layer: l.Index, Expert: -1, Projection: projection}
}

// places are those of all matrices of a layer.
func (l *Layer) places() []Place {
	var out []Place
	names := []string{"q", "k", "v", "o"}
	if l.Attn.LowRank != nil {
		names = []string{"q", "q_a", "q_b", "kv_a", "kv_b", "o"}
	}
	for _, n := range names {
		out = append(out, attn(l, n))
	}
	three := []string{"gate", "up", "down"}
	if l.MoE == nil {
		for _, n := range three {
			out = append(out, l.mlp(topology.MLP, n))
		}
		return out
	}
	out = append(out, router(l))
	for _, n := range three {
		if l.MoE.Shared > 0 {
			out = append(out, l.mlp(topology.SharedExpert, n))
		}
		for e := range l.MoE.Experts {
			out = append(out, expert(l, e, n))
		}
	}
	return out
}

// reader reads weights for one party. lent may be nil.
type reader struct {
	ctx  context.Context
	spec *Spec
	src  Source
	lent *registry
	of   *party
}

// linear reads a matrix of rows×cols and, where one is stored, its bias.
func (rd reader) linear(p Place, rows, cols int) (linear, error) {
	origin := rd.lent.origin(rd.of, p)
	w, lent := rd.lent.find(origin)
	if !lent {
		var err error
		if w, err = rd.src.Weight(rd.ctx, p); err != nil {
			return linear{}, err
		}
		rd.lent.keep(rd.of, origin, w)
	}
	if w.Rows != rows || w.Cols != cols {
		return linear{}, fmt.Errorf("%w: %s is %d×%d where the config asks for %d×%d", ErrArchitecture, p, w.Rows, w.Cols, rows, cols)
	}
	l := linear{at: p, w: w}
	if rd.src.Has(p, "bias") {
		var err error
		if l.bias, err = rd.vector(p, "bias", rows); err != nil {
			return linear{}, err
		}
	}
	return l, nil
}

// vector reads a vector of n values.
func (rd reader) vector(p Place, param string, n int) ([]float32, error) {
	v, err := rd.src.Vector(rd.ctx, p, param)
	if err != nil {
		return nil, err
	}
	if len(v) != n {
		return nil, fmt.Errorf("%w: %s %s has %d values in place of %d", ErrArchitecture, p, param, len(v), n)
	}
	return v, nil
}

// list reads several tensors and keeps the first error.
type list struct {
	reader
	err error
}

func (r *list) matrix(to *linear, p Place, rows, cols int) {
	if r.err == nil {
		*to, r.err = r.reader.linear(p, rows, cols)
	}
}

func (r *list) values(to *[]float32, p Place, param string, n int) {
	if r.err == nil && (p.Kind != topology.Norm || p.Projection != "") {
		*to, r.err = r.reader.vector(p, param, n)
	}
}

func (r *list) gated(to *gated, inner int, place func(string) Place) {
	h := r.spec.Hidden
	r.matrix(&to.gate, place("gate"), inner, h)
	r.matrix(&to.up, place("up"), inner, h)
	r.matrix(&to.down, place("down"), h, inner)
}

// body reads all of a layer but its experts.
func (rd reader) body(l *Layer) (*body, error) {
	b, r := &body{l: l}, &list{reader: rd}
	h, a := rd.spec.Hidden, &l.Attn
	for _, n := range []struct {
		to   *[]float32
		name string
	}{{&b.in, l.In}, {&b.postAttn, l.PostAttn}, {&b.preMLP, l.PreMLP}, {&b.postMLP, l.PostMLP}} {
		r.values(n.to, normAt(l, n.name), "weight", h)
	}
	if a.LowRank != nil {
		r.lowRank(b)
	} else {
		r.matrix(&b.q, attn(l, "q"), a.Heads*a.Dim, h)
		r.matrix(&b.k, attn(l, "k"), a.KVHeads*a.Dim, h)
		r.matrix(&b.v, attn(l, "v"), a.KVHeads*a.VDim, h)
	}
	r.matrix(&b.o, attn(l, "o"), h, a.Heads*a.VDim)
	if a.QKNorm {
		r.values(&b.qNorm, normAt(l, "q_norm"), "weight", a.Dim)
		r.values(&b.kNorm, normAt(l, "k_norm"), "weight", a.Dim)
	}
	if a.Sinks {
		r.values(&b.sinks, attn(l, "sinks"), "weight", a.Heads)
	}
	if m := l.MoE; m == nil {
		r.gated(&b.mlp, l.MLP.Inner, func(n string) Place { return l.mlp(topology.MLP, n) })
	} else {
		r.matrix(&b.router, router(l), m.Experts, h)
		if m.Correction {
			r.values(&b.correction, router(l), "e_score_correction_bias", m.Experts)
		}
		if m.Shared > 0 {
			r.gated(&b.shared, m.Shared, func(n string) Place { return l.mlp(topology.SharedExpert, n) })
		}
	}
	return b, r.err
}

func (r *list) lowRank(b *body) {
	a, lr, h := &b.l.Attn, b.l.Attn.LowRank, r.spec.Hidden
	if lr.Q > 0 {
		r.matrix(&b.qa, attn(b.l, "q_a"), lr.Q, h)
		r.values(&b.qaNorm, normAt(b.l, "q_a_layernorm"), "weight", lr.Q)
		r.matrix(&b.qb, attn(b.l, "q_b"), a.Heads*a.Dim, lr.Q)
	} else {
		r.matrix(&b.q, attn(b.l, "q"), a.Heads*a.Dim, h)
	}
	r.matrix(&b.kva, attn(b.l, "kv_a"), lr.KV+lr.Rope, h)
	r.values(&b.kvaNorm, normAt(b.l, "kv_a_layernorm"), "weight", lr.KV)
	r.matrix(&b.kvb, attn(b.l, "kv_b"), a.Heads*(lr.Nope+a.VDim), lr.KV)
}

// expert reads one of a layer's experts.
func (rd reader) expert(l *Layer, e int) (gated, error) {
	var g gated
	r := &list{reader: rd}
	r.gated(&g, l.MoE.Inner, func(n string) Place { return expert(l, e, n) })
	return g, r.err
}
