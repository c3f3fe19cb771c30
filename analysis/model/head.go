package model

import (
	"context"
	"math"

	"quantscope/quant/topology"
)

// Head turns final hidden states into logits, a few rows at a time. It is used
// from one goroutine.
type Head struct {
	r   *run
	s   *scratch
	end ending
	w   linear
}

// ending is what makes one row of Hidden values of the hidden states of a token for a
// head: the mixing of streams, where there are several, and a norm.
type ending struct {
	norm    []float32
	of      Norm
	streams streams
}

// finalEnding reads that of the main model.
func (rd reader) finalEnding() (ending, error) { return rd.ending(-1, finalNormAt, rd.spec.Norm) }

// ending reads one.
func (rd reader) ending(layer int, norm Place, of Norm) (ending, error) {
	e, r := ending{of: of}, &list{reader: rd}
	r.values(&e.norm, norm, "weight", rd.spec.Hidden)
	if rd.spec.Hyper != nil {
		r.streams(&e.streams, layer, "hc_head", rd.spec.Streams, 1)
	}
	return e, r.err
}

// ended writes what goes into a head to dst, of n rows of hidden states.
func (r *run) ended(s *scratch, e *ending, dst, x []float32, n int) error {
	one, err := r.collapse(s, &e.streams, x[:n*r.spec.Width()], n)
	if err == nil {
		r.norm(s, e.of, dst[:n*r.spec.Hidden], one, e.norm, n)
	}
	return err
}

// NewHead reads the final norm and the head of a source. Release of the source
// ends it. Of the options Set, Threads, BF16 and Input are used, for candidate 0.
func NewHead(ctx context.Context, spec *Spec, src Source, o Options) (*Head, error) {
	r := newRun(spec, o, nil)
	h := &Head{r: r, s: r.worker(0, r.o.Threads)}
	rd := reader{ctx: ctx, spec: spec, src: src}
	var err error
	if h.end, err = rd.finalEnding(); err != nil {
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

// Normed writes the final norm of rows of hidden states, of one stream, to dst: rows of
// Spec.Hidden.
func (h *Head) Normed(dst, x []float32) error {
	return h.r.ended(h.s, &h.end, dst, x, len(x)/h.r.spec.Width())
}

// Logits are those of n rows of final hidden states, n×Vocab, in dst where it is
// long enough.
func (h *Head) Logits(dst, x []float32, n int) ([]float32, error) {
	h.s.normed = grow(h.s.normed, n*h.r.spec.Hidden)
	if err := h.Normed(h.s.normed, x[:n*h.r.spec.Width()]); err != nil {
		return nil, err
	}
	dst, err := h.r.linear(h.s, h.w, h.s.normed, n, dst)
	if err == nil {
		h.r.cap(h.s, dst, n)
	}
	return dst, err
}

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
