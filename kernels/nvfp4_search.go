package kernels

import "math"

// What a search compares is the squared error of a block in units of
// weight_scale_2, all in f32, in this order, so that another implementation
// can give the same bits:
//
//	u[i] = |w[i]|·unit           unit = 1/weight_scale_2, rounded, or weight_global_scale
//	n[i] = E2M1(u[i]·(1/scale))  1/scale is rounded, the product is not
//	d[i] = u[i] − n[i]·scale     the product is exact in f32
//	p[k] = ((d[k]² + d[k+4]²) + d[k+8]²) + d[k+12]²    k = 0…3
//	error = (p[0] + p[1]) + (p[2] + p[3])
//
// It differs from Σ(w−q)² only by rounding, about 1e-6 of it. Codes are not
// taken from here: they divide by the step. It makes no difference which way
// n[i] rounds at a tie: there is one only where scale is a power of two, and
// then d[i]² is the same.
//
// Where the step or its reciprocal may be no normal f32, job.divide is set and
// the error is that of blockErrorDividing, from u[i] = |w[i]|.

// blockError is the error of a block of u[i] for one scale.
func (j *nvfp4Job) blockError(u *nvfp4Block, scale byte) float32 {
	if j.divide {
		return j.blockErrorDividing(u, scale)
	}
	s, r := e4m3Values[scale&127], e4m3Quarters[scale&127]
	var p0, p1, p2, p3 float32
	for i := 0; i < BlockNVFP4; i += 4 {
		d0, d1, d2, d3 := offGrid(u[i], s, r), offGrid(u[i+1], s, r), offGrid(u[i+2], s, r), offGrid(u[i+3], s, r)
		p0 += float32(d0 * d0)
		p1 += float32(d1 * d1)
		p2 += float32(d2 * d2)
		p3 += float32(d3 * d3)
	}
	return (p0 + p1) + (p2 + p3)
}

// offGrid is d for one element; r is 4/scale.
func offGrid(u, s float32, r float64) float32 {
	x := float64(u) * r
	if !(x < 31) {
		x = 31
	}
	return u - float32(e2m1Quarters[int(x)&31]*s)
}

// e2m1Quarters holds what a magnitude in [i/4, (i+1)/4) rounds to: every
// boundary of E2M1 is a multiple of 1/4. The last is all that is above.
var e2m1Quarters = func() (t [32]float32) {
	for i := range t {
		t[i] = e2m1Values[F32ToE2M1(float32(i)/4+1.0/8)]
	}
	return t
}()

// e4m3Quarters are four times the reciprocals, rounded to f32, of the scales.
var e4m3Quarters = func() (t [128]float64) {
	for c := 1; c < nanE4M3; c++ {
		t[c] = 4 * float64(1/e4m3Values[c])
	}
	return t
}()

// blockErrorDividing is blockError for global scales at the ends of the f32
// range: ((p[0] + p[1]) + (p[2] + p[3]))·scale² with d[i] = x − E2M1(x), x =
// |w[i]|/step. A step that underflowed to 0 is as bad as can be.
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

// clipError is a lower bound of blockError: the term of the largest element
// alone, u, where that is clipped; else 0. It is one of blockError's terms bit
// for bit, and sums of non-negative terms never shrink, rounded or not, so that
// the bound holds for the rounded results. Every operation is monotonic: it
// never shrinks as scales do.
func (j *nvfp4Job) clipError(u float32, scale byte) float32 {
	if j.divide {
		d := u/j.steps[scale&127] - MaxE2M1
		if !(d > 0) {
			return 0
		}
		return float32(float32(d*d) * e4m3Squares[scale&127])
	}
	d := u - MaxE2M1*e4m3Values[scale&127]
	if d <= 0 {
		return 0
	}
	return float32(d * d)
}

// inUnits makes w[i] into u[i].
func (j *nvfp4Job) inUnits(w *nvfp4Block) {
	for i, v := range w {
		w[i] = float32(math.Float32frombits(math.Float32bits(v)&^signF32) * j.unit)
	}
}

// chooseNVFP4 is the phase of nvfp4ChooseRef with the set's kernel for the
// job's search.
func (s Set) chooseNVFP4(j *nvfp4Job, src []byte, amax []uint32, scales, choices []byte) {
	switch {
	case j.weights != nil:
		s.nvfp4Weighted(j, src, amax, scales, choices)
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

// choose picks the block's scale; choice is the bin of Tap.Multipliers. Under
// imatrix the block is that of j.weights.at.
func (j *nvfp4Job) choose(w *nvfp4Block, amax float32) (scale byte, choice int) {
	if !j.searches() || amax == 0 && !j.search.sweep {
		return j.scaleCode(j.rawScale(amax)), j.search.first
	}
	u := *w
	j.inUnits(&u)
	if j.weights != nil {
		if f, even := j.weights.block(j.weights.at); !even {
			return j.chooseWeighted(&u, amax, &f)
		}
	}
	if j.search.sweep {
		return j.chooseOfAll(&u, amax)
	}
	return j.chooseOfList(&u, amax)
}

// chooseOfList tries the first multiplier, then the others in list order; one
// replaces the best so far only with strictly less error. A scale that an
// earlier multiplier gave already is not tried again: its error is equal.
func (j *nvfp4Job) chooseOfList(u *nvfp4Block, amax float32) (scale byte, choice int) {
	choice = j.search.first
	scale = j.scaleCode(j.rawScale(float32(amax * j.search.multipliers[choice])))
	best := j.blockError(u, scale)
	var tried [128]bool
	tried[scale&127] = true
	for i, m := range j.search.multipliers {
		s := j.scaleCode(j.rawScale(float32(amax * m)))
		if tried[s&127] {
			continue
		}
		tried[s&127] = true
		if j.clipError(float32(amax*j.unit), s) >= best {
			continue
		}
		if e := j.blockError(u, s); e < best {
			best, scale, choice = e, s, i
		}
	}
	return scale, min(choice, MultBins-1)
}
