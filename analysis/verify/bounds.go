package verify

import (
	"math"

	"quantscope/kernels"
	"quantscope/quant/layout"
)

// What widens half a step where a quotient was rounded to bf16 before it was
// rounded to a code: 2⁻⁹ of the value, which is at most a sixteenth of half a
// step of E4M3 and a fiftieth of one of E2M1. The rest is for products.
const (
	slackE4M3 = 1 + 1.0/8
	slack     = 1 + 1.0/32
)

// bounds holds decoded values against the source where it is not known how they
// were made: whatever chose the scales, a code that is the nearest is within
// half a step of what it stands for, unless that was clipped.
func (t *tally) bounds(w, q []float32, s *layout.Stored, first int) {
	steps := t.m.Steps(s)
	cols := t.m.Cols
	for k := range w {
		row, col := k/cols, k%cols
		step := float64(steps[t.m.StepIndex(s, row, col)]) * math.Abs(float64(s.Column(col)))
		x, y := float64(w[k]), float64(q[k])
		if !(step > 0) || math.IsInf(step, 0) || x-x != 0 {
			continue // reported as what it is
		}
		e := math.Abs(x - y)
		half, worst, clipped := t.halfStep(x, y, step)
		half, worst = half+t.slack*math.Abs(x), worst+t.slack*math.Abs(x)
		switch {
		case clipped || e <= half:
		case e > worst:
			t.beyond.add("[%d,%d]: %v is stored as %v, in steps of %.4g", first+row, col, w[k], q[k], step)
		default:
			t.notNearest.add("[%d,%d]: %v is stored as %v, in steps of %.4g", first+row, col, w[k], q[k], step)
		}
	}
}

// halfStep is the largest error of the nearest code to x in a block, that of the
// worst place of the block, both widened by what rounds twice, and whether x is
// beyond what the block can hold.
func (t *tally) halfStep(x, q, step float64) (half, worst float64, clipped bool) {
	a := math.Abs(x) / step
	switch t.format.Element {
	case "e2m1":
		switch {
		case a > kernels.MaxE2M1:
			return 0, 0, true
		case a <= 2:
			half = 0.25
		case a <= 4:
			half = 0.5
		default:
			half = 1
		}
		return half * step * slack, step * slack, false
	case "e4m3":
		if a > kernels.MaxE4M3 {
			return 0, 0, true
		}
		half = 0x1p-10 // subnormals
		if a >= 0x1p-6 {
			_, exp := math.Frexp(a) // a is in [2^(exp−1), 2^exp)
			half = math.Ldexp(1, exp-1-4)
		}
		return half * step * slackE4M3, 16 * step * slackE4M3, false
	default: // integers, decoded in bf16: a value beyond the ends is within a step of none
		round := math.Abs(q)*0x1p-8 + math.Abs(x)*0x1p-8
		if t.m != nil && t.m.MinTensor() != nil { // compressed-tensors adds the zero point in bf16, and then rounds to a code
			round += math.Ldexp(step, t.format.Bits-9)
		}
		half = step/2 + round
		return half, half + step, false
	}
}
