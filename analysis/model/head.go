package model

import (
	"context"

	"quantscope/quant/topology"
)

// Head turns final hidden states into logits, a few rows at a time.
type Head struct {
	r    run
	norm []float32
	w    linear
}

// NewHead reads the final norm and the head of a source. Release of the source
// ends it.
func NewHead(ctx context.Context, spec *Spec, src Source, o Options) (*Head, error) {
	o.Threads = threads(o.Threads)
	h := &Head{r: run{spec: spec, o: o, src: src}}
	var err error
	if h.norm, err = h.r.vector(ctx, Place{Kind: topology.Norm, Layer: -1, Expert: -1, Projection: "norm"}, "weight", spec.Hidden); err != nil {
		return nil, err
	}
	at := HeadPlace(src)
	if h.w, err = h.r.linear(ctx, at, spec.Vocab, spec.Hidden); err != nil {
		return nil, err
	}
	return h, nil
}

// HeadPlace is where a source has its head: the embedding where no head is
// stored.
func HeadPlace(src Source) Place {
	head := Place{Kind: topology.Head, Layer: -1, Expert: -1}
	if src.Has(head, "weight") {
		return head
	}
	return Place{Kind: topology.Embedding, Layer: -1, Expert: -1}
}

// Normed writes the final norm of n rows of hidden states to dst.
func (h *Head) Normed(dst, x []float32) {
	h.r.spec.Norm.apply(dst, x, h.norm)
	h.r.round(dst)
}

// Logits are those of n rows of final hidden states, n×Vocab, in dst where it is
// long enough.
func (h *Head) Logits(dst, x []float32, n int) ([]float32, error) {
	h.r.normed = grow(h.r.normed, n*h.r.spec.Hidden)
	h.Normed(h.r.normed, x[:n*h.r.spec.Hidden])
	h.r.hook(HeadPlace(h.r.src), h.r.normed, n)
	return h.r.apply(h.w, h.r.normed, n, dst)
}
