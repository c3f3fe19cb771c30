package kernels

import (
	"math"
	"strconv"
)

// The method range tries to make the range of a group smaller: both ends, or
// the largest magnitude of a symmetric one, are multiplied by 33 factors from
// 1.0 to 0.6 in steps of 1/80, as f32, so that they move towards 0. The factor
// with the least Σ|w−q|^2.4 is taken, the first one of equals; those that give
// the same rounded scale and minimum or zero point are one.
//
// That sum is in f32, in this order, so that another implementation can give
// the same bits. Codes are those of the rule, but with products by 1/step in
// place of quotients, which differ only next to ties, where either code is as
// good. norm is a power of two that brings the group's largest magnitude to 1…2:
//
//	e = (w−q)·norm, y = e²
//	term = rangePower[exponent of y]·(((c0·m + c1)·m + c2)·m + c3), m the mantissa of y in 1…2
//
// Elements go to lane i mod 16 in their order, and lanes are added by halves,
// i and i+8, then i and i+4, and so on. The polynomial is m^1.2 to 2.6e-5;
// errors below 2⁻¹² of the largest magnitude count as 0.
const (
	rangeFactors = 33
	rangeC0      = -0.01663830131292343
	rangeC1      = 0.16280370950698853
	rangeC2      = 0.925420343875885
	rangeC3      = -0.0716114491224289
)

// rangePower holds 2^(1.2·k) for the exponents k of y, −24…6, at k+25, and 0
// for what is below.
var rangePower = func() (t [32]float32) {
	for i := 1; i < len(t); i++ {
		t[i] = float32(math.Exp2(1.2 * float64(i-25)))
	}
	return t
}()

// rangeTerm is the term of an error e = (w−q)·norm.
func rangeTerm(e float32) float32 {
	b := math.Float32bits(float32(e * e))
	m := math.Float32frombits(b&(1<<23-1) | 127<<23)
	p := float32(rangeC0*m) + rangeC1
	p = float32(p*m) + rangeC2
	p = float32(p*m) + rangeC3
	return float32(rangePower[min(max(int32(b>>23)-(127-25), 0), 31)] * p)
}

// nearly is what an element decodes to, up to near ties.
func (r blockRule) nearly(w float32, p *blockParams) float32 {
	switch r {
	case ruleIntMin:
		return minValue(roundClamp(float32(float32(w-p.offset)*p.inverse), 0, 15), p.step, p.offset)
	case ruleIntSym:
		return r.value(roundClamp(float32(w*p.inverse), -8, 7), p.step)
	case ruleIntZero:
		return r.value(roundClamp(float32(w*p.inverse)+p.offset, -8, 7)-p.offset, p.step)
	default:
		return r.value(roundClamp(roundBF16(roundBF16(float32(w*p.inverse))+p.offset), -8, 7)-p.offset, p.step)
	}
}

// rangeErrorRef adds the terms of the finite elements under each candidate to
// its lanes. The rule is one of integers.
func rangeErrorRef(r blockRule, w []float32, candidates []blockParams, norm float32, lanes [][16]float32) {
	for j := range candidates {
		p, sums := &candidates[j], &lanes[j]
		for i, x := range w {
			if math.Float32bits(x)&^signF32 < infF32 {
				sums[i&15] += rangeTerm(float32(float32(x-r.nearly(x, p)) * norm))
			}
		}
	}
}

// rangeFactor is the i-th factor.
func rangeFactor(i int) float32 { return float32(80-i) / 80 }

// rangeBin is the bin of Tap.Multipliers: 0 is the whole range, the others hold
// two factors each, the last one four.
func rangeBin(i int) int { return min((i+1)/2, MultBins-1) }

// RangeLabels name the bins of Tap.Multipliers under the method range, by the
// smallest factor in them.
func RangeLabels() []string {
	labels := make([]string, MultBins)
	for i := range rangeFactors {
		labels[rangeBin(i)] = strconv.FormatFloat(float64(80-i)/80, 'f', -1, 64)
	}
	labels[0] = "1.0"
	return labels
}

// rangeNorm is the power of two that brings amax, f32 bits, to 1…2, or as near
// as a normal number does.
func rangeNorm(amax uint32) float32 {
	return math.Float32frombits(min(max(2*127-amax>>23, 1), 2*127) << 23)
}

