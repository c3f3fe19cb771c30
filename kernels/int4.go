package kernels

import (
	"math"
	"slices"
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
			weighted:    []string{imatrix},
			labels:      int4Labels,
			stored:      int4Stored,
			begin:       beginInt4,
			multiple:    1,
		}
	}
}

// int4Labels are the bins of Tap.Multipliers.
func int4Labels(method string) []string {
	switch method {
	case "range":
		return RangeLabels()
	case imatrix:
		return slices.Clone(stepRatioLabels)
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

func beginInt4(s Set, f Format, spec Spec, e Element, _, cols int, _ float32, importance []float32) (passImpl, error) {
	chooser := &int4Chooser{conv: spec.Convention, symmetric: f.MinBits == 0, search: spec.Method == "range", rangeError: s.blocks.rangeError}
	chooser.rule = int4Rule(chooser.conv, chooser.symmetric)
	scale, beside := int4Stored(f, spec.Convention)
	if spec.Method == imatrix {
		weighted := &int4Weighted{int4Chooser: *chooser, weighedError: s.blocks.weighedError}
		return s.beginWeightedBlocks(f, e, cols, chooser.rule, weighted, scale, beside, importance), nil
	}
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
	rangeError func(r blockRule, w []float32, candidates []blockParams, norm float32, lanes [][16]float32)

	// Of a search: candidates, the factors that gave them, their errors.
	tried   [rangeFactors]blockParams
	factors [rangeFactors]int
	errors  [rangeFactors]float32
	lanes   [rangeBatch][16]float32
}

func (k *int4Chooser) choose(w []float32, r blockRange, c *blockChoice) {
	if k.search && r.amax != 0 {
		k.chooseRange(w, r, c)
		return
	}
	k.fit(r.lo, r.hi, c)
}

// fit is the choice for elements from lo to hi.
func (k *int4Chooser) fit(lo, hi float32, c *blockChoice) {
	step, offset := k.params(lo, hi)
	k.settle(step, offset, c)
	raw := k.wish(lo, hi, offset)
	c.low, c.high = raw != 0 && k.round(raw) == 0, k.round(raw) > step
}

// settle is the choice of a scale and a minimum or zero point as they are stored;
// what it says of clamped scales stays as it is.
func (k *int4Chooser) settle(step, offset float32, c *blockChoice) {
	*c = blockChoice{low: c.low, high: c.high, blockParams: blockParams{step: step, offset: offset}, scale: step, stored: math.Float32bits(step)}
	if k.conv != CT32 {
		c.stored >>= 16
	}
	c.inverse = min(1/step, math.MaxFloat32)
	c.bins = float32(min((ErrorBins-1)*c.inverse, math.MaxFloat32))
	c.subnormal = step < smallestNormal
	c.reach = 8 * float64(step)
	switch {
	case k.rule == ruleIntMin:
		c.beside = F32ToBF16(offset)
		c.mid = float64(offset) + 7.5*float64(step)
	default:
		c.beside = uint16(uint8(int8(offset)))
		c.mid = (-0.5 - float64(offset)) * float64(step)
	}
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

// params are the scale and the minimum or zero point for elements from lo to
// hi.
func (k *int4Chooser) params(lo, hi float32) (step, offset float32) {
	switch {
	case k.rule == ruleIntMin:
		offset = boundedBF16(lo)
		step = k.round(k.wish(lo, hi, offset))
	case k.symmetric:
		step = k.round(k.wish(lo, hi, 0))
	default:
		step = k.round(k.wish(lo, hi, 0))
		if step != 0 {
			q := k.round(min(lo, 0)) / step
			if k.conv == CT {
				q = k.round(q)
			}
			offset = roundClamp(k.round(-8-q), -8, 7)
		}
	}
	if step == 0 {
		step = zeroScale(k.conv)
	}
	if step > largestSafe || offset > largestSafe || offset < -largestSafe {
		step = k.bounded(step, offset)
	}
	return step, offset
}

// largestSafe bounds scales and minima under which nothing can decode to
// infinity.
const largestSafe = 0x1p120

// wish is the scale before it is rounded.
func (k *int4Chooser) wish(lo, hi, offset float32) float32 {
	switch {
	case k.rule == ruleIntMin:
		return max(fifteenth(offset, hi), 0)
	case k.rule == ruleIntSym:
		return max(-lo, hi) / 7.5
	case k.symmetric:
		return k.round(max(-lo, hi)) / 7.5
	}
	lo, hi = k.round(min(lo, 0)), k.round(max(hi, 0))
	if d := hi - lo; k.conv == CT && d <= math.MaxFloat32 {
		return k.round(d) / 15
	}
	return fifteenth(lo, hi)
}

// fifteenth is (hi−lo)/15, where hi−lo may be beyond f32.
func fifteenth(lo, hi float32) float32 {
	if d := hi - lo; d <= math.MaxFloat32 {
		return d / 15
	}
	return hi/15 - lo/15
}

// bounded is the scale, or the largest one under which no code decodes to
// infinity.
func (k *int4Chooser) bounded(step, offset float32) float32 {
	var decodes func(step float32) float32 // the code that is farthest from 0
	var room float64
	if k.rule == ruleIntMin {
		decodes = func(step float32) float32 { return minValue(15, step, offset) }
		room = (math.MaxFloat32 - float64(offset)) / 15
	} else {
		v := max(7-offset, offset+8)
		decodes = func(step float32) float32 { return k.rule.value(v, step) }
		room = math.MaxFloat32 / float64(v)
	}
	return largestFinite(step, room, k.conv != CT32, decodes)
}

// largestFinite is the scale, or the largest one that decodes to a finite value,
// which is at most little above room.
func largestFinite(step float32, room float64, isBF16 bool, decodes func(step float32) float32) float32 {
	if math.Float32bits(decodes(step))&^signF32 < infF32 {
		return step
	}
	step = min(step, float32(room))
	if isBF16 {
		step = roundBF16(step)
	}
	for math.Float32bits(decodes(step))&^signF32 >= infF32 {
		if isBF16 {
			step = BF16ToF32(F32ToBF16(step) - 1)
		} else {
			step = math.Nextafter32(step, 0)
		}
	}
	return step
}
