package kernels

import (
	"fmt"
	"math"
)

func init() {
	for name, q := range map[string]quantizer{
		"fp8":          {conventions: []Convention{ModelOpt, CT32, CT}, needsAmax: true, multiple: 1},
		"fp8-channel":  {conventions: []Convention{ModelOpt, CT32, CT}, multiple: 1},
		"fp8-block128": {conventions: []Convention{DeepSeek, ModelOpt, CT32, CT}, multiple: 128},
	} {
		q.methods = []string{"rtn"}
		q.stored = func(_ Format, c Convention) (int, int) {
			if c == CT {
				return 2, 0
			}
			return 4, 0
		}
		q.begin = beginFP8
		quantizers[name] = q
	}
}

// beginFP8 begins a pass. The scale of a whole tensor is both Pass.Global and
// the one entry of Output.Scales, which goes with the first chunk.
func beginFP8(s Set, f Format, spec Spec, e Element, _, cols int, amax float32, _ []float32) (passImpl, error) {
	conv := fp8Chooser(spec.Convention)
	size, _ := quantizers[f.Name].stored(f, spec.Convention)
	p := s.beginBlocks(f, e, cols, conv.rule(), conv, size, 0)
	if f.Scope != ScopeTensor {
		return p, nil
	}
	if spec.Global == 0 {
		conv.choose(nil, blockRange{amax: math.Float32bits(amax)}, &p.tensor)
		return p, nil
	}
	scale := spec.Global
	if conv == fp8Chooser(CT) && scale != roundBF16(scale) {
		return nil, fmt.Errorf("tensor scale %v is no bf16, which %v stores: %w", scale, spec.Convention, ErrRange)
	}
	if !(scale > 0) || scale != conv.bounded(scale) {
		return nil, fmt.Errorf("tensor scale %v is not positive or decodes to infinity: %w", scale, ErrRange)
	}
	p.tensor = conv.with(scale)
	return p, nil
}

// fp8Chooser gives a block the scale that puts its largest magnitude at 448, by
// the rule of a convention:
//
//	ModelOpt  amax/448 in f32; 1 for zeros
//	CT32      amax/448 in f32; 2⁻²³ for zeros
//	CT        amax/448 in bf16, as every quotient by the scale; 2⁻⁷ for zeros
//	DeepSeek  elements are multiplied by 448/amax, and 1/(448/amax) is stored; 1 for zeros
//
// A scale that would make 448 decode to infinity is lowered by a place.
type fp8Chooser Convention

func (conv fp8Chooser) rule() blockRule {
	switch Convention(conv) {
	case CT:
		return ruleE4M3BF16
	case DeepSeek:
		return ruleE4M3Times
	}
	return ruleE4M3
}

func (conv fp8Chooser) choose(_ []float32, r blockRange, c *blockChoice) {
	amax := math.Float32frombits(r.amax)
	if Convention(conv) == DeepSeek {
		*c = chooseDeepSeek(amax)
		return
	}
	scale := amax / MaxE4M3
	if Convention(conv) == CT {
		scale = roundBF16(boundedBF16(amax) / MaxE4M3)
	}
	low := scale == 0
	if low {
		scale = zeroScale(Convention(conv))
	}
	bounded := conv.bounded(scale)
	*c = conv.with(bounded)
	c.low, c.high = low, bounded != scale
}

// zeroScale is the scale of a block that asks for 0: what the library writes.
func zeroScale(conv Convention) float32 {
	switch conv {
	case CT32:
		return epsF32
	case CT:
		return epsBF16
	}
	return 1
}

// What torch calls eps.
const (
	epsF32  = 0x1p-23
	epsBF16 = 0x1p-7
)

// bounded is the scale, or the largest one under which 448 decodes to a finite
// value.
func (conv fp8Chooser) bounded(scale float32) float32 {
	return largestFinite(scale, math.MaxFloat32/MaxE4M3, conv == fp8Chooser(CT), func(s float32) float32 { return conv.rule().value(MaxE4M3, s) })
}

// with is the choice of a scale.
func (conv fp8Chooser) with(scale float32) blockChoice {
	c := fp8Choice(scale)
	if conv == fp8Chooser(CT) {
		c.stored = uint32(F32ToBF16(scale))
	}
	return c
}

func fp8Choice(scale float32) blockChoice {
	c := blockChoice{scale: scale, stored: math.Float32bits(scale), subnormal: scale < smallestNormal}
	c.step = scale
	c.bins = float32(min((ErrorBins-1)/(widestE4M3*float64(scale)), math.MaxFloat32))
	c.reach = MaxE4M3 * float64(scale)
	return c
}

const (
	smallestNormal = 0x1p-126 // of f32 and bf16
	widestE4M3     = 32       // the largest distance between neighbours
)

func chooseDeepSeek(amax float32) blockChoice {
	if amax == 0 {
		c := fp8Choice(1)
		c.inverse = 1
		return c
	}
	times := float32(MaxE4M3) / amax
	low := times > math.MaxFloat32
	times = min(times, math.MaxFloat32)
	scale := 1 / times
	bounded := fp8Chooser(DeepSeek).bounded(scale)
	c := fp8Choice(bounded)
	c.inverse, c.low, c.high = times, low, bounded != scale
	return c
}
