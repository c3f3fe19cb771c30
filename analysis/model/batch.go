package model

import (
	"context"
	"fmt"
)

// Batch takes texts through a model, each from where it is, several of them in one
// pass over the layers. A text's bits are those that it has alone, and those that
// Run gives for the whole of it, where the rope does not depend on the length. It
// is used from one goroutine.
//
// Its weights are read when they are first needed and stay, as they are stored.
type Batch struct {
	spec *Spec
	r    *run
	kept *kept
	head *Head
	flow
	entrance *entrance // nil: not read yet

	tokens []int32
	seqs   []sequence
	broken []bool
}

// NewBatch begins with no text. Release of the source ends it.
func NewBatch(ctx context.Context, spec *Spec, src Source, o Options) (*Batch, error) {
	head, err := NewHead(ctx, spec, src, o)
	if err != nil {
		return nil, err
	}
	return &Batch{spec: spec, r: newRun(spec, o, nil), kept: newKept(spec, src), head: head}, nil
}

// Step are tokens that a text goes on with.
type Step struct {
	Text   *Text
	Tokens []int32
	Err    error // a value of the text is not finite: a *NonFiniteError. Its caches are then of no use
}

// Feed takes tokens of several texts, each text once, and returns their final hidden
// states, before the final norm, step after step; they are valid until the next call. With an
// error none of the texts can go on.
func (b *Batch) Feed(ctx context.Context, steps []*Step) ([]float32, error) {
	b.tokens, b.seqs, b.broken = b.tokens[:0], b.seqs[:0], b.broken[:0]
	for i, s := range steps {
		s.Err = nil
		for _, id := range s.Tokens {
			if id < 0 || int(id) >= b.spec.Vocab {
				return nil, fmt.Errorf("model: token %d is outside the vocabulary of %d", id, b.spec.Vocab)
			}
		}
		if len(s.Tokens) == 0 {
			continue
		}
		b.seqs = append(b.seqs, sequence{first: len(b.tokens), n: len(s.Tokens), past: s.Text.n, chunk: i})
		b.tokens, b.broken = append(b.tokens, s.Tokens...), append(b.broken, false)
	}
	if len(b.seqs) == 0 {
		return nil, nil
	}
	b.x = grow(b.x, len(b.tokens)*b.spec.Width())
	if err := b.r.embed(ctx, b.kept.src, b.tokens, b.r.o.BF16, b.x); err != nil {
		return nil, err
	}
	if err := b.enter(ctx); err != nil {
		return nil, err
	}
	b.r.layFew(b.seqs)
	b.r.tokens = b.tokens
	for i := range b.spec.Layers {
		l := &b.spec.Layers[i]
		for k := range b.seqs {
			q := &b.seqs[k]
			t := steps[q.chunk].Text
			q.cache, q.text = t.caches[i], t
			q.cache.room(q.past+q.n, t.limit)
		}
		if err := b.r.decode(ctx, b.kept, l, &b.flow, b.broken, func(e *NonFiniteError) error {
			step := e.Chunk
			e.Chunk = 0
			steps[step].Err = fmt.Errorf("model: %w", e)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	for _, s := range steps {
		s.Text.n += len(s.Tokens)
	}
	return b.x, nil
}

// enter makes the embeddings that layers have of their own.
func (b *Batch) enter(ctx context.Context) error {
	if b.entrance == nil {
		e, err := reader{ctx: ctx, spec: b.spec, src: b.kept.src}.entrance()
		if err != nil {
			return err
		}
		b.entrance = &e
	}
	return b.r.embedLayers(ctx, b.kept.src, b.entrance, b.tokens, b.x, &b.flow)
}

// layFew is lay for rows that are mostly few: weights of some size are laid out
// once for all of them, and the threads share that.
func (r *run) layFew(seqs []sequence) {
	r.lay(seqs)
	if r.parallel && r.spec.Hidden >= fewWidth && r.rows < fewRows {
		r.parallel = false
		r.tiles = split(r.seqs, r.rows, 1)
	}
}

// fewWidth is from what width on a product of a few rows is work for two threads.
const fewWidth = 512

// Logits are those of n rows of hidden states, n×Vocab, in dst where it is long enough.
func (b *Batch) Logits(dst, x []float32, n int) ([]float32, error) { return b.head.Logits(dst, x, n) }

// Normed writes what an MTP module is fed with to dst, rows of Spec.Width, of rows of
// hidden states: their final norm or, where the model has it so, what they are.
func (b *Batch) Normed(dst, x []float32) error {
	if b.spec.RawMTP {
		copy(dst, x)
		return nil
	}
	return b.head.Normed(dst, x)
}
