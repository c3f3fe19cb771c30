package verify

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"quantscope/kernels"
)

// recordOf is the session's record of a module's matrix, if there is one.
func (w *worker) recordOf(ctx context.Context, j *job) (rec kernels.Tap, ok bool, err error) {
	if w.Session == nil {
		return rec, false, nil
	}
	return w.Session.Record(ctx, w.recorded, j.matrix.Name)
}

// record holds a module against the session's record of its matrix: all of it
// bit for bit where it was made again, its sums within rounding otherwise.
func (w *worker) record(ctx context.Context, j *job, out *measured, f found, rec kernels.Tap, ok bool) (err error) {
	if w.Session == nil {
		return nil
	}
	t := j.out
	if !ok {
		w.problem(RecordMissing, w.fileOf(t), t.Name, "the session has no record of %s under %s", j.matrix.Name, w.recorded)
		return nil
	}
	w.sums.mu.Lock()
	w.rep.RecordsCompared++
	w.sums.mu.Unlock()
	if !out.remade {
		if !near(rec.SumE2, out.decoded.e2, rec.SumW2) || !near(rec.SumW2, out.decoded.w2, rec.SumW2) {
			w.problem(RecordDiffers, w.fileOf(t), t.Name, "Σ(w−q)² and Σw² are %v and %v, the session has %v and %v", out.decoded.e2, out.decoded.w2, rec.SumE2, rec.SumW2)
		}
		return nil
	}
	tap := out.tap
	if rec.GlobalScale != tap.GlobalScale {
		if tap, err = w.ownTap(ctx, j, f, float32(tap.Amax)); err != nil {
			return err
		}
		w.sums.mu.Lock()
		w.sums.ownGlobal++
		w.sums.mu.Unlock()
	}
	if rec.HasMoments { // older records do not
		tap.SetMoments(out.moments)
	}
	tap.Bias = comparable(tap.Bias, rec.Bias)
	if !rec.HasBias { // nor this
		tap.HasBias, tap.Bias = false, kernels.Bias{}
	}
	if diff := tapDiff(&tap, &rec); diff != "" {
		w.problem(RecordDiffers, w.fileOf(t), t.Name, "the source measured again differs from the session's record: %s", diff)
	}
	return nil
}

// near compares two sums of the same terms in another order, against the size
// of the terms that entered.
func near(a, b, size float64) bool {
	d := a - b
	return max(d, -d) <= 1e-9*max(size, a, b)
}

// ownTap measures a matrix under the global scale that follows from itself.
func (w *worker) ownTap(ctx context.Context, j *job, f found, amax float32) (kernels.Tap, error) {
	p, err := w.beginPass(ctx, j, f.spec, amax)
	if err != nil {
		return kernels.Tap{}, err
	}
	step := w.source.chunkRows(multipleOf(p))
	for first := 0; first < j.module.Rows; first += step {
		data, err := w.source.rows(ctx, first, min(step, j.module.Rows-first))
		if err == nil {
			err = p.Rows(data, nil)
		}
		if err != nil {
			_, _ = p.Finish() // gives back what it holds
			return kernels.Tap{}, err
		}
	}
	return p.Finish()
}

// comparable is a bias whose figures that another one does not know are unknown too,
// as values that equal it: NaN does not equal itself.
func comparable(b, as kernels.Bias) kernels.Bias {
	if as.L2 != as.L2 {
		b.L2 = as.L2
	}
	if as.Sym != as.Sym {
		b.Sym = as.Sym
	}
	return b
}

// sameTap says whether two records are equal, with figures that are not known taken
// for equal.
func sameTap(a, b *kernels.Tap) bool {
	x, y := *a, *b
	for _, t := range []*kernels.Tap{&x, &y} {
		for _, f := range []*float64{&t.Bias.L2, &t.Bias.Sym} {
			if *f != *f {
				*f = -1
			}
		}
	}
	return x == y
}

// tapDiff names the fields in which two tap records differ, with the values of
// the first ones; "" where they are equal bit for bit.
func tapDiff(have, want *kernels.Tap) string {
	if sameTap(have, want) {
		return ""
	}
	a, b := reflect.ValueOf(have).Elem(), reflect.ValueOf(want).Elem()
	var said []string
	for i := range a.NumField() {
		x, y := a.Field(i).Interface(), b.Field(i).Interface()
		if x == y {
			continue
		}
		if name := a.Type().Field(i).Name; a.Field(i).Kind() == reflect.Array {
			said = append(said, name)
		} else {
			said = append(said, fmt.Sprintf("%s %v, recorded %v", name, x, y))
		}
	}
	if len(said) > 4 {
		said = append(said[:4], fmt.Sprintf("%d more", len(said)-4))
	}
	return strings.Join(said, "; ")
}
