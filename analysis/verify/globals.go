package verify

import (
	"context"
	"math"
	"slices"

	"quantscope/kernels"
	"quantscope/quant/export"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// globals holds second-level scales against what the largest magnitudes of the
// source give: of the matrix itself, or of those that a server fuses with it.
// That needs all matrices of a group, so it comes last. Partners that the output
// lacks are read for it.
func (r *run) globals(ctx context.Context) error {
	amax := map[string]float32{} // of matrices that were read
	var wrong []int              // jobs whose own matrix gives another scale
	for i := range r.jobs {
		if got := &r.sums.measured[i]; got.checked {
			amax[r.jobs[i].matrix.Name] = got.decoded.amax
			if r.jobs[i].module.GlobalTensor() != nil && !r.gives(i, got.decoded.amax) {
				wrong = append(wrong, i)
			}
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	groupOf := r.sharedGroups()
	for _, i := range wrong {
		if r.sums.measured[i].compensated {
			kept, err := r.keptBy(ctx, i, amax)
			if err != nil {
				return err
			}
			if kept {
				continue
			}
			r.sums.measured[i].moved = false
		}
		if r.layout.Receipt.Globals == export.PerTensor.String() {
			r.wrongGlobal(i, 0)
			continue
		}
		// The matrices in the output alone, then with those that are not.
		var partners, absent float32
		for _, k := range groupOf[r.jobs[i].matrix.Name] {
			m := &r.model.Matrices[k]
			if a, ok := amax[m.Name]; ok {
				partners = max(partners, a)
				continue
			}
			a, err := r.absMax(ctx, m)
			if err != nil {
				return err
			}
			absent = max(absent, a)
		}
		if r.gives(i, partners) || absent > partners && r.gives(i, absent) {
			continue
		}
		r.wrongGlobal(i, max(partners, absent))
	}
	return nil
}

// sharedGroups are the source's matrices that a server fuses, by the name of
// each.
func (r *run) sharedGroups() map[string][]int {
	r.groupsOnce.Do(func() {
		r.groups = map[string][]int{}
		for _, group := range export.SharedGroups(r.model.Matrices) {
			for _, k := range group {
				r.groups[r.model.Matrices[k].Name] = group
			}
		}
	})
	return r.groups
}

// absMax reads a matrix of the source for its largest magnitude; 0 where it
// cannot be quantized anyway.
func (r *run) absMax(ctx context.Context, m *topology.Matrix) (float32, error) {
	t, ok := r.src.Lookup(m.Tensor)
	if !ok {
		return 0, nil
	}
	e, ok := element(t)
	if !ok {
		return 0, nil
	}
	s := matrixReader{ck: r.src, t: t, m: m, elem: e}
	step, amax := s.chunkRows(1), float32(0)
	for first := 0; first < m.Rows; first += step {
		rows := min(step, m.Rows-first)
		data, err := s.rows(ctx, first, rows)
		if err != nil {
			return 0, err
		}
		a, err := r.Set.AbsMax(kernels.Matrix{Element: e, Rows: rows, Cols: m.Cols, Data: data})
		if err != nil {
			return 0, err
		}
		amax = max(amax, a)
	}
	return amax, nil
}

// amaxOf is the largest magnitude of the source, of a module's matrix or of what
// a server fuses with it, that gives the module's second-level scale. The stored
// scale alone does not always say how its module was made: it is a rounded
// quotient, from which ModelOpt's static rule for block scales does not come back
// to the magnitude that it divides by, and 1 for a matrix of zeros, whose blocks
// have a rule of their own. ok is false where no magnitude gives it.
func (r *run) amaxOf(ctx context.Context, j *job, spec kernels.Spec, global float32) (amax float32, ok bool, err error) {
	own, err := r.absMax(ctx, &j.matrix)
	if err != nil {
		return 0, false, err
	}
	if r.givesGlobal(j.module, spec, own, global) {
		return own, true, nil
	}
	group := own
	for _, k := range r.sharedGroups()[j.matrix.Name] {
		a, err := r.absMax(ctx, &r.model.Matrices[k])
		if err != nil {
			return 0, false, err
		}
		group = max(group, a)
	}
	return group, r.givesGlobal(j.module, spec, group, global), nil
}

// specsOf are the ways in which a module may have been made.
func (r *run) specsOf(i int) []kernels.Spec {
	m := r.jobs[i].module
	if f := r.specs[r.jobs[i].family]; f.known || f.calibrated {
		return []kernels.Spec{f.spec}
	}
	return r.candidates(m)
}

// gives says whether a largest magnitude gives a module's second-level scale.
func (r *run) gives(i int, amax float32) bool {
	return slices.ContainsFunc(r.specsOf(i), func(s kernels.Spec) bool { return r.givesGlobal(r.jobs[i].module, s, amax, r.sums.measured[i].global) })
}

// givesGlobal says whether a largest magnitude gives a stored second-level scale;
// in what was converted, as the reciprocal, or as that of the reciprocal where it
// was converted there and back.
func (r *run) givesGlobal(m *layout.Module, s kernels.Spec, amax, global float32) bool {
	g, err := export.GlobalScale(s, amax)
	if err != nil {
		return false
	}
	g = globalOf(m, s, g)
	return g == global || len(convertedFrom(r.layout, m)) > 0 && !foreign(m, s) && 1/(1/g) == global
}

// wrongGlobal reports a second-level scale that the source does not give.
func (r *run) wrongGlobal(i int, groupAmax float32) {
	j, got := &r.jobs[i], &r.sums.measured[i]
	t := j.module.GlobalTensor()
	var own, group float32
	if specs := r.specsOf(i); len(specs) > 0 {
		own, _ = export.GlobalScale(specs[0], got.decoded.amax) // 0 where it cannot be had
		own = globalOf(j.module, specs[0], own)
		if group = own; groupAmax > 0 {
			group, _ = export.GlobalScale(specs[0], groupAmax)
			group = globalOf(j.module, specs[0], group)
		}
	}
	id, what := GlobalDiffers, "is"
	if g := float64(got.global); math.IsNaN(g) || math.IsInf(g, 0) || g == 0 {
		id, what = ScaleNonFinite, "is no scale:"
	}
	if own == group {
		r.problem(id, r.fileOf(t), t.Name, "%s %v, the source's largest magnitude %v gives %v", what, got.global, got.decoded.amax, own)
	} else {
		r.problem(id, r.fileOf(t), t.Name, "%s %v, the source's largest magnitude %v gives %v, and that of what is fused with it %v", what, got.global, got.decoded.amax, own, group)
	}
	// Codes and scales that differ follow from it.
	r.rep.Problems = slices.DeleteFunc(r.rep.Problems, func(p Problem) bool {
		if p.ID != ScalesDiffer && p.ID != CodesDiffer && p.ID != ErrorBound {
			return false
		}
		return p.Tensor == j.module.CodeTensor().Name || p.Tensor == j.module.ScaleTensor().Name
	})
}
