package verify

import (
	"context"
	"fmt"

	"quantscope/kernels"
	"quantscope/quant/export"
	"quantscope/quant/layout"
)

// nearer is by how much fewer differences compensation must leave than the
// method by itself to be what a faulty module is held against.
const nearer = 8

// compensated holds a module that its method does not make under the stored
// second-level scale against what the method makes under the module's own, moved
// to the stored one as a census's repair moves it (export.Compensate): codes
// stay, block scales are multiplied by the ratio and rounded. No tally means
// that it cannot be that.
func (w *worker) compensated(ctx context.Context, j *job, spec kernels.Spec, global float32) (measured, *tally, error) {
	if !export.SharesGlobal(spec.Format) || !usableGlobal(j, global) {
		return measured{}, nil, nil
	}
	amax, err := w.absMax(ctx, &j.matrix)
	if err != nil {
		return measured{}, nil, err
	}
	own, err := export.GlobalScale(spec, amax)
	if err != nil || own == global {
		return measured{}, nil, nil // no such scale, or no other
	}
	p, err := w.beginPass(ctx, j, spec, amax)
	if err != nil {
		return measured{}, nil, fmt.Errorf("%s: %w", j.module.Name, err)
	}
	divisor := spec.Convention == kernels.CT || spec.Convention == kernels.CT32
	out, t, err := w.hold(ctx, j, p, export.Compensate(own, global, divisor))
	out.compensated, out.moved, out.reproduced = true, out.reproduced, false
	return out, t, err
}

// differences counts what is not equal.
func (t *tally) differences() int64 {
	return t.scaleDiff.n + t.codeDiff.n + t.minDiff.n + t.bookDiffs()
}

// keptBy says whether a second-level scale is that of a matrix which a server
// fuses with a module's, by itself: what compensation moves a module to.
func (r *run) keptBy(ctx context.Context, i int, amax map[string]float32) (bool, error) {
	for _, k := range r.sharedGroups()[r.jobs[i].matrix.Name] {
		m := &r.model.Matrices[k]
		if m.Name == r.jobs[i].matrix.Name {
			continue
		}
		a, ok := amax[m.Name]
		if !ok {
			var err error
			if a, err = r.absMax(ctx, m); err != nil {
				return false, err
			}
		}
		if r.gives(i, a) {
			return true, nil
		}
	}
	return false, nil
}

// repaired sums up what was compensated, and holds it against the receipt, where
// there is one: a repair is of whole groups.
func (r *run) repaired() {
	groups := map[string]bool{}
	for i := range r.jobs {
		if !r.sums.measured[i].moved {
			continue
		}
		r.rep.QuantizedCompensated++
		first := r.jobs[i].matrix.Name
		if g := r.sharedGroups()[first]; len(g) > 0 {
			first = r.model.Matrices[g[0]].Name
		}
		groups[first] = true
	}
	stated := r.layout.Receipt.Fixed.Compensated
	if r.layout.Receipt.Variant == "" || stated == len(groups) || stated > len(groups) && len(r.rep.Problems) > 0 {
		return // of groups with a fault nothing more is to be said
	}
	r.problem(layout.Contradicts, r.layout.File, "", "groups that were compensated: the receipt says %d, there are %d", stated, len(groups))
}
