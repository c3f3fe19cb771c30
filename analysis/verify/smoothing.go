package verify

import (
	"context"
	"maps"
	"slices"

	"quantscope/analysis/align"
	"quantscope/quant/layout"
)

// smoothing finds what a tool's smoothing did to the output, of which its config says
// nothing, so that matrices are measured after it is undone, and norms that were
// divided are not called changed. What quantscope wrote was not smoothed.
func (r *run) smoothing(ctx context.Context) error {
	if r.layout.Receipt.Variant != "" || r.Codes != nil || len(r.layout.Modules) == 0 {
		return nil
	}
	sourceLayout, err := layout.Open(r.src, r.model)
	if err != nil {
		return err
	}
	found, findings, err := align.Smoothing(ctx,
		align.New(r.rep.Source, r.src, r.model, sourceLayout),
		align.New(r.rep.Output, r.out, r.outModel, r.layout),
		align.Options{Threads: r.Threads})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil: // what cannot be read is a problem of its own, later
		return nil
	}
	r.smoothed = found
	matrices := 0
	said := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		s := found[name]
		if s.Cols != nil || s.Rows != nil {
			matrices++
		}
		for _, w := range s.Words {
			said[w]++
		}
	}
	if len(found) == 0 {
		return nil
	}
	r.note("smoothing was found and undone: %d matrices are measured after that, %d norms and biases were divided by what these were multiplied by", matrices, len(found)-matrices)
	for _, w := range slices.Sorted(maps.Keys(said)) {
		r.note("%s (%d tensors)", w, said[w])
	}
	for _, f := range findings {
		r.problem(f.ID, "", f.Tensor, "%s", f.Message)
	}
	return nil
}

// unsmooth undoes smoothing in decoded rows, to be held against the source's, and
// smooths the source's rows, to be held against steps.
func unsmooth(s align.Smoothed, w, decoded []float32, first, cols int) (undone, smoothed []float32) {
	undone, smoothed = make([]float32, len(decoded)), make([]float32, len(w))
	for k := range decoded {
		factor := 1.0
		if s.Cols != nil {
			factor = s.Cols[k%cols]
		}
		if s.Rows != nil {
			factor /= s.Rows[first+k/cols]
		}
		undone[k] = float32(float64(decoded[k]) / factor)
		smoothed[k] = float32(float64(w[k]) * factor)
	}
	return undone, smoothed
}

// smoothSlack widens half a step by the share of a value that s, which is known as
// the norm's type rounds it, and the product's own rounding leave open.
const smoothSlack = 0x1p-7

// looseSlack does where s is known by rounded matrices alone.
const looseSlack = 0x1p-5
