package verify

import (
	"context"
	"errors"
	"fmt"
	"math"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
)

// measured is what came of one module.
type measured struct {
	checked    bool
	reproduced bool
	remade     bool // by a method

	compensated bool // was held against what the method makes, moved to another second-level scale
	moved       bool // is that bit for bit

	tap     kernels.Tap
	decoded totals
	global  float32
	book    uint16          // that codes of two bits stand for, or the values of those of four where these are no more than four; 0 elsewhere
	moments kernels.Moments // of the source, where a session is compared
}

// totals are f64 sums over the decoded elements of a module. Elements with even
// and odd columns are summed by themselves, so that one addition need not wait
// for the other, and then together, range by range.
type totals struct {
	w2, q2, wq, e2 float64
	amax           float32 // largest finite |w|
}

// add adds the sums of some elements. It says whether they are finite.
func (t *totals) add(w, q []float32) bool {
	// Variables of their own: fields of a struct would go through memory.
	var aw2, aq2, awq, ae2, bw2, bq2, bwq, be2 float64
	q = q[:len(w)]
	for len(w) >= 2 && len(q) >= 2 {
		x, y := float64(w[0]), float64(q[0])
		d := x - y
		aw2 += x * x
		aq2 += y * y
		awq += x * y
		ae2 += d * d
		x, y = float64(w[1]), float64(q[1])
		d = x - y
		bw2 += x * x
		bq2 += y * y
		bwq += x * y
		be2 += d * d
		w, q = w[2:], q[2:]
	}
	if len(w) > 0 {
		x, y := float64(w[0]), float64(q[0])
		aw2 += x * x
		aq2 += y * y
		awq += x * y
		ae2 += (x - y) * (x - y)
	}
	t.w2 += aw2 + bw2
	t.q2 += aq2 + bq2
	t.wq += awq + bwq
	t.e2 += ae2 + be2
	sum := t.w2 + t.e2
	return sum-sum == 0
}

// rel2 is ‖w−q‖²/‖w‖²; 0 where the error is 0.
func (t totals) rel2() float64 {
	if t.e2 == 0 {
		return 0
	}
	return t.e2 / t.w2
}

func (t totals) cos() float64 {
	if t.w2 == 0 && t.q2 == 0 {
		return 1
	}
	return t.wq / (math.Sqrt(t.w2) * math.Sqrt(t.q2))
}

// check holds a quantized module against its source.
func (w *worker) check(ctx context.Context, i int, j *job) error {
	w.begin(j)
	global, err := j.module.Global(ctx)
	if err != nil {
		return w.unreadable(ctx, j, err)
	}
	f := w.specs[j.family]
	if f.calibrated {
		return w.checkCalibrated(ctx, i, j, f, global)
	}
	rec, recorded, err := w.recordOf(ctx, j)
	if err != nil {
		return err
	}
	pass, err := w.pass(ctx, j, f, global)
	if err != nil {
		return err
	}
	got, t, err := w.hold(ctx, j, pass, nil)
	if err != nil || t == nil {
		return err
	}
	// A reciprocal of a stored scale can be one beside that which made the module.
	beside := recorded && rec.GlobalScale != got.tap.GlobalScale && len(convertedFrom(w.layout, j.module)) > 0
	if got.remade && (!got.reproduced || beside || recorded && rec.GlobalScale == got.tap.GlobalScale && !sameTap(&rec, &got.tap)) {
		amax, ok, err := w.amaxOf(ctx, j, f.spec, global)
		if err != nil {
			return err
		}
		if ok {
			p, err := w.beginPass(ctx, j, f.spec, amax)
			if err != nil {
				return fmt.Errorf("%s: %w", j.module.Name, err)
			}
			if got, t, err = w.hold(ctx, j, p, nil); err != nil || t == nil {
				return err
			}
		}
	}
	if got.remade && !got.reproduced && !foreign(j.module, f.spec) {
		moved, of, err := w.compensated(ctx, j, f.spec, global)
		if err != nil {
			return err
		}
		if of != nil && nearer*of.differences() < t.differences() {
			got, t = moved, of
			t.compensated = true
		}
	}
	got.checked, got.global = true, global
	size := got.tap.SumW2
	if len(convertedFrom(w.layout, j.module)) > 0 {
		size *= 1e3 // values differ by the rounding of a reciprocal
	}
	if tap := &got.tap; got.reproduced && !near(tap.SumE2, got.decoded.e2, size) {
		w.problem(DecodeDiffers, w.fileOf(j.out), j.out.Name, "what is stored decodes to Σ(w−q)² = %v, the quantizer that makes the same codes measures %v", got.decoded.e2, tap.SumE2)
	}
	t.report(w.run, f, got.remade)
	w.sums.measured[i] = got // each job has one worker
	return w.record(ctx, j, &got, f, rec, recorded)
}

