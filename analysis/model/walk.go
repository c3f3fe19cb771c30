package model

import (
	"context"
	"errors"

	"quantscope/kernels"
)

// WalkOptions of a Walk.
type WalkOptions struct {
	Set     kernels.Set
	Threads int
	Wave    int64 // as Options has it
	Tile    int
}

// Looks are what a look at a layer tells. Either may be nil.
type Looks struct {
	// Input is called with the inputs of every linear map as Options.Input says:
	// from one goroutine, in the same order for any number of threads.
	Input func(p Place, x []float32, n int)
	// Routed is told the choices of a router, for all rows.
	Routed func(layer int, logits []float32, choices []Choice)
}

// Walk takes text through a model one layer at a time, so that a layer can be
// looked at, changed, and then passed: decoder layers in order, then
// multi-token-prediction layers, then the head.
type Walk struct {
	spec *Spec
}

var errNotYet = errors.New("model: is not there yet")

// NewWalk reads the embeddings of all chunks. The source is used until the walk
// is closed.
func NewWalk(ctx context.Context, spec *Spec, src Source, chunks [][]int32, o WalkOptions) (*Walk, error) {
	return nil, errNotYet
}

// At is the layer that comes next; nil, false where all are passed.
func (w *Walk) At() (*Layer, bool) { return nil, false }

// Rows are the tokens that go through the layer that comes next: in an MTP layer
// one less for each chunk.
func (w *Walk) Rows() int { return 0 }

// Look takes the text through the layer that comes next, with the weights of src,
// and forgets what comes out.
func (w *Walk) Look(ctx context.Context, src Source, l Looks) error { return errNotYet }

// Pass takes the text through the layer with the weights of src and goes on to
// the next one.
func (w *Walk) Pass(ctx context.Context, src Source) error { return errNotYet }

// Head gives the head's inputs, the final-normed states of the main model, once
// its decoder layers are passed, before or after MTP layers.
func (w *Walk) Head(ctx context.Context, src Source, l Looks) error { return errNotYet }

// Close waits for what is still being read.
func (w *Walk) Close() error { return nil }
