package verify

import (
	"math"
	"slices"

	"quantscope/kernels"
	"quantscope/quant/export"
	"quantscope/quant/topology"
)

// globals holds second-level scales against what the largest magnitudes of the
// source give: of the matrix itself, or of those that a server fuses with it.
// That needs all matrices of a group, so it comes last.
func (r *run) globals() {
	var selection []topology.Matrix
	var at []int // job of each
	for i := range r.jobs {
		if r.sums.measured[i].checked && r.jobs[i].module.GlobalTensor() != nil {
			selection = append(selection, r.jobs[i].matrix)
			at = append(at, i)
		}
	}
	shared := make([]float32, len(selection)) // largest magnitude of the group, 0 without one
	for _, group := range export.SharedGroups(selection) {
		amax := float32(0)
		for _, k := range group {
			amax = max(amax, r.sums.measured[at[k]].decoded.amax)
		}
		for _, k := range group {
			shared[k] = amax
		}
	}
	for k, i := range at {
		r.checkGlobal(i, shared[k])
	}
}

// checkGlobal wants one module's second-level scale to be one that its matrices
// give.
func (r *run) checkGlobal(i int, groupAmax float32) {
	j, got := &r.jobs[i], &r.sums.measured[i]
	t := j.module.GlobalTensor()
	specs := []kernels.Spec{r.specs[family(j.module)].spec}
	if !r.specs[family(j.module)].known {
		specs = candidates(j.module)
	}
	own, group := float32(0), float32(0)
	for _, spec := range specs {
		a, errA := export.GlobalScale(spec, got.decoded.amax)
		b, errB := a, error(nil)
		if groupAmax > 0 {
			b, errB = export.GlobalScale(spec, groupAmax)
		}
		if errA != nil || errB != nil || a == got.global || b == got.global {
			return
		}
		if own == 0 {
			own, group = a, b
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
