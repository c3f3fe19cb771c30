package calibrate

import (
	"context"

	"quantscope/analysis/model"
	"quantscope/kernels"
)

// CollectOptions of a Collector.
type CollectOptions struct {
	Set     kernels.Set
	Threads int   // 0: all processors
	Mem     int64 // bytes that the moments of one wave may take; what is larger alone is a wave of its own. 0: all of a layer at once
}

// Want is an input that is measured.
type Want struct {
	Input
	Hessian bool   // not only second moments
	Tensor  string // that reads it, for errors
}

// Wave are the moments of some inputs of a layer.
type Wave struct {
	Moments []*Moments // in the order in which they were wanted; only lent, as is what they hold
	Counts  *Counts    // of all the layer's experts; nil where it has none
	Last    bool       // of the layer
}

// Collector measures what goes into linear maps. Its memory is used again from
// wave to wave and from layer to layer.
type Collector struct {
	o CollectOptions
}

// NewCollector makes one.
func NewCollector(o CollectOptions) *Collector { return &Collector{o: o} }

// Layer looks at the layer that the walk stands at, with the weights of src, and
// hands over the moments of what is wanted, in one or several waves: as many looks.
// They are the same bits however they are cut, and for any number of threads. An
// input or a moment that is not finite is an *InputError.
func (c *Collector) Layer(ctx context.Context, w *model.Walk, src model.Source, wants []Want, each func(Wave) error) error {
	return errNotYet
}

// LayerPass is Layer, and the walk goes on through the layer with the same weights,
// in the last look at it.
func (c *Collector) LayerPass(ctx context.Context, w *model.Walk, src model.Source, wants []Want, each func(Wave) error) error {
	return errNotYet
}

// Head is Layer for the head.
func (c *Collector) Head(ctx context.Context, w *model.Walk, src model.Source, want Want, each func(Wave) error) error {
	return errNotYet
}

// InputError is an input of a linear map, or a sum of its products, that is not
// finite.
type InputError struct {
	At              model.Place
	Tensor          string
	Chunk, Position int // the first; -1 where it is a sum of all
	Column          int
	Value           float32
}

func (e *InputError) Error() string { return "input" }
