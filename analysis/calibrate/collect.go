package calibrate

import (
	"context"
	"fmt"
	"runtime"

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

// rows is how many a token has.
func (w *Want) rows() int { return max(w.times, 1) }

// bytes are those of its moments.
func (w *Want) bytes() int64 {
	n := int64(w.N)
	if w.Hessian {
		return 4*n*n + 8*n
	}
	return 8 * n
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
	o       CollectOptions
	b       batching
	squares pool // Hessians
	batches pool // of rows
}

// NewCollector makes one.
func NewCollector(o CollectOptions) *Collector {
	if o.Threads <= 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	return &Collector{o: o, b: usual}
}

// Layer looks at the layer that the walk stands at, with the weights of src, and
// hands over the moments of what is wanted, in one or several waves: as many looks.
// They are the same bits however they are cut, and for any number of threads. An
// input or a moment that is not finite is an *InputError, the first by the order of
// wants.
func (c *Collector) Layer(ctx context.Context, w *model.Walk, src model.Source, wants []Want, each func(Wave) error) error {
	return c.layer(wants, w, each, func(_ bool, l model.Looks) error { return w.Look(ctx, src, l) })
}

// LayerPass is Layer, and the walk goes on through the layer with the same weights,
// in the last look at it.
func (c *Collector) LayerPass(ctx context.Context, w *model.Walk, src model.Source, wants []Want, each func(Wave) error) error {
	return c.layer(wants, w, each, func(last bool, l model.Looks) error {
		if last {
			return w.LookPass(ctx, src, l)
		}
		return w.Look(ctx, src, l)
	})
}

// Head is Layer for the head.
func (c *Collector) Head(ctx context.Context, w *model.Walk, src model.Source, want Want, each func(Wave) error) error {
	g := c.gather([]Want{want}, w.HeadPositions())
	if err := w.Head(ctx, src, g.looks()); err != nil {
		return g.cause(err)
	}
	return g.give(nil, true, each)
}

// layer takes looks at a layer, one for each wave.
func (c *Collector) layer(wants []Want, w *model.Walk, each func(Wave) error, look func(last bool, l model.Looks) error) error {
	l, ok := w.At()
	if !ok {
		return fmt.Errorf("calibrate: no layer is left to be measured")
	}
	var counts *Counts
	for first := true; first || len(wants) > 0; first = false {
		n := c.fits(wants)
		g := c.gather(wants[:n], w.Positions())
		looks := g.looks()
		if l.MoE != nil {
			looks.Routed = func(_ int, _ []float32, choices []model.Choice) {
				if counts == nil {
					counts = countsOf(l, choices)
				}
				g.routed(l, counts, choices)
			}
		}
		last := n == len(wants)
		if err := look(last, looks); err != nil {
			return g.cause(err)
		}
		if err := g.give(counts, last, each); err != nil {
			return err
		}
		wants = wants[n:]
	}
	return nil
}

// fits is how many of the inputs are measured together.
func (c *Collector) fits(wants []Want) int {
	if c.o.Mem <= 0 {
		return len(wants)
	}
	var sum int64
	for i := range wants {
		if sum += wants[i].bytes(); sum > c.o.Mem && i > 0 {
			return i
		}
	}
	return len(wants)
}

// countsOf is how many tokens chose each expert of a layer.
func countsOf(l *model.Layer, choices []model.Choice) *Counts {
	c := &Counts{Layer: l.Index, MTP: l.MTP, Tokens: int64(len(choices)), TopK: l.MoE.TopK, Expert: make([]int64, l.MoE.Experts)}
	for i := range choices {
		for _, e := range choices[i].Experts {
			c.Expert[e]++
		}
	}
	return c
}

// InputError is an input of a linear map, or a sum of its products, that is not
// finite.
type InputError struct {
	At              model.Place
	Tensor          string // that reads it, where that is known
	Chunk, Position int    // the first of them; -1 where it is a sum over all
	Column          int
	Rows            int64 // that the sum is over
	Value           float32
}

func (e *InputError) Error() string {
	name := e.At.String()
	if e.Tensor != "" {
		name += " (" + e.Tensor + ")"
	}
	if e.Chunk < 0 {
		return fmt.Sprintf("%s: the second moment of input column %d over %d tokens is %g in f32", name, e.Column, e.Rows, e.Value)
	}
	return fmt.Sprintf("%s: its input at chunk %d, position %d, column %d is %g", name, e.Chunk, e.Position, e.Column, e.Value)
}
