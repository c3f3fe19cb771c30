package verify

import (
	"context"
	"fmt"
	"slices"

	"quantscope/kernels"
	"quantscope/quant/codes"
	"quantscope/quant/layout"
)

// Codes are what calibration chose, as package codes keeps it: matrices by name.
// It may be called from any goroutine. codes.Store is one.
type Codes interface {
	Matrix(name string) (codes.Matrix, error)
}

// CodesMissing is the problem of a matrix that the folder of codes has none of, or of
// another shape.
const CodesMissing = "codes-missing"

// calibrated is how the modules of a calibrated variant are held against what is
// known: no quantizer makes their codes again of the weights alone.
func (r *run) calibrated(st statement, jobs []*job) found {
	v, from := st.variant, st.from
	f := found{spec: kernels.Spec{Format: v.Scheme, Method: kernels.Methods(v.Scheme)[0]}, variant: v.Name, calibrated: true}
	if slices.Contains(kernels.Methods(v.Scheme), v.Spec.Method) || v.NamesBook() { // it may have a rule of its own for second-level scales
		f.spec.Method = v.Spec.Method
	}
	first := true
	for _, s := range r.candidates(jobs[0].module) {
		if s.Format != v.Scheme {
			continue
		}
		if first || s.Convention.String() == st.convention {
			f.spec.Convention = s.Convention
		}
		first = false
	}
	r.rep.From, r.rep.Calibrated = from, true
	switch {
	case r.Codes == nil && r.Session == nil:
		r.note("%s is calibrated, so that its codes cannot be made again of the weights: they were read and decoded; --codes holds them against those that were kept, --session against what was measured of them", v.Name)
	case r.Codes == nil:
		r.note("%s is calibrated, so that its codes cannot be made again of the weights: they were measured, and held against the session's records; --codes holds them against those that were kept", v.Name)
	}
	return f
}

// checkCalibrated holds a module of a calibrated variant against the codes that were
// kept, and against the session's record of it, as far as there are any.
func (w *worker) checkCalibrated(ctx context.Context, i int, j *job, f found, global float32) error {
	m := j.module
	var kept *codes.Matrix
	if w.Codes != nil {
		k, err := w.Codes.Matrix(j.matrix.Name)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			w.problem(CodesMissing, w.fileOf(j.out), j.out.Name, "%s", oneLine(err))
		case k.Rows != m.Rows || k.Cols != m.Cols || len(k.Codes) == 0:
			w.problem(CodesMissing, w.fileOf(j.out), j.out.Name, "the folder of codes has %d×%d of it in %d bytes (%s)", k.Rows, k.Cols, len(k.Codes), k.Effective)
		default:
			kept = &k
		}
	}
	got, t, all, err := w.read(ctx, j, kept)
	if err != nil || t == nil {
		return err
	}
	got.checked, got.global, got.reproduced = true, global, kept != nil && t.equal()
	if kept != nil && m.GlobalTensor() != nil && kept.Global != global {
		got.reproduced = false
		g := m.GlobalTensor()
		w.problem(GlobalDiffers, w.fileOf(g), g.Name, "is %v, and %v beside the codes that were kept", global, kept.Global)
	}
	t.report(w.run, f, kept != nil)
	w.sums.measured[i] = got // each job has one worker
	if w.Session == nil {
		return nil
	}
	rec, ok, err := w.recordOf(ctx, j)
	if err != nil {
		return err
	}
	if ok {
		if all.Codes, f.spec.Codebook, err = twoBits(m, f.spec, all.Codes, got.book, kept); err != nil {
			w.problem(CodesDiffer, w.fileOf(j.out), j.out.Name, "are not those of two bits: %s", oneLine(err))
			return nil
		}
		if got.tap, err = w.tapOf(ctx, j, f, all, global); err != nil {
			return err
		}
		// Which candidates a search chose is not in the codes.
		got.tap.Multipliers, got.tap.ScaleHigh, got.tap.ScaleLow = rec.Multipliers, rec.ScaleHigh, rec.ScaleLow
		got.tap.Bias.L2, got.tap.Bias.Sym = rec.Bias.L2, rec.Bias.Sym
		got.remade = true
	}
	return w.record(ctx, j, &got, f, rec, ok)
}

