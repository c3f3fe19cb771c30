package sessions

import (
	"context"
	"fmt"
	"math"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// rowErrors measures one tensor again, row by row, whole or in pieces. weights is
// the digest of what was measured before; of other weights there are no rows.
func rowErrors(ctx context.Context, job *Job, q Quantizer, tensor int, weights digest) ([]float64, error) {
	where := fmt.Sprintf("%s: tensor %q", job.Tensors[tensor].File, job.Tensors[tensor].Name)
	if src, ok := job.Source.(*fp4Source); ok {
		return src.rows(ctx, q, tensor, weights, where)
	}
	src, ok := job.Source.(rowSource)
	if !ok || q.Spec == nil {
		return rowErrorsWhole(ctx, job, q, tensor, weights)
	}
	m, err := src.Shape(tensor)
	if err != nil {
		return nil, err
	}
	if m.Cols == 0 {
		return nil, ctx.Err()
	}
	e := &engine{job: job, rowSource: src, set: kernels.Best(), pool: checkpoint.NewPool(2 * pieceBytes), piece: pieceBytes, digests: make([]digest, len(job.Tensors))}
	e.digests[tensor] = weights
	w := &worker{e: e, shots: []shot{{q: q}}}
	it := item{tensor: tensor, m: m}
	if w.needsAmax() {
		if it.look, err = w.survey(ctx, it); err != nil {
			return nil, err
		}
		if weights.differs(it.look.digest) {
			return nil, fmt.Errorf("%s: %w", where, errWeightsChanged)
		}
	}
	amax, err := q.sharing(job).amax(ctx, q.Spec.Format, tensor, it.look.amax)
	if err != nil {
		return nil, err
	}
	spec := *q.Spec
	if q.Codebook {
		book, err := w.codebook(ctx, it, spec, amax)
		if err != nil {
			return nil, err
		}
		spec.Use(book)
	}
	p, err := e.set.Begin(spec, m.Element, m.Rows, m.Cols, amax)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	out := kernels.Output{RowE2: make([]float64, m.Rows), RowW2: make([]float64, m.Rows)}
	w.hash.begin(weights.sha != 0)
	err = w.eachPiece(ctx, it, w.rowsAtOnce(m, p.RowMultiple()), func(from int, data []byte) error {
		w.hash.add(data)
		n := len(data) / (m.Cols * m.Element.Size())
		return p.Rows(data, &kernels.Output{RowE2: out.RowE2[from : from+n], RowW2: out.RowW2[from : from+n]})
	})
	_, ended := p.Finish()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case ended != nil:
		return nil, fmt.Errorf("%s: %w", where, ended)
	case weights.differs(w.hash.digest()):
		return nil, fmt.Errorf("%s: %w", where, errWeightsChanged)
	}
	errs := out.RowE2
	for r, e2 := range errs {
		if e2 != 0 {
			errs[r] = math.Sqrt(e2 / out.RowW2[r])
		}
	}
	return errs, nil
}

// rowErrorsWhole is rowErrors for what does not come in pieces.
func rowErrorsWhole(ctx context.Context, job *Job, q Quantizer, tensor int, weights digest) ([]float64, error) {
	where := fmt.Sprintf("%s: tensor %q", job.Tensors[tensor].File, job.Tensors[tensor].Name)
	m, err := job.Source.Read(ctx, tensor, make([]byte, job.Source.Need(tensor)))
	if err != nil {
		return nil, err
	}
	if weights.differs(digestOf(m.Data, weights.sha != 0)) {
		return nil, fmt.Errorf("%s: %w", where, errWeightsChanged)
	}
	if q.Rows == nil {
		return nil, fmt.Errorf("sessions: variant %s does not tell the errors of rows", q.Variant.Name)
	}
	_, rows, err := q.Rows(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return rows, ctx.Err()
}
