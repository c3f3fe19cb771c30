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
// the same bits. norm is a power of two that brings the group's largest
// magnitude to 1…2:
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

// rangePower holds 2^(1.2·k) for the exponents k of y, −24…7, and 0 for −25,
// which stands for all below.
var rangePower = func() (t [64]float32) {
	for i := range t[:33] {
		t[i] = float32(math.Exp2(1.2 * float64(i-25)))
	}
	t[0] = 0
	return t
}()

// rangeTerm is the term of an error e = (w−q)·norm.
func rangeTerm(e float32) float32 {
	b := math.Float32bits(float32(e * e))
	m := math.Float32frombits(b&(1<<23-1) | 127<<23)
	p := float32(rangeC0*m) + rangeC1
	p = float32(p*m) + rangeC2
	p = float32(p*m) + rangeC3
	return float32(rangePower[min(max(int32(b>>23)-(127-25), 0), 32)] * p)
}

// rangeErrorRef adds the terms of the finite elements to the lanes.
func rangeErrorRef(r blockRule, w []float32, p *blockParams, norm float32, lanes *[16]float32) {
	for i, x := range w {
		if math.Float32bits(x)&^signF32 >= infF32 {
			continue
		}
		_, q := r.code(x, p)
		lanes[i&15] += rangeTerm(float32(float32(x-q) * norm))
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

func (k *int4Chooser) chooseRange(w []float32, r blockRange) blockChoice {
	best := k.fit(r.lo, r.hi)
	norm := rangeNorm(r.amax)
	least := k.errorOf(w, r, &best, norm)
	type params struct {
		stored uint32
		beside uint16
	}
	var tried [rangeFactors]params
	tried[0] = params{best.stored, best.beside}
	n := 1
	for i := 1; i < rangeFactors; i++ {
		f := rangeFactor(i)
		c := k.fit(float32(r.lo*f), float32(r.hi*f))
		key, known := params{c.stored, c.beside}, false
		for j := n - 1; j >= 0 && !known; j-- {
			known = tried[j] == key
		}
		if known {
			continue
		}
		tried[n] = key
		n++
		if k.endsError(r, &c, norm) >= least {
			continue
		}
		if e := k.errorOf(w, r, &c, norm); e < least {
			best, least = c, e
			best.choice = rangeBin(i)
		}
	}
	return best
}

// errorOf is the error of a choice. The kernel takes what is a multiple of 16,
// which changes no lane.
func (k *int4Chooser) errorOf(w []float32, r blockRange, c *blockChoice, norm float32) float32 {
	var lanes [16]float32
	body := len(w) &^ 15
	if r.odd {
		body = 0
	}
	if body > 0 {
		k.rangeError(k.rule, w[:body], &c.blockParams, norm, &lanes)
	}
	rangeErrorRef(k.rule, w[body:], &c.blockParams, norm, &lanes)
	for n := 8; n > 0; n /= 2 {
		for i := range n {
			lanes[i] += lanes[i+n]
		}
	}
	return lanes[0]
}

// endsError is a lower bound of errorOf: the larger term of the two ends. It is
// one of the terms bit for bit, and sums of terms that are not negative never
// shrink, rounded or not.
func (k *int4Chooser) endsError(r blockRange, c *blockChoice, norm float32) float32 {
	_, low := k.rule.code(r.lo, &c.blockParams)
	_, high := k.rule.code(r.hi, &c.blockParams)
	return max(rangeTerm(float32(float32(r.lo-low)*norm)), rangeTerm(float32(float32(r.hi-high)*norm)))
}
