package kernels

import "math"

// The method imatrix of int4 looks for the scale and the minimum or zero point of
// a group with the least Σ f·(w−q)², in these steps; a candidate replaces the
// best so far only with strictly less error, so that none is worse than round to
// nearest, which is the first.
//
//  1. The 33 ranges of the method range.
//  2. Up to twice, while it helps: each end of an asymmetric range is moved by
//     itself, by 1/20 to 3/20 of the range in or out.
//  3. Up to four times, while it helps: the codes of the best so far are kept and
//     scale and minimum are fitted to them by weighted least squares. Both are
//     rounded to their types before codes are chosen anew; where they are bf16
//     both neighbours are tried, and of zero points the two nearest.
//  4. Each end is moved by 1/80 to 3/80, and 3 is done again where that helped.
//
// Errors are compared in f32 by weighedErrorRef; sums of the fit are f64, in the
// order of elements.
const refits = 4

// weighedErrorRef adds (((w−q)·norm)²)·f of the finite elements under each
// candidate to its lanes, element i to lane i mod 16, each product rounded. q is
// what an element decodes to up to near ties, see rangeErrorRef. The rule is one
// of integers.
func weighedErrorRef(r blockRule, w, f []float32, candidates []blockParams, norm float32, lanes [][16]float32) {
	for j := range candidates {
		p, sums := &candidates[j], &lanes[j]
		for i, x := range w {
			if math.Float32bits(x)&^signF32 < infF32 {
				e := float32(float32(x-r.nearly(x, p)) * norm)
				sums[i&15] += float32(float32(e*e) * f[i])
			}
		}
	}
}

// int4Weighted is the chooser of the method.
type int4Weighted struct {
	int4Chooser
	weighedError func(r blockRule, w, f []float32, candidates []blockParams, norm float32, lanes [][16]float32)

	// Of the group that is looked at.
	w, f    []float32
	r       blockRange
	norm    float32
	best    blockParams
	least   float32
	pending int // candidates in tried that are still to be evaluated
}

func (k *int4Weighted) chooseWeighted(w, f []float32, r blockRange, c *blockChoice) {
	k.fit(r.lo, r.hi, c)
	c.choice = stepRatioBin(1)
	if r.amax == 0 {
		return
	}
	k.w, k.f, k.r, k.norm = w, f, r, rangeNorm(r.amax)
	k.least, k.pending = float32(math.Inf(1)), 0
	rtn := c.step
	for i := range rangeFactors {
		factor := rangeFactor(i)
		k.try(k.params(float32(r.lo*factor), float32(r.hi*factor)))
	}
	k.evaluate()
	for range 2 {
		if k.symmetric || !k.moveEnds(20) {
			break
		}
	}
	k.refit()
	if k.moveEnds(80) {
		k.refit()
	}
	k.settle(k.best.step, k.best.offset, c)
	c.choice = stepRatioBin(float64(k.best.step) / float64(rtn))
}

// stepRatioBin is the bin of stepRatioLabels.
func stepRatioBin(ratio float64) int {
	return int(min(max(math.Round(ratio*20)-6, 0), MultBins-1))
}

// try makes a candidate of a scale and a minimum or zero point.
func (k *int4Weighted) try(step, offset float32) {
	if n := k.pending; n > 0 && k.tried[n-1].step == step && k.tried[n-1].offset == offset {
		return
	}
	k.tried[k.pending] = blockParams{step: step, offset: offset, inverse: min(1/step, math.MaxFloat32)}
	if k.pending++; k.pending == len(k.tried) {
		k.evaluate()
	}
}

// evaluate looks whether one of the candidates is better than the best so far,
// and says so.
func (k *int4Weighted) evaluate() (better bool) {
	for from := 0; from < k.pending; from += rangeBatch {
		candidates := k.tried[from:min(from+rangeBatch, k.pending)]
		lanes := k.lanes[:len(candidates)]
		clear(lanes)
		body := len(k.w) &^ 15
		if k.r.odd {
			body = 0
		}
		if body > 0 {
			k.weighedError(k.rule, k.w[:body], k.f[:body], candidates, k.norm, lanes)
		}
		weighedErrorRef(k.rule, k.w[body:], k.f[body:], candidates, k.norm, lanes)
		for i := range lanes {
			if e := addHalves(&lanes[i]); e < k.least {
				k.best, k.least, better = candidates[i], e, true
			}
		}
	}
	k.pending = 0
	return better
}

// refit fits scale and minimum to the codes of the best so far, as often as it
// helps.
func (k *int4Weighted) refit() {
	for range refits {
		if k.fitted(); k.pending == 0 || !k.evaluate() {
			return
		}
	}
}

