package verify

import (
	"context"
	"fmt"
	"math"

	"quantscope/kernels"
)

// measured is what came of one module.
type measured struct {
	checked    bool
	reproduced bool
	remade     bool // by a method
	tap        kernels.Tap
	decoded    totals
	global     float32
}

// totals are f64 sums over the decoded elements of a module.
type totals struct {
	w2, q2, wq, e2 float64
	amax           float32 // largest finite |w|
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
	m := j.module
	w.begin(j)
	global, err := m.Global(ctx)
	if err != nil {
		return w.unreadable(ctx, j, err)
	}
	out := measured{checked: true, global: global}
	f := w.specs[family(m)]
	pass, err := w.pass(j, f, global)
	if err != nil {
		return err
	}
	if pass != nil {
		defer func() { _, _ = pass.Finish() }() // gives back what it holds where a read fails
	}
	t := newTally(j)
	step := w.source.chunkRows(lcm(m.RowMultiple(), multipleOf(pass)))
	for first := 0; first < m.Rows; first += step {
		rows := min(step, m.Rows-first)
		data, err := w.source.rows(ctx, first, rows)
		if err != nil {
			return err
		}
		if err := m.Read(ctx, &w.stored, first, rows); err != nil {
			return w.unreadable(ctx, j, err)
		}
		if pass != nil {
			w.make(pass, rows)
			if err := pass.Rows(data, &w.made); err != nil {
				return fmt.Errorf("%s: %w", m.Name, err)
			}
			t.compare(&w.stored, &w.made, first)
		}
		t.scales(&w.stored, first)
		if err := w.decode(j, data, rows, t, first, pass == nil); err != nil {
			return err
		}
	}
	out.decoded = t.totals
	if pass != nil {
		if out.tap, err = pass.Finish(); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		out.remade, out.reproduced = true, t.equal()
	}
	t.report(w.run, f, pass != nil)
	w.sums.measured[i] = out // each job has one worker
	return w.record(ctx, j, &out, f)
}

// unreadable is a problem with the output, or the end of the context.
func (w *worker) unreadable(ctx context.Context, j *job, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.problem(Unreadable, w.fileOf(j.out), j.out.Name, "%s", oneLine(err))
	return nil
}

// pass begins to make a module again; nil where it is not known how, or where
// the stored global scale cannot be used.
func (w *worker) pass(j *job, f found, global float32) (*kernels.Pass, error) {
	if !f.known || !usableGlobal(j, global) {
		return nil, nil
	}
	spec := f.spec
	spec.Global = global
	p, err := w.Set.Begin(spec, w.source.elem, j.module.Rows, j.module.Cols, 0)
	if err != nil {
		return nil, nil // a global scale out of range, which the tally names
	}
	return p, nil
}

// usableGlobal says whether a stored second-level scale is a scale at all.
func usableGlobal(j *job, global float32) bool {
	return j.module.GlobalTensor() == nil || global > 0 && !math.IsInf(float64(global), 0)
}

func multipleOf(p *kernels.Pass) int {
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
	for k, q := range w.floats {
		x, y := float64(w.w[k]), float64(q)
		if finite := x-x == 0; !finite {
			t.nonFinite++
			continue
		}
		t.totals.amax = max(t.totals.amax, w.w[k], -w.w[k])
		t.totals.w2 += x * x
		t.totals.q2 += y * y
		t.totals.wq += x * y
		t.totals.e2 += (x - y) * (x - y)
	}
	if bounds {
		t.bounds(w.w, w.floats, &w.stored, first)
	}
	return nil
}
