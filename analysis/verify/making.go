package verify

import (
	"context"
	"errors"
	"fmt"

	"quantscope/kernels"
	"quantscope/quant/layout"
)

// errSpec is wrapped by errors about a way of making a module that is none.
var errSpec = errors.New("cannot be made")

// making is a pass that makes a module again.
type making struct {
	*kernels.Pass
	book uint16 // codebook of a format of two bits; 0 of others
}

// beginPass begins to make a module again; amax is looked at where the spec has no
// second-level scale. The codebook of a format of two bits is chosen first, in a
// reading of the source of its own. What the kernels refuse wraps errSpec.
func (w *worker) beginPass(ctx context.Context, j *job, spec kernels.Spec, amax float32) (*making, error) {
	if isBook(spec.Format) {
		search, err := w.Set.BeginCodebook(spec, w.source.elem, j.module.Cols, amax, nil)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errSpec, err)
		}
		step := w.source.chunkRows(1)
		for first := 0; first < j.module.Rows; first += step {
			data, err := w.source.rows(ctx, first, min(step, j.module.Rows-first))
			if err != nil {
				return nil, err
			}
			if err := search.Rows(data); err != nil {
				return nil, fmt.Errorf("%s: %w", j.module.Name, err)
			}
		}
		spec.Use(search.Best())
	}
	p, err := w.Set.Begin(spec, w.source.elem, j.module.Rows, j.module.Cols, amax)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSpec, err)
	}
	return &making{p, spec.Codebook}, nil
}

// isBook says whether codes of a format are indices of a codebook.
func isBook(format string) bool {
	_, ok := kernels.CodebookBase(format)
	return ok
}

// fits says whether what is made in a format may be stored as a module is: in its own,
// or two bits in the codes of four.
func fits(format string, m *layout.Module) bool {
	base, book := kernels.CodebookBase(format)
	return format == m.Spec.Format || book && base == m.Spec.Format
}

// likeStored is what was made, with codes as the module stores them. Of another
// codebook than the stored one it has the stored codes: they mean nothing there.
func (w *worker) likeStored(t *tally, made *kernels.Output, rows int, book uint16) (*kernels.Output, error) {
	if book == 0 {
		return made, nil
	}
	m, out := t.m, *made
	switch {
	case m.BookTensor() == nil:
		w.four = grow(w.four, rows*((m.Cols+1)/2))
		if err := kernels.UnpackCode2(w.four, made.Codes, rows, m.Cols, book); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		out.Codes = w.four
	case w.stored.Codebook != book:
		t.bookDiff = fmt.Sprintf("%v stored, %v wanted", kernels.Codebook(w.stored.Codebook), kernels.Codebook(book))
		out.Codes = w.stored.Codes
	}
	return &out, nil
}

// usedCodes has a bit for each code of E2M1 in bytes of two; −0 counts as 0.
func usedCodes(codes []byte) (mask uint16) {
	var pairs [256]bool
	for _, b := range codes {
		pairs[b] = true
	}
	return maskOf(&pairs)
}

func maskOf(pairs *[256]bool) (mask uint16) {
	for b, used := range pairs {
		if used {
			mask |= 1<<(b&15) | 1<<(b>>4)
		}
	}
	if mask&(1<<8) != 0 {
		mask = mask&^(1<<8) | 1
	}
	return mask
}

// filled is a codebook with at least these values.
func filled(mask uint16) uint16 {
	for code := 0; len(kernels.Codebook(mask)) < kernels.CodebookValues; code++ {
		mask |= 1 << code
	}
	return mask
}
