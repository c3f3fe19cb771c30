package bias

import (
	"context"
	"fmt"

	"quantscope/analysis/model"
)

// parts are the parts of a layer in the order in which they are told, as indices of
// running.flows.
var parts = [...]string{Attention, MLP, Residual}

// passing is one pass of all parties over some chunks.
type passing struct {
	*running
	ctx    context.Context
	cancel context.CancelCauseFunc
	last   bool // no chunk comes after it: rows are told
	rows   int
	chunks [][]int32

	ref    [2][]float32 // what the parts of the layer added under the reference
	at     [][2]int     // by party: rows of them that came
	stream []float32    // of the reference, after the layer that is told
	memory []rowSums
}

// pass takes a group through all layers, and then compares predictions.
func (r *running) pass(ctx context.Context, group int) error {
	g := r.groups[group]
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &passing{
		running: r, ctx: within, cancel: cancel, last: group+1 == len(r.groups), chunks: r.chunks[g[0]:g[1]],
		at: make([][2]int, len(r.parties)),
	}
	for _, ids := range p.chunks {
		p.rows += len(ids)
	}
	o := model.Options{
		Set: r.set, Threads: r.threads, Adds: p.adds,
		Layer:     func(c, after int, x []float32) { p.layer(group, c, after, x) },
		NonFinite: func(c, layer int, e *model.NonFiniteError) error { return p.nonFinite(g[0], c, layer, e) },
	}
	sources := make([]model.Source, len(r.parties))
	for i, q := range r.parties {
		sources[i], o.BF16Of = q.src, append(o.BF16Of, q.bf16)
	}
	r.budget.Apply(&o)
	hidden, err := model.Run(within, r.parties[0].spec, sources, p.chunks, o)
	if cause := context.Cause(within); cause != nil && ctx.Err() == nil {
		return cause
	}
	if err != nil {
		return err
	}
	return r.heads(ctx, group, hidden)
}

// stop ends the pass from within a hook.
func (p *passing) stop(err error) {
	if err != nil {
		p.cancel(err)
	}
}

// adds takes in what a part of a layer adds.
func (p *passing) adds(c, layer int, part model.Part, y []float32, n int) {
	if p.ctx.Err() != nil || part > model.MLPPart { // what else a layer adds is in the stream
		return
	}
	from := p.at[c][part]
	p.at[c][part] += n
	if c == 0 {
		if from == 0 {
			p.ref[part] = p.ref[part][:0]
		}
		p.ref[part] = append(p.ref[part], y...)
		return
	}
	h := p.setup.Hidden
	p.memory = p.flows[c-1][layer+1][part].add(p.ref[part][from*h:][:n*h], y, n, p.threads, p.memory)
}

// layer takes in the stream after a layer, 0 being the embeddings, and tells what is
// known of the layer then.
func (p *passing) layer(group, c, after int, x []float32) {
	if p.ctx.Err() != nil {
		return
	}
	p.at[c] = [2]int{}
	if c == 0 {
		p.stream = x
		return
	}
	p.memory = p.flows[c-1][after][2].add(p.stream, x, p.rows, p.threads, p.memory)
	if p.last {
		p.stop(p.tell(c-1, after))
	}
	steps := int64(p.setup.Layers + 1)
	n := int64(len(p.parties) - 1)
	p.progress(Progress{
		Stage: "passing", Candidate: c - 1, Layer: after - 1,
		Done: (int64(group)*steps+int64(after))*n + int64(c), Of: int64(len(p.groups)) * steps * n,
	})
	if c == len(p.parties)-1 {
		p.stop(p.pause(p.ctx))
	}
}

// tell hands the rows of a layer over and forgets their sums.
func (p *passing) tell(candidate, after int) error {
	index := after - 1
	if after > 0 {
		index = p.parties[0].spec.Layers[after-1].Index
	}
	for k, f := range p.flows[candidate][after] {
		if f == nil {
			continue
		}
		if err := p.sink.row(&Row{Candidate: candidate, Layer: index, Part: parts[k], Flow: f.figures()}); err != nil {
			return err
		}
	}
	p.flows[candidate][after] = nil
	return nil
}

// nonFinite ends the run where it is the reference that is not finite.
func (p *passing) nonFinite(first, c, layer int, e *model.NonFiniteError) error {
	if c > 0 {
		return nil
	}
	part := "embeddings"
	if layer >= 0 {
		part = fmt.Sprintf("layer %d", layer)
	}
	chunk, of := e.Chunk+first, 0
	for of < len(p.corpora) && p.corpora[of] != p.corpora[chunk] {
		of++
	}
	err := fmt.Errorf("%s: %w: %s, corpus %s, chunk %d, position %d: channel %d is %g", p.parties[0].label, ErrReference,
		part, p.setup.Corpora[p.corpora[chunk]].Name, chunk-of, e.Position, e.Channel, e.Value)
	p.stop(err)
	return err
}
