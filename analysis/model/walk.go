package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sort"

	"quantscope/kernels"
)

// WalkOptions of a Walk.
type WalkOptions struct {
	Set     kernels.Set
	Threads int
	Wave    int64 // as Options has it
	Tile    int
	// Step is told how far a look or a pass is: the share of the layer's work that
	// is done, in rows. Never twice at once, though not always from the same
	// goroutine; nil: nobody asks.
	Step func(rows int)
}

// Looks are what a look at a layer tells. Any may be nil.
type Looks struct {
	// Input is called with the inputs of every linear map as Options.Input says:
	// from one goroutine, in the same order for any number of threads.
	Input func(p Place, x []float32, n int)
	// Routed is told the choices of a router, for all rows.
	Routed func(layer int, logits []float32, choices []Choice)
	// Want says whose inputs are asked for; nil: those of all maps. What only others
	// need is not read and not computed.
	Want func(p Place) bool
}

// Walk takes text through a model one layer at a time, so that a layer can be
// looked at, changed, and then passed: decoder layers in order, then
// multi-token-prediction layers, then the head.
//
// The hidden states of all rows are in memory once, and once more for MTP layers
// (twice where there are several). What a look takes beside them is a tile's copy.
type Walk struct {
	spec   *Spec
	r      *run
	src    Source
	lend   *handles
	ctx    context.Context // of what is read ahead
	cancel context.CancelFunc

	tokens []int32
	main   []sequence
	flow   // of the decoder layers
	spare  []*lending
	at     int   // layers that are passed
	mtp    stage // what goes through MTP layers

	now   *body // of src, for the layer that comes next
	ahead *ahead
	err   error // of a Pass that ended within a layer
}

// ahead is a layer of the walk's own source that is being read.
type ahead struct {
	of   *Layer
	body *future[*body]
}

// NewWalk reads the embeddings of all chunks. The source is used until the walk
// is closed; where it is a Forker, its next layer is read ahead of its use. A
// hidden state that is not finite ends NewWalk and Pass with a *NonFiniteError.
func NewWalk(ctx context.Context, spec *Spec, src Source, chunks [][]int32, o WalkOptions) (*Walk, error) {
	seqs, tokens, err := spec.lay(chunks)
	if err != nil {
		return nil, err
	}
	w := &Walk{
		spec: spec, src: src, lend: newHandles(src), tokens: tokens, main: seqs,
		r: newRun(spec, Options{Set: o.Set, Threads: o.Threads, Wave: o.Wave, Tile: o.Tile}, seqs),
	}
	if o.Step != nil {
		w.r.step = &stepped{tell: o.Step}
	}
	w.x = make([]float32, len(tokens)*spec.Width())
	if err := w.enter(ctx); err != nil {
		return nil, err
	}
	w.r.measure(w.x)
	if err := w.check(w.x, -1, "embedding"); err != nil {
		return nil, err
	}
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.mtp.begin(w)
	return w, nil
}

// At is the layer that comes next; nil, false where all are passed.
func (w *Walk) At() (*Layer, bool) {
	if w.at < len(w.spec.Layers)+len(w.spec.MTP) {
		return w.layer(w.at), true
	}
	return nil, false
}

func (w *Walk) layer(i int) *Layer {
	if k := i - len(w.spec.Layers); k >= 0 {
		return &w.spec.MTP[k]
	}
	return &w.spec.Layers[i]
}

// Rows are the tokens that go through the layer that comes next: in the k-th MTP
// layer, counted from 1, k less for each chunk, because it is given the token that
// stands k behind.
func (w *Walk) Rows() int { return w.Positions().Rows() }

func (w *Walk) seqs() []sequence {
	if w.at < len(w.spec.Layers) {
		return w.main
	}
	return w.mtp.seqs
}

// Look takes the text through the layer that comes next, with the weights of src,
// and forgets what comes out: it goes as far as the inputs of the last maps.
func (w *Walk) Look(ctx context.Context, src Source, l Looks) error {
	return w.take(ctx, src, l, true)
}

