package calibrate

import (
	"context"
	"fmt"

	"quantscope/analysis/model"
	"quantscope/kernels"
)

// overlay is a source with some of its matrices in codes.
type overlay struct {
	model.Source
	set kernels.Set
	at  map[model.Place]model.Weight
}

// Weight implements model.Source.
func (o *overlay) Weight(ctx context.Context, p model.Place) (model.Weight, error) {
	if w, ok := o.at[p]; ok {
		return w, nil
	}
	return o.Source.Weight(ctx, p)
}

// Rows implements model.Source.
func (o *overlay) Rows(ctx context.Context, p model.Place, rows []int32, dst []float32) error {
	w, ok := o.at[p]
	if !ok {
		return o.Source.Rows(ctx, p, rows, dst)
	}
	if len(dst) != len(rows)*w.Cols {
		return fmt.Errorf("calibrate: %d values for %d rows of %s: %w", len(dst), len(rows), p, kernels.ErrShape)
	}
	for k, row := range rows {
		if row < 0 || int(row) >= w.Rows {
			return fmt.Errorf("calibrate: row %d of %s, which has %d: %w", row, p, w.Rows, kernels.ErrShape)
		}
		if err := o.set.ExpandRows(dst[k*w.Cols:][:w.Cols], w.Operand, int(row)); err != nil {
			return fmt.Errorf("calibrate: %s: %w", p, err)
		}
	}
	return nil
}

// Fork implements model.Forker.
func (o *overlay) Fork() model.Source {
	f, ok := o.Source.(model.Forker)
	if !ok {
		return nil
	}
	s := f.Fork()
	if s == nil {
		return nil
	}
	return &overlay{s, o.set, o.at}
}

// begin starts the walk: the text's embeddings, which are quantized where they are
// targets, stand before the first layer.
func (r *running) begin(ctx context.Context) error {
	if r.walk != nil {
		return nil
	}
	var err error
	r.walk, err = model.NewWalk(ctx, r.s.Reference.Arch, r.src, r.s.Corpus.Chunks, model.WalkOptions{
		Set: r.s.Set, Threads: r.s.Threads, Wave: r.budget.Wave, Tile: r.budget.Tile, Step: r.step,
	})
	if err != nil {
		return fmt.Errorf("calibrate: %s: %w", r.s.Reference.Label, err)
	}
	return nil
}

// advance passes layers that nothing is made of until the walk stands before a
// layer; nil stands for the head, which comes behind the decoder layers.
func (r *running) advance(ctx context.Context, l *model.Layer) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	for {
		at, ok := r.walk.At()
		switch {
		case l == nil && (!ok || at.MTP):
			return nil
		case !ok:
			return fmt.Errorf("calibrate: %s: is behind the walk: %w", unitOf(l), ErrSetup)
		case l != nil && at.Index == l.Index:
			return nil
		}
		if err := r.pass(ctx, r.src); err != nil {
			return err
		}
	}
}

// pass takes the text through the layer that comes next.
func (r *running) pass(ctx context.Context, src model.Source) error {
	l, _ := r.walk.At()
	rows := int64(r.walk.Rows())
	r.through(unitOf(l), "passing", rows)
	if err := r.walk.Pass(ctx, src); err != nil {
		return r.about(ctx, err)
	}
	r.tokens += rows
	r.tell(Progress{Unit: unitOf(l), Step: "passing", Of: rows, At: rows})
	return nil
}

// through tells that the text begins to go through a layer.
func (r *running) through(unit, step string, rows int64) {
	r.now = Progress{Unit: unit, Step: step, Of: rows}
	r.tell(r.now)
}

// step tells how far the text is in it.
func (r *running) step(rows int) {
	p := r.now
	p.At, p.Tokens = int64(rows), int64(rows)
	r.tell(p)
}

// about says whose text an error is about; the end of ctx stays what it is.
func (r *running) about(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("calibrate: %s of %s: %w", r.s.Variant.Name, r.s.Reference.Label, err)
}