// hold goes once through a module and its source, and makes the module again
// where there is a pass, which it ends; after that its block scales go through
// the table, where there is one. No tally means that the output cannot be read,
// which is reported then.
func (w *worker) hold(ctx context.Context, j *job, pass *making, table *export.Compensation) (out measured, t *tally, err error) {
	m := j.module
	if pass != nil {
		defer func() { _, _ = pass.Finish() }() // gives back what it holds where a read fails
	}
	t = newTally(j)
	step := w.source.chunkRows(lcm(m.RowMultiple(), multipleOf(pass)))
	for first := 0; first < m.Rows; first += step {
		rows := min(step, m.Rows-first)
		data, err := w.source.rows(ctx, first, rows)
		if err != nil {
			return out, nil, err
		}
		if err := m.Read(ctx, &w.stored, first, rows); err != nil {
			return out, nil, w.unreadable(ctx, j, err)
		}
		if pass != nil {
			w.make(pass.Pass, rows)
			if err := pass.Rows(data, &w.made); err != nil {
				return out, nil, fmt.Errorf("%s: %w", m.Name, err)
			}
			if table != nil {
				table.Apply(w.made.Scales, w.made.Scales)
			}
			want, err := w.likeStored(t, &w.made, rows, pass.book)
			if err != nil {
				return out, nil, err
			}
			t.compare(&w.stored, want, first)
			if w.Session != nil {
				m := kernels.Matrix{Element: w.source.elem, Rows: rows, Cols: m.Cols, Data: data}
				if err := w.Set.Moments(m, &out.moments); err != nil {
					return out, nil, fmt.Errorf("%s: %w", j.module.Name, err)
				}
			}
		}
		t.look(&w.stored)
		t.scales(&w.stored, first)
		if err := w.decode(j, data, rows, t, first, pass == nil); err != nil {
			return out, nil, err
		}
	}
	out.decoded, out.book = t.totals, t.codebook()
	if pass != nil {
		if out.tap, err = pass.Finish(); err != nil {
			return out, nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		out.remade, out.reproduced = true, t.equal()
		out.decoded.amax = float32(out.tap.Amax)
	}
	return out, t, nil
}

// unreadable is a problem with the output, or the end of the context.
func (w *worker) unreadable(ctx context.Context, j *job, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	at := j.out
	var fe *checkpoint.FileError
	if errors.As(err, &fe) {
		if t, ok := w.out.Lookup(fe.Tensor); ok { // another of the module's
			at = t
		}
	}
	w.problem(Unreadable, w.fileOf(at), at.Name, "%s", oneLine(err))
	return nil
}

// pass begins to make a module again; nil where it is not known how, or where
// the stored global scale cannot be used.
func (w *worker) pass(ctx context.Context, j *job, f found, global float32) (*making, error) {
	if _, smoothed := w.smoothed[j.module.Name]; smoothed || !f.known || !usableGlobal(j, global) {
		return nil, nil
	}
	spec := f.spec
	spec.Global = globalOf(j.module, spec, global)
	p, err := w.beginPass(ctx, j, spec, 0)
	if errors.Is(err, errSpec) {
		return nil, nil // a global scale out of range, which globals reports
	}
	return p, err
}

// usableGlobal says whether a stored second-level scale is a scale at all.
func usableGlobal(j *job, global float32) bool {
	return j.module.GlobalTensor() == nil || global > 0 && !math.IsInf(float64(global), 0)
}

func multipleOf(p *making) int {
	if p == nil {
		return 1
	}
	return max(1, p.RowMultiple())
}

func lcm(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// decode decodes what was read and adds its sums.
func (w *worker) decode(j *job, data []byte, rows int, t *tally, first int, bounds bool) error {
	n := rows * j.module.Cols
	w.w, w.floats = grow(w.w, n), grow(w.floats, n)
	if err := kernels.DecodeFloats(w.w, w.source.elem, data); err != nil {
		return err
	}
	if err := j.module.Decode(w.floats, &w.stored); err != nil {
		return err
	}
	q, held := w.floats, w.w
	if s, ok := w.smoothed[j.module.Name]; ok {
		q, held = unsmooth(s, w.w, w.floats, first, j.module.Cols)
		if t.slack = smoothSlack; s.Loose {
			t.slack = looseSlack
		}
	}
	sum := t.totals
	if !sum.add(w.w, q) { // something is not finite: once more, with a look at each
		sum = t.totals
		for k := range w.floats {
			if x := w.w[k]; x-x == 0 {
				sum.add(w.w[k:k+1], q[k:k+1]) // a NaN of the output stays one
			} else {
				t.nonFinite++
			}
		}
	}
	t.totals = sum
	if bounds { // nobody else looks at the elements
		t.bounds(held, w.floats, &w.stored, first)
		for _, x := range w.w {
			if x-x == 0 {
				t.totals.amax = max(t.totals.amax, x, -x)
			}
		}
	}
	return nil
}