// Pass takes the text through the layer with the weights of src and goes on to
// the next one. After an error the walk has ended.
func (w *Walk) Pass(ctx context.Context, src Source) error {
	return w.LookPass(ctx, src, Looks{})
}

// LookPass is Look and Pass at once, with the same weights.
func (w *Walk) LookPass(ctx context.Context, src Source, l Looks) error {
	if w.err != nil {
		return w.err
	}
	if w.err = w.take(ctx, src, l, false); w.err == nil {
		w.next()
	}
	return w.err
}

// take computes the layer that comes next; in a look nothing is kept of it.
func (w *Walk) take(ctx context.Context, src Source, l Looks, look bool) error {
	layer, ok := w.At()
	if w.err != nil || !ok {
		return cmp.Or(w.err, errPassed)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	lend := w.lend
	if !same(src, w.src) {
		lend = newHandles(src)
		defer lend.close()
	}
	b, back, err := w.body(ctx, lend, layer)
	if err != nil {
		return fmt.Errorf("layer %d: %w", layer.Index, err)
	}
	defer back()
	w.readAhead(lend)
	e := &experts{lend: lend, rd: reader{ctx: ctx, spec: w.spec}}
	defer func() {
		for _, put := range e.kept {
			put()
		}
	}()
	defer w.hooks(l)()
	w.r.lay(w.seqs())
	w.r.tokens = w.tokens
	if layer.MTP {
		return w.module(ctx, b, e, l, look)
	}
	f := &w.flow
	if look && w.deep(layer) {
		seen := w.flow.with(slices.Clone(w.x))
		defer seen.drop(&w.spare)
		f = &seen
	} else {
		w.r.look = look
	}
	if !w.r.look {
		f.begin(layer, w.r.rows, &w.spare)
	}
	if err := w.r.layer(ctx, b, f, e); err != nil {
		return fmt.Errorf("layer %d: %w", layer.Index, err)
	}
	if look {
		return nil
	}
	f.end(w.spec, layer, &w.spare)
	return w.check(w.x, layer.Index, "output")
}

// deep says whether a look goes beyond the MLP.
func (w *Walk) deep(l *Layer) bool {
	return l.perLayer(w.spec) && w.r.o.Input != nil &&
		(w.r.wants(mixingAt(l, "per_layer_input_gate")) || w.r.wants(mixingAt(l, "per_layer_projection")))
}

// enter makes the embeddings.
func (w *Walk) enter(ctx context.Context) error {
	if err := w.r.embed(ctx, w.src, w.tokens, false, w.x); err != nil {
		return err
	}
	from := w.lend.get()
	defer w.lend.put(from)
	e, err := reader{ctx: ctx, spec: w.spec, src: from}.entrance()
	if err != nil {
		return err
	}
	return w.r.embedLayers(ctx, from, &e, w.tokens, w.x, &w.flow)
}

var errPassed = errors.New("model: every layer of the walk was passed")

// hooks sets what a look asks for, until the function that it returns is called.
func (w *Walk) hooks(l Looks) (done func()) {
	r := w.r
	r.want = l.Want
	if l.Input != nil {
		r.o.Input = func(_ int, p Place, x []float32, n int) { l.Input(p, x, n) }
	}
	if l.Routed != nil {
		r.o.Routed = func(_, layer int, logits []float32, choices []Choice) { l.Routed(layer, logits, choices) }
	}
	return func() { r.look, r.rowsOf, r.want, r.o.Input, r.o.Routed = false, nil, nil, nil, nil }
}

// check looks for hidden states that are not finite, after their rows were
// measured.
func (w *Walk) check(x []float32, layer int, what string) error {
	return w.r.finite(x, make([]bool, len(w.r.seqs)), layer, what, func(e *NonFiniteError) error { return e })
}

// same says whether two sources are one.
func same(a, b Source) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// body reads a layer without its experts. That of the walk's own source stays, if
// that can fork, until the layer is passed.
func (w *Walk) body(ctx context.Context, lend *handles, l *Layer) (_ *body, back func(), err error) {
	if lend != w.lend || !lend.forks() {
		b, err := lend.body(ctx, w.spec, l)
		return b, func() { lend.put(b.from) }, err
	}
	switch {
	case w.now != nil:
	case w.ahead != nil && w.ahead.of == l:
		w.now, err = w.ahead.body.wait()
		w.ahead = nil
	default:
		w.now, err = lend.body(ctx, w.spec, l)
	}
	return w.now, func() {}, err
}

// body reads a layer without its experts by a handle of its own.
func (h *handles) body(ctx context.Context, spec *Spec, l *Layer) (*body, error) {
	from := h.get()
	b, err := reader{ctx: ctx, spec: spec, src: from}.body(l)
	if err != nil {
		h.put(from)
		return nil, err
	}
	b.from = from
	return b, nil
}

// readAhead begins to read the layer after the one that comes next.
func (w *Walk) readAhead(lend *handles) {
	if lend != w.lend || !lend.forks() || w.ahead != nil || w.at+1 >= len(w.spec.Layers)+len(w.spec.MTP) {
		return
	}
	l := w.layer(w.at + 1)
	w.ahead = &ahead{l, async(func() (*body, error) { return lend.body(w.ctx, w.spec, l) })}
}

// next goes on to the next layer, and gives back what is not of it.
func (w *Walk) next() {
	w.at++
	if w.now != nil {
		w.lend.put(w.now.from)
		w.now = nil
	}
	if l, _ := w.At(); w.ahead != nil && w.ahead.of != l {
		w.drop()
	}
}

// drop gives back what was read ahead.
func (w *Walk) drop() {
	if w.ahead == nil {
		return
	}
	if b, err := w.ahead.body.wait(); err == nil {
		w.lend.put(b.from)
	}
	w.ahead = nil
}

// Head gives the head's inputs, the final-normed states of the main model, once
// its decoder layers are passed, before or after MTP layers. It is called the place
// where src has its head. MTP layers with heads of their own give those inputs
// when they are looked at.
func (w *Walk) Head(ctx context.Context, src Source, l Looks) error {
	if w.err != nil {
		return w.err
	}
	if n := len(w.spec.Layers); w.at < n {
		return fmt.Errorf("model: the head is reached after %d layers, and %d were passed", n, w.at)
	}
	end, err := reader{ctx: ctx, spec: w.spec, src: src}.finalEnding()
	if err != nil {
		return err
	}
	defer w.hooks(l)()
	s, h, at := w.r.worker(0, w.r.o.Threads), w.spec.Hidden, HeadPlace(src)
	for x := w.x; len(x) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(len(x)/w.spec.Width(), aloneRows)
		s.normed = grow(s.normed, n*h)
		if err := w.r.ended(s, &end, s.normed, x, n); err != nil {
			return err
		}
		w.r.hook(at, s.normed, n)
		x = x[n*w.spec.Width():]
	}
	return nil
}

// Close waits for what is still being read.
func (w *Walk) Close() error {
	w.cancel()
	w.drop()
	w.lend.close()
	return nil
}

// Positions says where rows stand in the text.
type Positions struct{ seqs []sequence }

// Positions are those of the rows of the layer that comes next. They stay as they
// are when the walk goes on.
func (w *Walk) Positions() Positions { return Positions{w.seqs()} }

// HeadPositions are those of the rows that go into the head: all of the text.
func (w *Walk) HeadPositions() Positions { return Positions{w.main} }

// Rows is how many there are.
func (p Positions) Rows() int {
	n := 0
	for _, s := range p.seqs {
		n += s.n
	}
	return n
}

// Of says which chunk, and which of its positions, a row is; -1, -1 where there is
// no such row.
func (p Positions) Of(row int) (chunk, position int) {
	i := sort.Search(len(p.seqs), func(i int) bool { return p.seqs[i].first > row }) - 1
	if i < 0 || row-p.seqs[i].first >= p.seqs[i].n {
		return -1, -1
	}
	return p.seqs[i].chunk, row - p.seqs[i].first
}
