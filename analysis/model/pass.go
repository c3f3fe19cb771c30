package model

import (
	"context"
	"fmt"
	"math"
	"slices"

	"quantscope/kernels"
	"quantscope/quant/topology"
)

// Options of a pass.
type Options struct {
	Set     kernels.Set
	Threads int  // 0: all processors
	BF16    bool // activations are rounded to bf16 where a bf16 run would store them
	// BF16Of, where it is set, says so of each source of Run by itself, in place of BF16.
	BF16Of []bool

	// Input, where it is set, is called with the input of every linear map: n rows
	// of its columns. It is called from several goroutines for experts; x is only
	// lent.
	Input func(candidate int, p Place, x []float32, n int)
	// Routed, where it is set, is called with each router's logits and choices.
	Routed func(candidate, layer int, logits []float32, choices []Choice)
	// Layer, where it is set, is called with the hidden states after each layer of
	// a candidate, 0 being the embeddings; x is only lent.
	Layer func(candidate, after int, x []float32)
	// Done, where it is set, is told of every layer of a candidate that is done.
	Done func(candidate, layer int)
	// NonFinite, where it is set, is told of the first hidden state of a candidate
	// that is not finite, once a layer, −1 being the embeddings. nil lets the pass
	// go on: what follows in that chunk, and nothing else, is then not a number.
	NonFinite func(candidate, layer int, e *NonFiniteError) error
}

// Hidden are the final hidden states of a candidate, before the final norm: rows
// of Spec.Hidden, chunk after chunk.
type Hidden struct {
	X    []float32
	Rows int
}

// Run takes chunks of tokens through the decoder layers of every source, layer
// by layer: of each source one layer is in memory at a time. Each chunk is a
// text of its own. Errors name the layer.
func Run(ctx context.Context, spec *Spec, sources []Source, chunks [][]int32, o Options) ([]Hidden, error) {
	o.Threads = threads(o.Threads)
	seqs, tokens, longest, err := spec.lay(chunks)
	if err != nil {
		return nil, err
	}
	out := make([]Hidden, len(sources))
	shared := &run{spec: spec, o: o, seqs: seqs}
	for c, src := range sources {
		r := *shared
		r.src, r.candidate, r.o.BF16 = src, c, o.bf16(c)
		x, err := r.embed(ctx, tokens)
		if err != nil {
			return nil, err
		}
		out[c] = Hidden{x, len(tokens)}
		if o.Layer != nil {
			o.Layer(c, 0, x)
		}
	}
	for i := range spec.Layers {
		for c, src := range sources {
			shared.src, shared.candidate, shared.o.BF16 = src, c, o.bf16(c)
			if err := shared.layer(ctx, &spec.Layers[i], out[c].X, len(tokens), longest); err != nil {
				return nil, fmt.Errorf("layer %d: %w", i, err)
			}
			if o.Layer != nil {
				o.Layer(c, i+1, out[c].X)
			}
			if o.Done != nil {
				o.Done(c, i)
			}
		}
	}
	return out, nil
}

// bf16 says whether a source's activations are rounded.
func (o *Options) bf16(source int) bool {
	if source < len(o.BF16Of) {
		return o.BF16Of[source]
	}
	return o.BF16
}

// lay puts chunks one after the other.
func (s *Spec) lay(chunks [][]int32) (seqs []sequence, tokens []int32, longest int, err error) {
	for i, c := range chunks {
		for j, id := range c {
			if id < 0 || int(id) >= s.Vocab {
				return nil, nil, 0, fmt.Errorf("model: token %d at position %d of chunk %d is outside the vocabulary of %d", id, j, i, s.Vocab)
			}
		}
		if len(c) == 0 {
			continue
		}
		seqs = append(seqs, sequence{first: len(tokens), n: len(c)})
		tokens = append(tokens, c...)
		longest = max(longest, len(c))
	}
	return seqs, tokens, longest, nil
}

// run is the state of a pass: what is computed for one layer of one candidate,
// in memory that is used again.
type run struct {
	spec      *Spec
	o         Options
	src       Source
	candidate int
	seqs      []sequence
	angles    angles

	normed, q, k, v, mixed, out, low, gate, up, logits []float32
}

func (r *run) hook(p Place, x []float32, n int) {
	if r.o.Input != nil {
		r.o.Input(r.candidate, p, x, n)
	}
}