// chooseRange tries the factors. Candidates are compared by what they store:
// scales never grow, so that equal ones follow each other. It ends where the
// clipping of an end alone is worse than the best so far.
func (k *int4Chooser) chooseRange(w []float32, r blockRange, c *blockChoice) {
	norm := rangeNorm(r.amax)
	ends := k.newRangeEnds(r)
	n, done, best := 0, 0, 0
	least := float32(math.Inf(1))
	evaluate := func() {
		k.errorsOf(w, r, done, n, norm)
		for ; done < n; done++ {
			if e := k.errors[done]; e < least {
				least, best = e, k.factors[done]
			}
		}
	}
	for i := range rangeFactors {
		f := rangeFactor(i)
		if rangeTerm(float32(ends.gap(f)*norm)) > least*rangeMargin {
			break
		}
		p := &k.tried[n]
		p.step, p.offset = k.params(float32(r.lo*f), float32(r.hi*f))
		known := false
		for j := n - 1; j >= 0 && !known && k.tried[j].step == p.step; j-- {
			known = k.tried[j].offset == p.offset
		}
		if known {
			continue
		}
		p.inverse = min(1/p.step, math.MaxFloat32)
		k.factors[n] = i
		if n++; n-done == rangeBatch {
			evaluate()
		}
	}
	evaluate()
	k.fit(float32(r.lo*rangeFactor(best)), float32(r.hi*rangeFactor(best)), c)
	c.choice = rangeBin(best)
}

// rangeBatch is how many candidates are evaluated at a time: one after the
// other would wait for each to be compared, all together would try many that
// clip too much.
const rangeBatch = 4

// errorsOf evaluates the candidates from…to. The kernel takes what is a multiple
// of 16, which changes no lane.
func (k *int4Chooser) errorsOf(w []float32, r blockRange, from, to int, norm float32) {
	if from == to {
		return
	}
	lanes := k.lanes[:to-from]
	clear(lanes)
	body := len(w) &^ 15
	if r.odd {
		body = 0
	}
	if body > 0 {
		k.rangeError(k.rule, w[:body], k.tried[from:to], norm, lanes)
	}
	rangeErrorRef(k.rule, w[body:], k.tried[from:to], norm, lanes)
	for i := range lanes {
		k.errors[from+i] = addHalves(&lanes[i])
	}
}

// addHalves adds sixteen lanes by halves.
func addHalves(l *[16]float32) float32 {
	a, b := (l[0]+l[8])+(l[4]+l[12]), (l[2]+l[10])+(l[6]+l[14])
	c, d := (l[1]+l[9])+(l[5]+l[13]), (l[3]+l[11])+(l[7]+l[15])
	return (a + b) + (c + d)
}

// rangeEnds bounds from below how far the ends are from what codes reach when
// the range is made smaller.
type rangeEnds struct {
	lo, hi   float32 // magnitudes of the ends
	down, up float32 // what codes reach at the factor 1, at most
	slack    float32
}

// rangeMargin is for the polynomial's own error.
const rangeMargin = 1.001

// newRangeEnds: under ruleIntMin codes reach from lo to hi. Symmetric ones reach
// 16/15 of the larger magnitude down and 14/15 up. A zero point that was rounded
// moves both ends by up to half a step, 1/30 of the range. The roundings of the
// scale, of the minimum and of what is decoded, each within 2⁻⁹ of at most twice
// the largest magnitude, are within 2⁻⁶ of it together.
func (k *int4Chooser) newRangeEnds(r blockRange) rangeEnds {
	amax := math.Float32frombits(r.amax)
	e := rangeEnds{lo: -r.lo, hi: r.hi, slack: amax / 64}
	switch {
	case k.rule == ruleIntMin:
		e.down, e.up = e.lo, e.hi
	case k.symmetric:
		e.down, e.up = amax*(16.0/15), amax*(14.0/15)
	default:
		half := max(e.lo, 0)/30 + max(e.hi, 0)/30
		e.down, e.up = max(e.lo, 0)+half, max(e.hi, 0)+half
	}
	return e
}

// gap is how far the farther end is beyond what codes reach at a factor, at
// least; it never shrinks with the factor where it is not 0.
func (e *rangeEnds) gap(f float32) float32 {
	return max(e.lo-max(float32(f*e.down), 0), e.hi-max(float32(f*e.up), 0), e.slack) - e.slack
}
