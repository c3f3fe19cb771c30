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
// become 0 and are counted; so does what is missing, uncounted.
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

// nvfp4BlocksRef quantizes whole blocks from the start of src until src ends or
// a block has a non-finite element, and returns how many it did. codes and
// scales take 8 bytes and one byte a block.
func nvfp4BlocksRef(j *nvfp4Job, src, codes, scales []byte) int {
	var w nvfp4Block
	stride := BlockNVFP4 * j.element.Size()
	for n := range scales {
		amax := w.load(j.element, src[n*stride:(n+1)*stride])
		if amax >= infF32 {
			return n
		}
		scales[n] = j.block(&w, amax, codes[n*8:n*8+8])
	}
	return len(scales)
}

// block quantizes one block with finite elements, measures it and returns its
// scale.
func (j *nvfp4Job) block(w *nvfp4Block, amaxBits uint32, codes []byte) byte {
	t := &j.tap
	amax := math.Float32frombits(amaxBits)
	t.blocks++
	t.amax = max(t.amax, amaxBits)
	scale, raw, choice := j.choose(w, amax)
	t.choices[choice]++
	step := j.steps[scale]
	if amaxBits == 0 {
		t.zeroBlocks++
	} else {
		t.scale(scale, raw)
		if limit := MaxE2M1 * float64(step); float64(amax) > limit {
			t.clip(w, scale, float64(amax), limit)
		}
	}
	j.encode(w, step, codes)
	return scale
}

// encode writes the codes of one block and adds it to the record. The rule is
// code = E2M1(w/step), w/step rounded to f32, and q = value·step, rounded to
// f32. A step that underflowed to 0 gives codes that decode to 0.
//
// The products of two f32 are exact in f64, so it makes no difference whether
// the compiler fuses them with the additions. w−q is exact in f32 wherever w is
// not clipped to less than half its size.
func (j *nvfp4Job) encode(w *nvfp4Block, step float32, codes []byte) {
	t := &j.tap
	codes = codes[:BlockNVFP4/2]
	worst := t.worst
	for i := range BlockNVFP4 / 2 {
		w0, w1 := w[2*i], w[2*i+1]
		x0, x1 := w0/step, w1/step
		cell0, cell1 := e2m1Cell(x0), e2m1Cell(x1)
		c0, c1 := e2m1Codes[cell0], e2m1Codes[cell1]
		v0, v1 := e2m1Nearest[cell0], e2m1Nearest[cell1]
		q0, q1 := float32(v0*step), float32(v1*step)
		e0, e1 := w0-q0, w1-q1
		pair := c0 | c1<<4
		codes[i] = pair
		t.pairs[pair]++
		t.errorPairs[(errorBin(x0-v0)<<5|errorBin(x1-v1))&1023]++
		worst = max(worst, math.Float32bits(e0)&^signF32, math.Float32bits(e1)&^signF32)

		lane := 2 * i & 7
		l := &t.lanes[lane]
		l.w2 += float64(w0) * float64(w0)
		l.q2 += float64(q0) * float64(q0)
		l.wq += float64(w0) * float64(q0)
		l.e2 += float64(e0) * float64(e0)
		l = &t.lanes[lane+1]
		l.w2 += float64(w1) * float64(w1)
		l.q2 += float64(q1) * float64(q1)
		l.wq += float64(w1) * float64(q1)
		l.e2 += float64(e1) * float64(e1)
	}
	t.worst = worst
}

// errorBin is the bin of Tap.Errors for an error of d steps: ⌊16·|d|⌋, 16 for
// everything from 1 up.
func errorBin(d float32) uint32 {
	const one = 0x3f800000 // f32 bits of 1
	mag := min(math.Float32bits(d)&^signF32, one)
	return uint32(int32(math.Float32frombits(mag) * (ErrorBins - 1)))
}
