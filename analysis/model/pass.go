package model

import (
	"context"
	"fmt"

	"quantscope/kernels"
)

// Options of a pass.
type Options struct {
	Set     kernels.Set
	Threads int    // 0: all processors
	BF16    bool   // activations are rounded to bf16 where a bf16 run would store them
	BF16Of  []bool // the same for single sources, by their index; shorter is false
	Wave    int64  // bytes of experts' weights that are read at a time; 0: 256 MiB
	Tile    int    // rows that go through a layer's maps together, at least a chunk; 0: what is quick

	// Input, where it is set, is called with inputs of every linear map: n rows of
	// its columns, all rows once, in order and in one call or several. It is called
	// from one goroutine, in the same order for any number of threads; x is only
	// lent. Layers that a candidate shares with one before it are left out.
	Input func(candidate int, p Place, x []float32, n int)
	// Routed, where it is set, is called with the logits and choices of each router
	// for all rows, which are only lent. Shared layers are left out.
	Routed func(candidate, layer int, logits []float32, choices []Choice)
	// Layer, where it is set, is called with the hidden states after each layer of
	// a candidate, 0 being the embeddings; x is only lent.
	Layer func(candidate, after int, x []float32)
	// Adds, where it is set, is called with what each part of a layer adds to the
	// hidden states of a candidate, behind its norm where there is one: n rows of
	// Spec.Hidden, all rows of a candidate once, in order and in one call or several.
	// It is called from one goroutine, in the same order for any number of threads,
	// for all candidates that share a layer too; y is only lent. Layers with
	// Layer.Scalar multiply the sum by it in the end.
	Adds func(candidate, layer int, p Part, y []float32, n int)
	// Done, where it is set, is told of every layer of a candidate that is done.
	Done func(candidate, layer int)
	// NonFinite, where it is set, is asked whether the pass goes on (nil) when
	// hidden states of a candidate are not finite: once for each candidate and
	// chunk, with the first position, after the layer (-1: the embeddings). What is
	// not finite stays so, and no other position or candidate is touched by it.
	// Where it is not set the pass stops with e.
	NonFinite func(candidate, layer int, e *NonFiniteError) error
}

// defaultWave is a good part of a server's memory for one core's share, and some
// ten experts of the largest models.
const defaultWave = 256 << 20

// Hidden are the final hidden states of a candidate, before the final norm: rows
// of Spec.Width, chunk after chunk. Candidates that do not differ before the
// head have the same memory: it is not to be changed.
type Hidden struct {
	X    []float32
	Rows int
	// RMS is the root mean square of the hidden states: of the embeddings, then
	// after each layer. Rows that are not finite are left out.
	RMS []float64
}

// Run is one run of a new Pass.
func Run(ctx context.Context, spec *Spec, sources []Source, chunks [][]int32, o Options) ([]Hidden, error) {
	return NewPass(spec, sources, o).Run(ctx, chunks)
}

// Pass takes texts through the decoder layers of several sources. Layers that
// begin with the same hidden states and have the same weights by their Origins
// are computed once.
//
// Of each source one layer is in memory at a time, and of its routed experts one
// wave. A Source that is a Forker is read ahead by one layer or wave; weights of
// one origin are then read once for all sources. What a run needs stays for the
// next one, so that many of them need no more memory than the largest.
type Pass struct {
	run     *run
	lend    []*handles
	x, free [][]float32 // hidden states that were given out, and that may be again
	// The same of what goes along with them.
	layers, freeLayers [][]float32
	lendings           []*lending
}

// NewPass makes one. The sources are used by it alone while it runs.
func NewPass(spec *Spec, sources []Source, o Options) *Pass {
	p := &Pass{run: newRun(spec, o, nil)}
	for _, src := range sources {
		p.lend = append(p.lend, newHandles(src))
	}
	return p
}

// Run takes chunks through all layers; each is a text of its own. What it returns
// is valid until the next Run. Errors name the layer.
func (p *Pass) Run(ctx context.Context, chunks [][]int32) ([]Hidden, error) {
	seqs, tokens, err := p.run.spec.lay(chunks)
	if err != nil {
		return nil, err
	}
	p.run.lay(seqs)
	p.run.tokens = tokens
	p.free, p.x = append(p.free, p.x...), nil
	p.freeLayers, p.layers = append(p.freeLayers, p.layers...), nil
	t := &trip{Pass: p, ctx: ctx, tokens: tokens}
	defer t.close()
	if err := t.begin(); err != nil {
		return nil, err
	}
	if err := t.layers(); err != nil {
		return nil, err
	}
	out := make([]Hidden, len(t.parties))
	for c, q := range t.parties {
		out[c] = Hidden{X: q.state.x, Rows: len(tokens), RMS: q.state.rms}
	}
	return out, nil
}

// room is memory for hidden states of all rows.
func (p *Pass) room() []float32 {
	var b []float32
	if n := len(p.free); n > 0 {
		b, p.free = p.free[n-1], p.free[:n-1]
	}
	p.x = append(p.x, grow(b, p.run.rows*p.run.spec.Width()))
	return p.x[len(p.x)-1]
}

// layersRoom is memory for embeddings of the layers' own, of all rows.
func (p *Pass) layersRoom() []float32 {
	of := p.run.spec.PerLayer
	if of == nil {
		return nil
	}
	var b []float32
	if n := len(p.freeLayers); n > 0 {
		b, p.freeLayers = p.freeLayers[n-1], p.freeLayers[:n-1]
	}
	p.layers = append(p.layers, grow(b, p.run.rows*len(p.run.spec.Layers)*of.Dim))
	return p.layers[len(p.layers)-1]
}

// lay puts chunks one after the other.
func (s *Spec) lay(chunks [][]int32) (seqs []sequence, tokens []int32, err error) {
	for i, c := range chunks {
		for j, id := range c {
			if id < 0 || int(id) >= s.Vocab {
				return nil, nil, fmt.Errorf("model: token %d at position %d of chunk %d is outside the vocabulary of %d", id, j, i, s.Vocab)
			}
		}
		if len(c) == 0 {
			continue
		}
		seqs = append(seqs, sequence{first: len(tokens), n: len(c), chunk: i})
		tokens = append(tokens, c...)
	}
	return seqs, tokens, nil
}
