package kernels

import (
	"fmt"
	"math"
	"sync"
)

// nvfp4Search says how a block's scale is chosen: from a list of multiples of
// the block's amax, from all scales, or, with neither, by round to nearest.
type nvfp4Search struct {
	multipliers []float32
	first       int // index of the multiplier that is tried first, against which the others must win
	sweep       bool
	top         float32 // block scales are normalized so that the largest is this
}

// Multiples of amax that the methods try: the f32 nearest to each decimal.
var (
	mseMultipliers    = []float32{0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5}
	mseGE1Multipliers = mseMultipliers[3:]
	fourSixMultiples  = []float32{1.0, 1.5} // amax goes to 6, or 1.5·amax does, which puts amax at 4
)

func (m NVFP4Method) search() (nvfp4Search, bool) {
	switch m {
	case NVFP4RTN:
		return nvfp4Search{top: MaxE4M3}, true
	case NVFP4MSE:
		return nvfp4Search{multipliers: mseMultipliers, first: 3, top: MaxE4M3}, true
	case NVFP4MSEGE1:
		return nvfp4Search{multipliers: mseGE1Multipliers, top: MaxE4M3}, true
	case NVFP4Sweep:
		return nvfp4Search{sweep: true, top: MaxE4M3}, true
	case NVFP4FourOverSix:
		// 256 and not 448, so that 1.5 times the largest scale, 384, is still
		// an E4M3 value (arXiv 2512.02010).
		return nvfp4Search{multipliers: fourSixMultiples, top: 256}, true
	}
	return nvfp4Search{}, false
}

// nvfp4Job is one quantization of one matrix: what every block needs to know,
// and what was measured so far.
type nvfp4Job struct {
	element Element
	conv    Convention
	search  nvfp4Search

	global  float32 // as stored: weight_scale_2, or its reciprocal under CT and CT32
	allZero bool    // nothing in the matrix says what its global scale should be
	divisor float32 // ModelOpt: 6·weight_scale_2; ModelOptStatic: amax/6

	steps       [128]float32 // by E4M3 code: the block's step, what a code of 1.0 stands for
	reciprocals [128]float32 // of steps, for kernels in assembly, which want them behind the steps

	unit   float32 // what searches multiply elements by: 1/weight_scale_2
	divide bool    // searches divide by the step: it or its reciprocal is no normal f32 with room to spare, and unit is 1

	weights *nvfp4Weights // of imatrix: its search is a sweep
	book    *codebook     // of code2
	bias    *biasSums     // of records of code2
	reach   float64       // what codes reach, in steps

	tap nvfp4Tap

	// What the phases hand on, and where codes and scales go that nobody wants,
	// and those of one odd block.
	choices [nvfp4Chunk]byte
	codes   [nvfp4Chunk * BlockNVFP4 / 2]byte
	scales  [nvfp4Chunk]byte
	bins    [nvfp4Chunk * BlockNVFP4 / 2]byte // error bins of elements, four bits each

	// A few blocks for a kernel that takes more at a time.
	rest struct {
		src         [4 * BlockNVFP4 * 4]byte
		scales      [4]byte
		codes, bins [4 * BlockNVFP4 / 2]byte
	}
}

var nvfp4Jobs = sync.Pool{New: func() any { return new(nvfp4Job) }}

// e4m3Squares are the squares of the E4M3 scales, exact in f32.
var e4m3Squares = func() (t [128]float32) {
	for c := range nanE4M3 {
		t[c] = e4m3Values[c] * e4m3Values[c]
	}
	return t
}()

// Bounds of the global scale: beyond them the largest code in a block of the
// largest scale, 6·448, decodes to infinity.
var (
	maxScale2     = lastFinite(math.MaxFloat32/(MaxE2M1*MaxE4M3), 0, ModelOpt)         // of weight_scale_2
	minReciprocal = lastFinite(MaxE2M1*MaxE4M3/math.MaxFloat32, math.MaxFloat32, CT32) // of weight_global_scale
)

// lastFinite goes from a global scale towards another in steps of one f32
// until the largest decoded value is finite.
func lastFinite(global, towards float32, conv Convention) float32 {
	const code448 = nanE4M3 - 1
	for math.Float32bits(MaxE2M1*nvfp4Step(code448, global, conv)) >= infF32 {
		global = math.Nextafter32(global, towards)
	}
	return global
}

// checkGlobal refuses a global scale that cannot be used; 0 means that none is
// given.
func checkGlobal(global float32, conv Convention) error {
	low, high := float32(0), maxScale2
	if conv == CT || conv == CT32 {
		low, high = minReciprocal, math.MaxFloat32
	}
	if global == 0 || global > 0 && global >= low && global <= high {
		return nil
	}
	return fmt.Errorf("global scale %v is not in %v…%v: %w", global, low, high, ErrRange)
}

