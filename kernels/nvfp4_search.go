package kernels

import "math"

// What a search compares is the squared error of a block in units of
// weight_scale_2, all in f32, in this order, so that another implementation
// can give the same bits:
//
//	x[i] = w[i]·(1/step)                  or w[i]/step where job.divide is set
//	d[i] = x[i] − E2M1(x[i])
//	p[k] = ((d[k]² + d[k+4]²) + d[k+8]²) + d[k+12]²    k = 0…3
//	error = ((p[0] + p[1]) + (p[2] + p[3]))·scale²
//
// It differs from Σ(w−q)² only by rounding, about 1e-6 of it. Codes are not
// taken from here: they divide by the step.

// blockError is that error for one scale. Giving up once the terms so far
// exceed the best error costs more in mispredicted branches than it saves.
func (j *nvfp4Job) blockError(w *nvfp4Block, scale byte) float32 {
	if j.divide {
		return j.blockErrorDividing(w, scale)
	}
	r := j.recips[scale&127]
	var p0, p1, p2, p3 float32
	for i := 0; i < BlockNVFP4; i += 4 {
		x0, x1, x2, x3 := float32(w[i]*r), float32(w[i+1]*r), float32(w[i+2]*r), float32(w[i+3]*r)
		d0, d1, d2, d3 := x0-nearestE2M1(x0), x1-nearestE2M1(x1), x2-nearestE2M1(x2), x3-nearestE2M1(x3)
		p0 += float32(d0 * d0)
		p1 += float32(d1 * d1)
		p2 += float32(d2 * d2)
		p3 += float32(d3 * d3)
	}
	return float32(((p0 + p1) + (p2 + p3)) * e4m3Squares[scale&127])
}

// blockErrorDividing is blockError for global scales at the ends of the f32
// range. A step that underflowed to 0 is as bad as can be.
func (j *nvfp4Job) blockErrorDividing(w *nvfp4Block, scale byte) float32 {
	step, square := j.steps[scale&127], e4m3Squares[scale&127]
	if step == 0 {
		return float32(math.Inf(1))
	}
	var p [4]float32
	for i, v := range w {
		x := v / step
		d := x - nearestE2M1(x)
		p[i&3] += float32(d * d)
	}
	return float32(((p[0] + p[1]) + (p[2] + p[3])) * square)
}

// nearestE2M1 is the E2M1 value that x rounds to.
func nearestE2M1(x float32) float32 { return e2m1Nearest[e2m1Cell(x)] }

// inSteps is a block's amax in steps of a scale, as blockError takes it.
func (j *nvfp4Job) inSteps(amax float32, scale byte) float32 {
	if j.divide {
		return amax / j.steps[scale&127]
	}
	return float32(amax * j.recips[scale&127])
}

// clipError is a lower bound of blockError: the term of the largest element
// alone, where that is clipped; else 0. It is one of blockError's terms bit for
// bit, and sums of non-negative terms never shrink, rounded or not, so that the
// bound holds for the rounded results. x is that element in steps.
func clipError(x float32, scale byte) float32 {
	if x <= MaxE2M1 {
		return 0
	}
	d := x - MaxE2M1
	return float32(float32(d*d) * e4m3Squares[scale&127])
}

// chooseNVFP4 is the phase of nvfp4ChooseRef with the set's kernel for the
// job's search.
func (s Set) chooseNVFP4(j *nvfp4Job, src []byte, amax []uint32, scales, choices []byte) {
	switch {
	case j.search.sweep:
		s.nvfp4Sweep(j, src, amax, scales, choices)
	case len(j.search.multipliers) > 0:
		s.nvfp4List(j, src, amax, scales, choices)
	default:
		s.nvfp4Choose(j, src, amax, scales, choices)
	}
}

// searches says whether choose looks at more than a block's amax.
func (j *nvfp4Job) searches() bool { return j.search.sweep || len(j.search.multipliers) > 0 }

// choose picks the block's scale; choice is the bin of Tap.Multipliers.
func (j *nvfp4Job) choose(w *nvfp4Block, amax float32) (scale byte, choice int) {
	if j.search.sweep {
		return j.chooseOfAll(w, amax)
	}
	if len(j.search.multipliers) > 0 {
		return j.chooseOfList(w, amax)
	}
	return j.scaleCode(j.rawScale(amax)), 0
}

// chooseOfList tries the first multiplier, then the others in list order; one
// replaces the best so far only with strictly less error. A scale that an
// earlier multiplier gave already is not tried again: its error is equal.
func (j *nvfp4Job) chooseOfList(w *nvfp4Block, amax float32) (scale byte, choice int) {
	choice = j.search.first
	scale = j.scaleCode(j.rawScale(float32(amax * j.search.multipliers[choice])))
	if amax == 0 {
		return scale, choice
	}
	best := j.blockError(w, scale)
	var tried [128]bool
	tried[scale&127] = true
	for i, m := range j.search.multipliers {
		s := j.scaleCode(j.rawScale(float32(amax * m)))
		if tried[s&127] {
			continue
		}
		tried[s&127] = true
		if clipError(j.inSteps(amax, s), s) >= best {
			continue
		}
		if e := j.blockError(w, s); e < best {
			best, scale, choice = e, s, i
		}
	}
	return scale, min(choice, MultBins-1)
}
