package kernels

// chooseOfAll finds the E4M3 scale, of all 126 positive ones, with the least
// error; of equals the smallest. Where every scale gives codes 0 throughout
// the errors are equal but for rounding, and it is the smallest by definition;
// but an all-zero matrix is left to round to nearest. choice counts how many
// codes the scale is off the one of round to nearest.
func (j *nvfp4Job) chooseOfAll(w *nvfp4Block, amax float32) (scale byte, choice int) {
	start := j.scaleCode(j.rawScale(amax))
	switch {
	case amax == 0 && j.allZero:
		return start, -sweepLowest
	case amax == 0:
		return 1, -sweepLowest
	case j.inSteps(amax, 1) <= 0.25:
		scale = 1
	default:
		scale = j.bestFrom(w, amax, start)
	}
	offset := int(scale) - int(start)
	return scale, min(max(offset, sweepLowest), sweepLowest+MultBins-1) - sweepLowest
}

// sweepLowest is the offset that the first bin of Tap.Multipliers stands for.
const sweepLowest = -8

// bestFrom is the search of chooseOfAll. It starts at the scale of round to
// nearest and looks both ways. Downwards the clipping of the largest element
// grows and soon exceeds the best; upwards, once every code is 0, the error
// does not change any more. The result is that of trying all.
func (j *nvfp4Job) bestFrom(w *nvfp4Block, amax float32, start byte) (scale byte) {
	scale = start
	best := j.blockError(w, start)
	for s := start - 1; s >= 1; s-- {
		x := j.inSteps(amax, s)
		if bound := clipError(x, s); bound > best {
			// The exact clipping error (amax/weight_scale_2 − 6·scale)² grows
			// as scales shrink. With x at least 1 % above 6 the f32 bound is
			// within 1e-4 of it, so that none of the smaller scales can win.
			if !j.divide && x > 1.01*MaxE2M1 && bound > 1.01*best {
				break
			}
			continue
		}
		if e := j.blockError(w, s); e <= best {
			best, scale = e, s
		}
	}
	for s := start + 1; s < nanE4M3; s++ {
		e := j.blockError(w, s)
		if e < best {
			best, scale = e, s
		}
		// Once every code is 0, the errors that follow are all
		// Σ(w/weight_scale_2)² to within 1e-5.
		if !j.divide && j.inSteps(amax, s) < 0.249 && best < 0.999*e {
			break
		}
	}
	return scale
}