// read goes once through a module and its source, and holds what is stored against
// the codes that were kept. all is the whole of it where a session is compared. No
// tally means that the output cannot be read, which is reported then.
func (w *worker) read(ctx context.Context, j *job, kept *codes.Matrix) (out measured, t *tally, all kernels.Output, err error) {
	m := j.module
	t = newTally(j)
	t.kept = kept != nil
	step := w.source.chunkRows(m.RowMultiple())
	for first := 0; first < m.Rows; first += step {
		rows := min(step, m.Rows-first)
		data, err := w.source.rows(ctx, first, rows)
		if err != nil {
			return out, nil, all, err
		}
		if err := m.Read(ctx, &w.stored, first, rows); err != nil {
			return out, nil, all, w.unreadable(ctx, j, err)
		}
		if kept != nil {
			want := kernels.Output{
				Codes: rowsOf(kept.Codes, m.Rows, first, rows), Scales: rowsOf(kept.Scales, m.Rows, first, rows), Mins: rowsOf(kept.Mins, m.Rows, first, rows),
			}
			like, err := w.likeStored(t, &want, rows, kept.Codebook)
			if err != nil {
				return out, nil, all, err
			}
			t.compare(&w.stored, like, first)
		}
		if w.Session != nil {
			src := kernels.Matrix{Element: w.source.elem, Rows: rows, Cols: m.Cols, Data: data}
			if err := w.Set.Moments(src, &out.moments); err != nil {
				return out, nil, all, fmt.Errorf("%s: %w", m.Name, err)
			}
			all.Codes = append(all.Codes, w.stored.Codes...)
			all.Scales = append(all.Scales, w.stored.Scales...)
			all.Mins = append(all.Mins, w.stored.Mins...)
		}
		t.look(&w.stored)
		t.scales(&w.stored, first)
		if err := w.decode(j, data, rows, t, first, false); err != nil {
			return out, nil, all, err
		}
		for _, x := range w.w {
			if x-x == 0 {
				t.totals.amax = max(t.totals.amax, x, -x)
			}
		}
	}
	out.decoded, out.book = t.totals, t.codebook()
	return out, t, all, nil
}

// twoBits are stored codes as a format of two bits has them, and their codebook: the
// one that was kept, or has the values that are used. Of other formats they are as
// they stand.
func twoBits(m *layout.Module, spec kernels.Spec, codes []byte, book uint16, kept *codes.Matrix) ([]byte, uint16, error) {
	switch {
	case !isBook(spec.Format):
		return codes, 0, nil
	case m.BookTensor() != nil:
		return codes, book, nil
	case kept != nil && kept.Codebook != 0:
		book = kept.Codebook
	case book == 0:
		return nil, 0, fmt.Errorf("more than %d values: %w", kernels.CodebookValues, kernels.ErrRange)
	}
	book = filled(book)
	packed := make([]byte, m.Rows*((m.Cols+3)/4))
	return packed, book, kernels.PackCode2(packed, codes, m.Rows, m.Cols, book)
}

// rowsOf are some rows of what has as many bytes for each.
func rowsOf(b []byte, all, first, n int) []byte {
	size := len(b) / max(all, 1)
	return b[min(first*size, len(b)):min((first+n)*size, len(b))]
}

// tapOf measures what is stored of a module against its source, which is in memory
// as a whole for that.
func (w *worker) tapOf(ctx context.Context, j *job, f found, all kernels.Output, global float32) (kernels.Tap, error) {
	data, err := w.source.rows(ctx, 0, j.module.Rows)
	if err != nil {
		return kernels.Tap{}, err
	}
	if all.Mins != nil && len(all.Mins) == 0 {
		all.Mins = nil
	}
	src := kernels.Matrix{Element: w.source.elem, Rows: j.module.Rows, Cols: j.module.Cols, Data: data}
	tap, err := w.Set.TapOf(f.spec, kernels.StoredOperand(src), &all, global, 1)
	if err != nil {
		return tap, fmt.Errorf("%s: %w", j.module.Name, err)
	}
	return tap, nil
}
