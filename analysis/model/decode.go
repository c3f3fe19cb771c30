package model

import (
	"context"
	"fmt"
)

// Decoder takes one text through a model token by token, with a cache of keys
// and values. Its hidden states are the bits that Run gives for the whole text,
// where the rope does not depend on the length.
type Decoder struct {
	spec   *Spec
	src    Source
	r      *run
	caches []*layerCache
	head   *Head
	x      []float32
	n      int
}

// NewDecoder begins an empty text. The source should be Resident.
func NewDecoder(ctx context.Context, spec *Spec, src Source, o Options) (*Decoder, error) {
	head, err := NewHead(ctx, spec, src, o)
	if err != nil {
		return nil, err
	}
	d := &Decoder{spec: spec, src: src, r: newRun(spec, o, nil), head: head, caches: make([]*layerCache, len(spec.Layers))}
	for i := range d.caches {
		d.caches[i] = &layerCache{}
	}
	return d, nil
}

// Len is how many tokens were taken.
func (d *Decoder) Len() int { return d.n }

// Feed takes tokens and returns their final hidden states, before the final
// norm; they are valid until the next call.
func (d *Decoder) Feed(ctx context.Context, tokens []int32) ([]float32, error) {
	for _, id := range tokens {
		if id < 0 || int(id) >= d.spec.Vocab {
			return nil, fmt.Errorf("model: token %d is outside the vocabulary of %d", id, d.spec.Vocab)
		}
	}
	if len(tokens) == 0 {
		return nil, nil
	}
	d.x = grow(d.x, len(tokens)*d.spec.Hidden)
	x := d.x
	if err := d.r.embed(ctx, d.src, tokens, d.r.o.BF16, x); err != nil {
		return nil, err
	}
	for i := range d.spec.Layers {
		d.r.lay([]sequence{{n: len(tokens), past: d.n, cache: d.caches[i]}})
		if err := d.r.single(ctx, d.src, &d.spec.Layers[i], x); err != nil {
			return nil, err
		}
	}
	d.n += len(tokens)
	return x, nil
}

// single computes one layer of one source outside a pass.
func (r *run) single(ctx context.Context, src Source, l *Layer, x []float32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	rd, lend := reader{ctx: ctx, spec: r.spec, src: src}, newHandles(src)
	defer lend.close()
	b, err := rd.body(l)
	if err == nil {
		err = r.layer(ctx, b, x, &experts{lend: lend, rd: rd})
	}
	if err != nil {
		return fmt.Errorf("layer %d: %w", l.Index, err)
	}
	return r.finite(x, make([]bool, len(r.seqs)), l.Index, "output", func(e *NonFiniteError) error { return e })
}

// Logits are those of rows of hidden states, n×Vocab.
func (d *Decoder) Logits(dst, x []float32, n int) ([]float32, error) { return d.head.Logits(dst, x, n) }

// Cut forgets all but the first n tokens.
func (d *Decoder) Cut(n int) {
	n = min(max(n, 0), d.n)
	for i, c := range d.caches {
		c.cut(&d.spec.Layers[i].Attn, n)
	}
	d.n = n
}
