package kernels

import "math"

// blockRule is the arithmetic between an element, its code and what that
// decodes to, given the parameters of its block. Each operation is rounded to
// f32; [·] is rounded to bf16 as well.
type blockRule uint8

// Rules. E2M1 and E4M3 saturate, integers are clamped; rounding is to nearest,
// ties to even where nothing else is said.
const (
	ruleE2M1        blockRule = iota // x = w·inverse, q = E2M1(x)·step
	ruleE2M1Down                     // the same, ties towards zero; a zero has code 8
	ruleE4M3                         // x = w/step, q = E4M3(x)·step
	ruleE4M3BF16                     // x = [w/step], q = [E4M3(x)·step]
	ruleE4M3Times                    // x = w·inverse, q = E4M3(x)·step
	ruleIntMin                       // code = (w−offset)/step in 0…15, q = [code·step + offset]
	ruleIntSym                       // v = w/step in −8…7, q = [v·step]
	ruleIntZero                      // v = w/step + offset in −8…7, q = (v−offset)·step
	ruleIntZeroBF16                  // v = [[w/step] + offset] in −8…7, q = [(v−offset)·step]
	rules
)

// bits is the size of a code. Integers −8…7 are stored plus 8.
func (r blockRule) bits() int {
	switch r {
	case ruleE4M3, ruleE4M3BF16, ruleE4M3Times:
		return 8
	}
	return 4
}

// blockParams are what a rule needs to know of a block. A step is positive, and
// no code decodes to infinity.
type blockParams struct {
	step    float32
	inverse float32 // see the rules that use it
	offset  float32 // what code 0 stands for, or the zero point
	bins    float32 // bins of Tap.Errors in an error of 1; at most the largest f32
}

// code is the rule for one finite element.
func (r blockRule) code(w float32, p *blockParams) (code byte, q float32) {
	switch r {
	case ruleE2M1:
		cell := e2m1Cell(float32(w * p.inverse))
		return e2m1Codes[cell], float32(e2m1Nearest[cell] * p.step)
	case ruleE2M1Down:
		code = e2m1Down(float32(w * p.inverse))
		return code, float32(e2m1Values[code] * p.step)
	case ruleE4M3:
		code = F32ToE4M3(w / p.step)
		return code, r.value(e4m3Values[code], p.step)
	case ruleE4M3BF16:
		code = F32ToE4M3(roundBF16(w / p.step))
		return code, r.value(e4m3Values[code], p.step)
	case ruleE4M3Times:
		code = F32ToE4M3(float32(w * p.inverse))
		return code, r.value(e4m3Values[code], p.step)
	case ruleIntMin:
		v := roundClamp(float32(w-p.offset)/p.step, 0, 15)
		return byte(v), minValue(v, p.step, p.offset)
	case ruleIntSym:
		v := roundClamp(w/p.step, -8, 7)
		return byte(int8(v) + 8), r.value(v, p.step)
	case ruleIntZero:
		v := roundClamp(float32(w/p.step)+p.offset, -8, 7)
		return byte(int8(v) + 8), r.value(v-p.offset, p.step)
	default:
		v := roundClamp(roundBF16(roundBF16(w/p.step)+p.offset), -8, 7)
		return byte(int8(v) + 8), r.value(v-p.offset, p.step)
	}
}

// value is what a number of steps decodes to, under all rules but ruleIntMin.
func (r blockRule) value(v, step float32) float32 {
	q := float32(v * step)
	switch r {
	case ruleE4M3BF16, ruleIntSym, ruleIntZeroBF16:
		return roundBF16(q)
	}
	return q
}

// minValue is what a code with a step and a minimum decodes to. The sum is
// taken in f64, where the product is exact, and gives what f32 would.
func minValue(code, step, minimum float32) float32 {
	return roundBF16(float32(float64(code)*float64(step) + float64(minimum)))
}

// roundClamp clamps and rounds to an integer, ties to even.
func roundClamp(x, low, high float32) float32 {
	const magic = 3 << 22 // whose last place is 1
	return float32(min(max(x, low), high)+magic) - magic
}

// e2m1Down encodes to nearest, ties towards zero; a zero of either sign has
// code 8, as nvidia-modelopt writes it.
func e2m1Down(x float32) byte {
	b := math.Float32bits(x)
	mag := b &^ signF32
	if mag == 0 {
		return 8
	}
	// All cells are taken as (lower, upper], see e2m1Codes; no code of a positive
	// cell has the sign.
	return e2m1Codes[min((mag+1<<21-1)>>21, infF32>>21)] | byte(b>>28)&8
}

// errorBinOf is the bin of Tap.Errors.
func errorBinOf(w, q float32, p *blockParams) byte {
	x := float32(math.Abs(float64(float32(w-q)))) * p.bins
	if x >= ErrorBins-1 {
		return ErrorBins - 1
	}
	return byte(x)
}

// blockEncodeRef encodes whole groups of finite elements: len(params) of them,
// group elements each, a multiple of 16. codes takes them packed, bins the bin
// of each element, and sums go on. Elements that are not finite are coded as a 0
// would be, with bin 0, and enter no sum; group is free where there is only one.
func blockEncodeRef(r blockRule, w []float32, group int, params []blockParams, codes, bins []byte, sums *blockSums) {
	wide := r.bits() == 8
	for i := range params {
		p := &params[i]
		base := i * group
		for c, x := range w[base : base+group] {
			finite := math.Float32bits(x)&^signF32 < infF32
			if !finite {
				x = 0
			}
			code, q := r.code(x, p)
			at := base + c
			switch {
			case wide:
				codes[at] = code
			case at%2 == 0:
				codes[at/2] = code
			default:
				codes[at/2] |= code << 4
			}
			bins[at] = 0
			if !finite {
				continue
			}
			bins[at] = errorBinOf(x, q, p)
			sums.add(at&7, float64(x), float64(q))
		}
	}
}

// add adds the terms of one element.
func (s *blockSums) add(lane int, w, q float64) {
	e := w - q
	s.w2[lane] += w * w
	s.q2[lane] += q * q
	s.wq[lane] += w * q
	s.e2[lane] += float64(e * e)
	s.worst[lane] = max(s.worst[lane], math.Abs(e))
}

// countKind is what countRef counts of bytes.
type countKind uint8

const (
	countPairs  countKind = iota // the values of both halves
	countHigh                    // those of the upper halves
	countErrors                  // bytes up to 16
	countKinds
)

// countBins is one more than the largest value.
const countBins = ErrorBins

// countRef adds the use of values.
func countRef(kind countKind, data []byte, counts *[countBins]int64) {
	for _, b := range data {
		switch kind {
		case countPairs:
			counts[b&15]++
			counts[b>>4]++
		case countHigh:
			counts[b>>4]++
		default:
			counts[b]++
		}
	}
}