// start prepares the job. amax is the largest finite magnitude of the matrix;
// stored is the global scale to use, 0 for the one that follows from amax.
func (j *nvfp4Job) start(element Element, conv Convention, search nvfp4Search, amax, stored float32) {
	j.element, j.conv, j.search, j.weights = element, conv, search, nil
	j.book, j.bias, j.reach = nil, nil, MaxE2M1
	j.tap.reset()
	j.allZero = amax == 0 && stored == 0
	range6 := MaxE2M1 * search.top // 2688, or 1536 for four over six
	switch conv {
	case ModelOpt, ModelOptStatic:
		if stored != 0 {
			amax = stored * range6
		} else if amax == 0 {
			// An all-zero matrix: ModelOpt's scales are NaN here. With a
			// global scale of 1 every block scale is 1 and every code 0.
			amax = range6
		}
		j.global = stored
		if stored == 0 {
			j.global = min(max(amax/range6, math.SmallestNonzeroFloat32), maxScale2)
		}
		j.divisor = MaxE2M1 * j.global
		if conv == ModelOptStatic {
			j.divisor = amax / MaxE2M1
		}
	case CT, CT32:
		j.global = stored
		if stored == 0 {
			// torch divides a number by a tensor as the number times the
			// tensor's reciprocal, and rounds both to the tensor's type.
			if j.global = range6 * (1 / amax); conv == CT {
				j.global = roundBF16(range6 * roundBF16(1/amax))
			}
			if math.Float32bits(j.global) >= infF32 { // amax is 0, or so small that its reciprocal overflows
				j.global = 1
			}
			j.global = max(j.global, minReciprocal)
		}
	}
	for c := 1; c < nanE4M3; c++ {
		j.steps[c] = nvfp4Step(byte(c), j.global, conv)
		j.reciprocals[c] = 1 / j.steps[c]
	}
	if len(j.search.multipliers) == 0 && !j.search.sweep {
		return
	}
	// Steps reach from 2⁻⁹ to 448 times the multiplier; within these bounds
	// they and their reciprocals are normal numbers.
	scale2 := j.scale2()
	j.divide = !(scale2 >= 0x1p-100 && scale2 <= 0x1p100)
	switch {
	case j.divide:
		j.unit = 1
	case conv == CT || conv == CT32:
		j.unit = j.global
	default:
		j.unit = 1 / j.global
	}
}

// stepsAreNormal says that the global scale leaves steps and their reciprocals
// normal numbers, and what is left over of a quotient too, with room to spare.
// Where not, kernels in assembly leave blocks to the reference.
func (j *nvfp4Job) stepsAreNormal() bool {
	scale2 := j.scale2()
	return scale2 >= 0x1p-80 && scale2 <= 0x1p100
}

// scale2 is what multiplies a block scale.
func (j *nvfp4Job) scale2() float64 {
	if j.conv == CT || j.conv == CT32 {
		return 1 / float64(j.global)
	}
	return float64(j.global)
}

// nvfp4Step is what an element code of 1.0 stands for in a block with this
// scale: E4M3·weight_scale_2, or E4M3/weight_global_scale.
func nvfp4Step(scale byte, global float32, conv Convention) float32 {
	if conv == CT || conv == CT32 {
		return e4m3Values[scale] / global
	}
	return float32(e4m3Values[scale] * global)
}

// rawScale is the block scale for this amax before it is rounded and clamped.
func (j *nvfp4Job) rawScale(amax float32) float32 {
	switch j.conv {
	case ModelOptStatic:
		t := amax / MaxE2M1
		if t == 0 {
			t = 1
		}
		return float32(t*j.search.top) / j.divisor
	case CT32:
		return j.global * (amax / MaxE2M1)
	case CT:
		return j.global * roundBF16(amax/MaxE2M1)
	default:
		t := amax / j.divisor
		if t == 0 {
			t = 1
		}
		return t
	}
}

// codeCT8th is E4M3 for 0.125, which compressed-tensors puts where a block
// scale is 0.
const codeCT8th = 0x20

// scaleCode rounds a raw scale to E4M3. It is never 0 and never NaN.
func (j *nvfp4Job) scaleCode(raw float32) byte {
	code := positiveE4M3(math.Float32bits(raw))
	if code == 0 {
		if j.conv == CT || j.conv == CT32 {
			return codeCT8th
		}
		return 1 // 2⁻⁹
	}
	return code
}
