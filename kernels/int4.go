package kernels

import (
	"math"
	"strings"
)

func init() {
	for _, f := range formats {
		if !strings.HasPrefix(f.Name, "int4-") {
			continue
		}
		quantizers[f.Name] = quantizer{
			conventions: []Convention{Own, CT32, CT},
			methods:     []string{"rtn", "range"},
			labels:      int4Labels,
			stored:      int4Stored,
			begin:       beginInt4,
			multiple:    1,
		}
	}
}

// int4Labels are the bins of Tap.Multipliers.
func int4Labels(method string) []string {
	if method == "range" {
		return RangeLabels()
	}
	return []string{"1.0"}
}

// int4Stored is the size of a scale and of what stands beside it: a bf16
// minimum under Own, else a zero point of one signed byte.
func int4Stored(f Format, c Convention) (scale, beside int) {
	scale = 2
	if c == CT32 {
		scale = 4
	}
	switch {
	case f.MinBits == 0:
		return scale, 0
	case c == Own:
		return scale, 2
	}
	return scale, 1
}

func beginInt4(s Set, f Format, spec Spec, e Element, _, cols int, _ float32) (passImpl, error) {
	chooser := &int4Chooser{conv: spec.Convention, symmetric: f.MinBits == 0, search: spec.Method == "range", rangeError: s.blocks.rangeError}
	chooser.rule = int4Rule(chooser.conv, chooser.symmetric)
	scale, beside := int4Stored(f, spec.Convention)
	return s.beginBlocks(f, e, cols, chooser.rule, chooser, scale, beside), nil
}

func int4Rule(conv Convention, symmetric bool) blockRule {
	switch {
	case conv == CT:
		return ruleIntZeroBF16
	case conv == CT32:
		return ruleIntZero
	case symmetric:
		return ruleIntSym
	}
	return ruleIntMin
}

// int4Chooser gives a group its scale and its minimum or zero point.
//
//	Own         minimum = bf16(lo), scale = bf16((hi−minimum)/15); both are rounded before codes are chosen
//	Own, sym    scale = bf16(max(|lo|, |hi|)/7.5)
//	CT32        scale = (hi−lo)/15 with 0 between the two, zero point = −8 − lo/scale rounded and clamped to −8…7
//	CT32, sym   scale = max(|lo|, |hi|)/7.5
//	CT          the same with every result rounded to bf16
//
// A scale of 0 becomes 1 (Own), 2⁻²³ (CT32) or 2⁻⁷ (CT) with a zero point of 0,
// as compressed-tensors has it for zeros; one under which a code decodes to
// infinity is lowered.
type int4Chooser struct {
	conv       Convention
	rule       blockRule
	symmetric  bool
	search     bool
	rangeError func(r blockRule, w []float32, p *blockParams, norm float32, lanes *[16]float32)
}

func (k *int4Chooser) choose(w []float32, r blockRange) blockChoice {
	if k.search && r.amax != 0 {
		return k.chooseRange(w, r)
	}
	return k.fit(r.lo, r.hi)
}

// fit is the choice for elements from lo to hi.
func (k *int4Chooser) fit(lo, hi float32) blockChoice {
	switch {
	case k.symmetric:
		return k.fitSymmetric(max(-lo, hi))
	case k.conv == Own:
		return k.fitMinimum(lo, hi)
	}
	return k.fitZero(min(lo, 0), max(hi, 0))
}

// round rounds to the type that the convention computes in. What is finite
// stays so.
func (k *int4Chooser) round(x float32) float32 {
	if k.conv == CT32 {
		return x
	}
	return boundedBF16(x)
}

// boundedBF16 is x rounded to bf16, or the largest one in its place.
func boundedBF16(x float32) float32 {
	const largest = 0x1.fep127
	return min(max(roundBF16(x), -largest), largest)
}

func (k *int4Chooser) fitSymmetric(amax float32) blockChoice {
	scale := k.round(k.round(amax) / 7.5)
	if k.conv == Own {
		scale = k.round(amax / 7.5)
	}
	c := blockChoice{low: scale == 0 && amax != 0}
	c.set(k, scale, func(s float32) float32 { return k.rule.value(8, s) })
	c.mid = -0.5 * float64(c.scale)
	return c
}

func (k *int4Chooser) fitMinimum(lo, hi float32) blockChoice {
	offset := boundedBF16(lo)
	span := max(fifteenth(offset, hi), 0)
	c := blockChoice{beside: F32ToBF16(offset)}
	c.offset = offset
	scale := boundedBF16(span)
	c.low = scale == 0 && span != 0
	c.set(k, scale, func(s float32) float32 { return minValue(15, s, offset) })
	c.mid = float64(offset) + 7.5*float64(c.scale)
	return c
}

// fifteenth is (hi−lo)/15, where hi−lo may be beyond f32.
func fifteenth(lo, hi float32) float32 {
	if d := hi - lo; d <= math.MaxFloat32 {
		return d / 15
	}
	return hi/15 - lo/15
}

func (k *int4Chooser) fitZero(lo, hi float32) blockChoice {
	lo, hi = k.round(lo), k.round(hi)
	scale := k.round(fifteenth(lo, hi))
	if k.conv == CT && hi-lo <= math.MaxFloat32 {
		scale = k.round(k.round(hi-lo) / 15)
	}
	zero := float32(0)
	if scale != 0 {
		q := lo / scale
		if k.conv == CT {
			q = k.round(q)
		}
		zero = roundClamp(k.round(-8-q), -8, 7)
	}
	c := blockChoice{low: scale == 0 && lo != hi, beside: uint16(uint8(int8(zero)))}
	c.offset = zero
	c.set(k, scale, func(s float32) float32 { return k.rule.value(max(7-zero, zero+8), s) })
	c.mid = (-0.5 - float64(zero)) * float64(c.scale)
	return c
}

// set completes the choice of a scale; farthest is what the code with the
// largest magnitude decodes to.
func (c *blockChoice) set(k *int4Chooser, scale float32, farthest func(scale float32) float32) {
	if scale == 0 {
		scale = zeroScale(k.conv)
	}
	c.scale = scale
	for math.Float32bits(farthest(c.scale))&^signF32 >= infF32 {
		c.high = true
		if k.conv == CT32 {
			c.scale = math.Nextafter32(c.scale, 0)
		} else {
			c.scale = BF16ToF32(F32ToBF16(c.scale) - 1)
		}
	}
	c.stored = math.Float32bits(c.scale)
	if k.conv != CT32 {
		c.stored >>= 16
	}
	c.step = c.scale
	c.bins = float32(min((ErrorBins-1)/float64(c.scale), math.MaxFloat32))
	c.subnormal = c.scale < smallestNormal
	c.reach = 8 * float64(c.scale)
}
