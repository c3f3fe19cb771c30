package kernels

// chooseOfAll finds the E4M3 scale, of all 126 positive ones, with the least
// error; of equals the smallest. Where every scale gives codes 0 throughout
// the errors are equal but for the rounding of steps, and it is the smallest by
// definition; but an all-zero matrix is left to round to nearest. choice counts
// how many codes the scale is off the one of round to nearest.
func (j *nvfp4Job) chooseOfAll(u *nvfp4Block, amax float32) (scale byte, choice int) {
	start := j.scaleCode(j.rawScale(amax))
	largest := float32(amax * j.unit)
	switch {
	case amax == 0 && j.allZero:
		return start, -sweepLowest
	case amax == 0:
		return 1, -sweepLowest
	case j.vanishes(largest):
		scale = 1
	default:
		scale = j.bestFrom(u, largest, start)
	}
	offset := int(scale) - int(start)
	return scale, min(max(offset, sweepLowest), sweepLowest+MultBins-1) - sweepLowest
}

// sweepLowest is the offset that the first bin of Tap.Multipliers stands for.
const sweepLowest = -8

// vanishes says whether even the smallest scale gives codes 0 throughout.
func (j *nvfp4Job) vanishes(largest float32) bool {
	if j.divide {
		return largest/j.steps[1] <= 0.25
	}
	return largest <= 0.25*MinE4M3
}

// bestFrom is the search of chooseOfAll. It starts at the scale of round to
// nearest and looks both ways, as far as a bound does not show that the rest
// cannot win. Downwards that is the clipping of the largest element, upwards
// the error of what is below half a step. The result is that of trying all.
func (j *nvfp4Job) bestFrom(u *nvfp4Block, largest float32, start byte) (scale byte) {
	scale = start
	best := j.blockError(u, start)
	for s := start - 1; s >= 1; s-- {
		if j.clipError(largest, s) > best {
			if !j.divide {
				break
			}
			continue // steps at the end of the range are not monotonic in all they do
		}
		if e := j.blockError(u, s); e <= best {
			best, scale = e, s
		}
	}
	for s := start + 1; s < nanE4M3; s++ {
		if e := j.blockError(u, s); e < best {
			best, scale = e, s
		}
		if !j.divide && (s-start)&3 == 3 && smallError(u, s) >= best {
			break
		}
	}
	return scale
}

// smallError is a lower bound of blockError for this scale and all larger ones:
// the terms of the elements below half a step, the others left out, in the
// order of blockError. Such an element gets 0 or half a step. The latter moves
// away from it as scales grow, so that it is never nearer than the nearer of
// the two is here.
func smallError(u *nvfp4Block, scale byte) float32 {
	half := e4m3Values[scale&127] / 2
	var p [4]float32
	for i, v := range u {
		if d := min(v, half-v); d > 0 {
			p[i&3] += float32(d * d)
		}
	}
	return (p[0] + p[1]) + (p[2] + p[3])
}
