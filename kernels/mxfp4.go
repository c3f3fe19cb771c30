package kernels

import (
	"math"
	"slices"
)

// mxfp4Conventions are whose arithmetic MXFP4 can follow, the default first; two bits
// under its scales have the same, whichever is entered first.
var mxfp4Conventions = []Convention{CT32, CT, ModelOpt}

func init() {
	quantizers["mxfp4"] = quantizer{
		conventions: mxfp4Conventions,
		methods:     []string{"rtn"},
		weighted:    []string{imatrix},
		labels: func(method string) []string {
			if method == imatrix {
				return slices.Clone(exponentLabels)
			}
			return []string{"1.0"}
		},
		stored: func(Format, Convention) (int, int) { return 1, 0 },
		begin: func(s Set, f Format, spec Spec, e Element, _, cols int, _ float32, importance []float32) (passImpl, error) {
			rule := ruleE2M1
			if spec.Convention == ModelOpt {
				rule = ruleE2M1Down
			}
			chooser := mxfp4Chooser(spec.Convention)
			if spec.Method == imatrix {
				return s.beginWeightedBlocks(f, e, cols, rule, mxfp4Weighted{chooser}, 1, 0, importance), nil
			}
			return s.beginBlocks(f, e, cols, rule, chooser, 1, 0), nil
		},
		multiple: 1,
	}
}

// mxfp4Chooser gives a block of 32 its power of two by the rule of a
// convention:
//
//	CT, CT32  ⌊log2(amax)⌋ − 2, where amax is first rounded up to the next power
//	          of two if its mantissa is 1.75 or more; up to 6.999 scales are clipped to 6
//	ModelOpt  ⌈log2(amax/6)⌉: nothing is clipped
//
// The exponent is clamped to −127…125: 2⁻¹²⁷ is E8M0's least, which an all-zero
// block has too, and a block of 2¹²⁶ could decode to infinity, as it does in
// the libraries. nvidia-modelopt takes an f32 logarithm, which puts an amax that
// is above 6·2^k by less than its rounding at k; here it is k+1. No bf16 number
// is that close.
type mxfp4Chooser Convention

const (
	biasE8M0    = 127
	maxCodeMXF4 = biasE8M0 + 125
)

func (conv mxfp4Chooser) choose(_ []float32, r blockRange, c *blockChoice) {
	var code int
	if Convention(conv) == ModelOpt {
		// 6 is 1.5·2², and so is 6·2^k with another exponent.
		code = int(r.amax>>23) - 2
		if r.amax&(1<<23-1) > 1<<22 {
			code++
		}
	} else {
		code = int((r.amax+1<<21)>>23) - 2
	}
	*c = blockChoice{low: code < 0, high: code > maxCodeMXF4}
	c.take(byte(min(max(code, 0), maxCodeMXF4)))
}

// take is the choice of a power of two.
func (c *blockChoice) take(code byte) {
	c.stored, c.scale = uint32(code), E8M0ToF32(code)
	c.step = c.scale
	c.inverse = E8M0ToF32(byte(2*biasE8M0 - int(code)))
	c.bins = min((ErrorBins-1)*c.inverse, math.MaxFloat32)
	c.reach = MaxE2M1 * float64(c.step)
}
