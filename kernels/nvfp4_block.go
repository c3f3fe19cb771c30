package kernels

import (
	"encoding/binary"
	"math"
)

// nvfp4Block holds the elements of one block.
type nvfp4Block [BlockNVFP4]float32

// load reads a whole block and returns its largest magnitude as f32 bits,
// infF32 or more where an element is not finite.
func (w *nvfp4Block) load(e Element, src []byte) uint32 {
	var a, b uint32
	switch e {
	case BF16:
		_ = src[2*BlockNVFP4-1]
		for i := 0; i < BlockNVFP4; i += 4 {
			u := binary.LittleEndian.Uint64(src[2*i:])
			b0, b1 := uint32(u)<<16, uint32(u)&0xffff0000
			b2, b3 := uint32(u>>32)<<16, uint32(u>>32)&0xffff0000
			w[i], w[i+1] = math.Float32frombits(b0), math.Float32frombits(b1)
			w[i+2], w[i+3] = math.Float32frombits(b2), math.Float32frombits(b3)
			a = max(a, b0&^signF32, b2&^signF32)
			b = max(b, b1&^signF32, b3&^signF32)
		}
	case F16:
		_ = src[2*BlockNVFP4-1]
		for i := range w {
			w[i] = F16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
			a = max(a, math.Float32bits(w[i])&^signF32)
		}
	default:
		_ = src[4*BlockNVFP4-1]
		for i := range w {
			u := binary.LittleEndian.Uint32(src[4*i:])
			w[i] = math.Float32frombits(u)
			a = max(a, u&^signF32)
		}
	}
	return max(a, b)
}

// loadPart reads up to a whole block, element by element. Non-finite elements
// are counted and read as 0, and so is what is missing.
func (w *nvfp4Block) loadPart(e Element, src []byte) (amax uint32, nan, inf int64) {
	*w = nvfp4Block{}
	size := e.Size()
	for i := 0; len(src) > 0; i, src = i+1, src[size:] {
		x := loadElement(e, src)
		mag := math.Float32bits(x) &^ signF32
		switch {
		case mag > infF32:
			nan++
		case mag == infF32:
			inf++
		default:
			w[i] = x
			amax = max(amax, mag)
		}
	}
	return amax, nan, inf
}

// encode writes the codes of one block and adds it to the record, in the order
// of sums that nvfp4Tap states. The rule is
// code = E2M1(w/step), w/step rounded to f32, and q = value·step, rounded to
// f32. A step that underflowed to 0 gives codes 0.
//
// Products of two f32 are exact in f64, so that it makes no difference whether
// the compiler fuses them with the additions; (w−q)² is not, and is fused.
func (j *nvfp4Job) encode(w *nvfp4Block, step float32, codes []byte) {
	t := &j.tap
	codes = codes[:BlockNVFP4/2]
	divisor := step
	if step == 0 {
		divisor = float32(math.Inf(1))
	}
	var q nvfp4Block
	for i := 0; i < BlockNVFP4; i += 2 {
		x0, x1 := w[i&15]/divisor, w[(i+1)&15]/divisor
		cell0, cell1 := e2m1Cell(x0), e2m1Cell(x1)
		v0, v1 := e2m1Nearest[cell0], e2m1Nearest[cell1]
		pair := e2m1Codes[cell0] | e2m1Codes[cell1]<<4
		codes[i/2] = pair
		t.pairs[pair]++
		t.errors[errorBin(x0-v0)&63]++
		t.errors[errorBin(x1-v1)&63]++
		q[i&15], q[(i+1)&15] = float32(v0*step), float32(v1*step)
	}
	t.lanes.add(w, &q)
}

// add adds the terms of a block.
func (l *nvfp4Lanes) add(w, q *nvfp4Block) {
	for i := range l.w2 {
		w0, q0 := float64(w[2*i]), float64(q[2*i])
		w1, q1 := float64(w[2*i+1]), float64(q[2*i+1])
		e0, e1 := w0-q0, w1-q1
		l.w2[i] = l.w2[i] + w0*w0 + w1*w1
		l.q2[i] = l.q2[i] + q0*q0 + q1*q1
		l.wq[i] = l.wq[i] + w0*q0 + w1*q1
		l.e2[i] = math.FMA(e1, e1, math.FMA(e0, e0, l.e2[i]))
		l.worst[i] = max(l.worst[i], math.Abs(e0), math.Abs(e1))
	}
}

// Signed error bins: errorZero holds |d| < 1/16, the sixteen on either side
// are 1/16 wide, errorFar takes what is further off than 1 (and 1/16).
const (
	errorZero = ErrorBins - 1
	errorFar  = 2*ErrorBins - 1
)

// errorBin is the signed bin for an error of d steps, ⌊16·|d|⌋ with d's sign.
// Where that is beyond int32, whatever the conversion gives is far off too.
func errorBin(d float32) uint32 {
	return min(uint32(int32(d*(ErrorBins-1))+errorZero), errorFar)
}
