package model

import (
	"context"
	"math"

	"quantscope/quant/topology"
)

// Head turns final hidden states into logits, a few rows at a time. It is used
// from one goroutine.
type Head struct {
	r    *run
	s    *scratch
	norm []float32
	w    linear
}

// NewHead reads the final norm and the head of a source. Release of the source
// ends it. Of the options Set, Threads, BF16 and Input are used, for candidate 0.
func NewHead(ctx context.Context, spec *Spec, src Source, o Options) (*Head, error) {
	r := newRun(spec, o, nil)
	h := &Head{r: r, s: r.worker(0, r.o.Threads)}
	rd := reader{ctx: ctx, spec: spec, src: src}
	var err error
	if h.norm, err = rd.finalNorm(); err != nil {
		return nil, err
	}
	h.w, err = rd.linear(HeadPlace(src), spec.Vocab, spec.Hidden)
	return h, err
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

// Normed writes the final norm of rows of hidden states to dst.
func (h *Head) Normed(dst, x []float32) {
	n := len(x) / h.r.spec.Width()
	h.r.norm(h.s, h.r.spec.Norm, dst, h.r.collapse(h.s, x, n), h.norm, n)
}

// Logits are those of n rows of final hidden states, n×Vocab, in dst where it is
// long enough.
func (h *Head) Logits(dst, x []float32, n int) ([]float32, error) {
	h.s.normed = grow(h.s.normed, n*h.r.spec.Hidden)
	h.Normed(h.s.normed, x[:n*h.r.spec.Width()])
	dst, err := h.r.linear(h.s, h.w, h.s.normed, n, dst)
	if err == nil {
		h.r.cap(h.s, dst, n)
	}
	return dst, err
}

// collapse makes one stream of the hidden states of all streams.
func (r *run) collapse(_ *scratch, x []float32, _ int) []float32 { return x }

// cap bends logits where the model does.
func (r *run) cap(s *scratch, logits []float32, n int) {
	c := float64(r.spec.Softcap)
	if c == 0 {
		return
	}
	v := r.spec.Vocab
	s.share(n, 16*v, func(from, to int) {
		part := logits[from*v : to*v]
		for i, x := range part {
			part[i] = float32(c * math.Tanh(float64(x)/c))
		}
		r.round(part)
	})
}