// fitted makes candidates of the weighted least squares under the codes of the
// best so far; none where they do not settle a positive scale.
func (k *int4Weighted) fitted() {
	var sf, sv, svv, sw, swv float64
	for i, x := range k.w {
		if math.Float32bits(x)&^signF32 >= infF32 {
			continue
		}
		v, f, y := float64(k.steps(x)), float64(k.f[i]), float64(x)*float64(k.norm)
		sf += f
		sv += float64(f * v)
		svv += float64(f * v * v)
		sw += float64(f * y)
		swv += float64(f * v * y)
	}
	back := 1 / float64(k.norm)
	switch {
	case k.symmetric:
		if svv > 0 && swv > 0 {
			k.near(swv/svv*back, 0)
		}
	case k.rule == ruleIntMin:
		det := float64(sf*svv) - float64(sv*sv)
		if !(det > 0) {
			return
		}
		step := (float64(sf*swv) - float64(sv*sw)) / det
		if !(step > 0) {
			return
		}
		for _, m := range bf16Around((sw - float64(step*sv)) / sf * back) {
			// With the minimum as it is stored the scale is fitted once more.
			if s := (swv - float64(float64(m)/back*sv)) / svv; s > 0 {
				k.near(s*back, m)
			}
		}
	default:
		det := float64(sf*svv) - float64(sv*sv)
		if !(det > 0) {
			return
		}
		step := (float64(sf*swv) - float64(sv*sw)) / det
		if !(step > 0) {
			return
		}
		zero := -(sw - float64(step*sv)) / sf / step
		for _, z := range []float64{math.Floor(zero), math.Ceil(zero)} {
			z = min(max(z, -8), 7)
			square := svv - float64(2*z*sv) + float64(z*z*sf)
			if s := (swv - float64(z*sw)) / square; s > 0 && square > 0 {
				k.near(s*back, float32(z))
			}
		}
	}
}

// steps is the number of steps that an element is coded as under the best so far:
// from the minimum, or without the zero point's part.
func (k *int4Weighted) steps(x float32) float32 {
	p := &k.best
	switch k.rule {
	case ruleIntMin:
		return roundClamp(float32(float32(x-p.offset)*p.inverse), 0, 15)
	case ruleIntSym:
		return roundClamp(float32(x*p.inverse), -8, 7)
	case ruleIntZero:
		return roundClamp(float32(x*p.inverse)+p.offset, -8, 7)
	default:
		return roundClamp(roundBF16(roundBF16(float32(x*p.inverse))+p.offset), -8, 7)
	}
}

// near makes candidates of the scales that can be stored on either side of one.
func (k *int4Weighted) near(step float64, offset float32) {
	if k.conv == CT32 {
		k.stored(float32(step), offset)
		return
	}
	for _, s := range bf16Around(step) {
		k.stored(s, offset)
	}
}

// stored makes a candidate of a scale, unless that is none, or codes would
// decode to infinity.
func (k *int4Weighted) stored(step, offset float32) {
	if step > 0 && step <= largestSafe && offset >= -largestSafe && offset <= largestSafe {
		k.try(step, offset)
	}
}

// bf16Around are the bf16 numbers on either side of x, twice the same where x is
// one; what is beyond the largest becomes that.
func bf16Around(x float64) [2]float32 {
	near := boundedBF16(float32(min(max(x, -math.MaxFloat32), math.MaxFloat32)))
	other := near
	switch bits := math.Float32bits(near); {
	case float64(near) == x:
	case near == 0:
		other = math.Float32frombits(1 << 16)
		if x < 0 {
			other = -other
		}
	case (float64(near) < x) == (near > 0):
		other = math.Float32frombits(bits + 1<<16)
	default:
		other = math.Float32frombits(bits - 1<<16)
	}
	return [2]float32{near, boundedBF16(other)}
}

// endMoves are how far ends are moved, in parts of the range.
var endMoves = [...]float32{-3, -2, -1, 1, 2, 3}

// moveEnds moves each end of the best range by itself, by up to three of parts of
// the range in or out, the lower one first.
func (k *int4Weighted) moveEnds(parts float32) (better bool) {
	lo, hi := k.ends()
	if !(max(hi, -lo) <= largestSafe) {
		return false
	}
	by := float32((hi - lo) / parts)
	for _, i := range endMoves {
		k.stored(k.params(lo+float32(i*by), hi))
	}
	better = k.evaluate()
	lo, hi = k.ends()
	for _, i := range endMoves {
		k.stored(k.params(lo, hi+float32(i*by)))
	}
	return k.evaluate() || better
}

// ends are the smallest and the largest value of the best so far.
func (k *int4Weighted) ends() (lo, hi float32) {
	switch p := &k.best; {
	case k.rule == ruleIntMin:
		return p.offset, p.offset + 15*p.step
	case k.symmetric:
		return -7.5 * p.step, 7.5 * p.step
	default:
		return (-8 - p.offset) * p.step, (7 - p.offset) * p.step
	}
}