// embed reads the embeddings of tokens.
func (r *run) embed(ctx context.Context, tokens []int32) ([]float32, error) {
	x := make([]float32, len(tokens)*r.spec.Hidden)
	if err := r.src.Rows(ctx, Place{Kind: topology.Embedding, Layer: -1, Expert: -1}, tokens, x); err != nil {
		return nil, err
	}
	if s := r.spec.EmbedScale; s != 1 {
		if r.o.BF16 { // the factor is stored as the embeddings are
			one := []float32{s}
			r.round(one)
			s = one[0]
		}
		for i := range x {
			x[i] *= s
		}
	}
	r.round(x)
	return x, r.finite(x, "embedding", -1)
}

// layer adds one decoder layer to the hidden states x of n rows.
func (r *run) layer(ctx context.Context, l *Layer, x []float32, n, span int) error {
	defer r.src.Release()
	if err := ctx.Err(); err != nil {
		return err
	}
	r.angles = l.Attn.Rope.anglesFrom(r.positions(), span)
	if err := r.norm(ctx, l, l.In, x); err != nil {
		return err
	}
	y, err := r.attention(ctx, l, r.normed, n)
	if err != nil {
		return err
	}
	if err := r.add(ctx, l, x, y, l.PostAttn); err != nil {
		return err
	}
	if err := r.norm(ctx, l, l.PreMLP, x); err != nil {
		return err
	}
	if l.MoE != nil {
		y, err = r.moe(ctx, l, r.normed, n)
	} else {
		dense := func(p string) Place { return Place{Kind: topology.MLP, Layer: l.Index, Expert: -1, Projection: p} }
		y, err = r.feedForward(ctx, l.MLP, dense, r.normed, n, r.out)
		r.out = y
	}
	if err != nil {
		return err
	}
	if err := r.add(ctx, l, x, y, l.PostMLP); err != nil {
		return err
	}
	return r.finite(x, "output", l.Index)
}

// positions is one more than the last position of any sequence.
func (r *run) positions() int {
	most := 0
	for _, s := range r.seqs {
		most = max(most, s.past+s.n)
	}
	return most
}

// norm writes the norm of x to r.normed.
func (r *run) norm(ctx context.Context, l *Layer, name string, x []float32) error {
	w, err := r.vector(ctx, normAt(l, name), "weight", r.spec.Hidden)
	if err != nil {
		return err
	}
	r.normed = grow(r.normed, len(x))
	l.Norm.apply(r.normed, x, w)
	r.round(r.normed)
	return nil
}

// add adds a block's output to x, by way of a norm where there is one.
func (r *run) add(ctx context.Context, l *Layer, x, y []float32, name string) error {
	if name != "" {
		w, err := r.vector(ctx, normAt(l, name), "weight", r.spec.Hidden)
		if err != nil {
			return err
		}
		l.Norm.apply(y, y, w)
		r.round(y)
	}
	for i, v := range y[:len(x)] {
		x[i] += v
	}
	r.round(x)
	return nil
}

// NonFiniteError says where a pass met a value that is not finite.
type NonFiniteError struct {
	What            string // embedding, output
	Chunk, Position int
	Channel         int
	Value           float32
}

func (e *NonFiniteError) Error() string {
	return fmt.Sprintf("%s of chunk %d, position %d, channel %d is %g", e.What, e.Chunk, e.Position, e.Channel, e.Value)
}

// finite looks at the hidden states after a layer.
func (r *run) finite(x []float32, what string, layer int) error {
	e := r.firstNonFinite(x, what)
	switch {
	case e == nil:
		return nil
	case r.o.NonFinite != nil:
		return r.o.NonFinite(r.candidate, layer, e)
	}
	return e
}

func (r *run) firstNonFinite(x []float32, what string) *NonFiniteError {
	i := slices.IndexFunc(x, func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) })
	if i < 0 {
		return nil
	}
	row := i / r.spec.Hidden
	for c, s := range r.seqs {
		if row < s.first+s.n {
			return &NonFiniteError{what, c, s.past + row - s.first, i % r.spec.Hidden, x[i]}
		}
	}
	return &NonFiniteError{what, len(r.seqs), row, i % r.spec.Hidden, x[i]}
}

// String is a place as people name it: layer 3 expert 7 up.
func (p Place) String() string {
	s := p.Kind.String()
	if p.Layer >= 0 {
		s = fmt.Sprintf("layer %d %s", p.Layer, s)
	}
	if p.Expert >= 0 {
		s = fmt.Sprintf("%s %d", s, p.Expert)
	}
	if p.Projection != "" {
		s += " " + p.Projection
	}
	return s
}
