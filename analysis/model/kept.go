package model

import (
	"context"
	"fmt"
)

// kept is a source whose weights are read once, a layer or an expert when it is
// first needed, and stay: decoding goes over them for every token.
type kept struct {
	spec   *Spec
	src    Source
	layers map[*Layer]*keptLayer
}

// keptLayer is what was read of a layer.
type keptLayer struct {
	body    *body
	experts []gated
	read    []bool // of experts
}

func newKept(spec *Spec, src Source) *kept {
	return &kept{spec: spec, src: src, layers: map[*Layer]*keptLayer{}}
}

// layer is a layer of the spec, which is read where it was not.
func (k *kept) layer(ctx context.Context, l *Layer) (*keptLayer, error) {
	if at := k.layers[l]; at != nil {
		return at, nil
	}
	b, err := reader{ctx: ctx, spec: k.spec, src: k.src}.body(l)
	if err != nil {
		return nil, err
	}
	at := &keptLayer{body: b}
	if l.MoE != nil {
		at.experts, at.read = make([]gated, l.MoE.Experts), make([]bool, l.MoE.Experts)
	}
	k.layers[l] = at
	return at, nil
}

// expert is one of a layer's experts.
func (k *kept) expert(ctx context.Context, l *Layer, at *keptLayer, e int) (gated, error) {
	if !at.read[e] {
		g, err := reader{ctx: ctx, spec: k.spec, src: k.src}.expert(l, e)
		if err != nil {
			return gated{}, err
		}
		at.experts[e], at.read[e] = g, true
	}
	return at.experts[e], nil
}

// decode computes one layer for the sequences that are laid out. met is told of
// the first value of each sequence that is not finite; what it returns ends the
// layer.
func (r *run) decode(ctx context.Context, k *kept, l *Layer, f *flow, broken []bool, met func(*NonFiniteError) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	at, err := k.layer(ctx, l)
	if err == nil {
		err = r.layer(ctx, at.body, f, &experts{all: k, at: at})
	}
	if err != nil {
		return fmt.Errorf("layer %d: %w", l.Index, err)
	}
	return r.finite(f.x, broken, l.Index, "output", met)
}
