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
	streams                       [2]streams // by part
	mixing                        mixing
	mlp                           gated
	router                        linear
	correction                    []float32
	byToken                       []int32 // TopK experts of each token
	shared                        gated
	sharedGate                    linear
	scale, expertScale            []float32 // of the router
	beside                        besideNorms
	perLayer                      perLayerBody
	scalar                        []float32
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

// sharedGate is the map to what the shared expert's output is multiplied by.
func sharedGate(l *Layer) Place {
	return Place{Kind: topology.Router, Layer: l.Index, Expert: -1, Projection: "shared_gate"}
}

// places are those of all linear maps of a layer.
func (l *Layer) places(s *Spec) []Place {
	var out []Place
	for _, t := range l.Tensors(s) {
		if t.Linear() {
			out = append(out, t.At)
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
	h := rd.spec.Hidden
	for _, n := range []struct {
		to   *[]float32
		name string
	}{{&b.in, l.In}, {&b.postAttn, l.PostAttn}, {&b.preMLP, l.PreMLP}, {&b.postMLP, l.PostMLP}} {
		r.values(n.to, normAt(l, n.name), "weight", h)
	}
	if n := rd.spec.mixed(); rd.spec.Hyper != nil {
		for p, name := range partNames {
			r.streams(&b.streams[p], l.Index, name, n, 3)
		}
	}
	b.mixing = l.mixer().read(r, l)
	if l.MoE == nil || l.Beside != nil {
		r.gated(&b.mlp, l.MLP.Inner, func(n string) Place { return l.mlp(topology.MLP, n) })
	}
	if n := l.Beside; n != nil {
		r.values(&b.beside.postMLP, normAt(l, n.PostMLP), "weight", h)
		r.values(&b.beside.pre, normAt(l, n.Pre), "weight", h)
		r.values(&b.beside.post, normAt(l, n.Post), "weight", h)
	}
	if m := l.MoE; m != nil {
		r.matrix(&b.router, router(l), m.Experts, h)
		if m.OwnNorm {
			r.values(&b.scale, router(l), "scale", h)
		}
		if m.ExpertScale {
			r.values(&b.expertScale, router(l), "per_expert_scale", m.Experts)
		}
		if m.Correction != "" {
			r.values(&b.correction, router(l), m.Correction, m.Experts)
			if m.Correction == "bias" {
				b.router.bias = nil // it has a part in the choice only
			}
		}
		if m.ByToken {
			r.byToken(b, m)
		}
		if m.Shared > 0 {
			r.gated(&b.shared, m.Shared, func(n string) Place { return l.mlp(topology.SharedExpert, n) })
			if m.SharedGate {
				r.matrix(&b.sharedGate, sharedGate(l), 1, h)
			}
		}
	}
	b.perLayer = r.perLayer(l)
	if l.Scalar {
		r.values(&b.scalar, mixingAt(l, "layer_scalar"), "weight", 1)
	}
	return b, r.err
}

// expert reads one of a layer's experts.
func (rd reader) expert(l *Layer, e int) (gated, error) {
	var g gated
	r := &list{reader: rd}
	r.gated(&g, l.MoE.Inner, func(n string) Place { return expert(l, e, n) })
	return g, r.err
}
