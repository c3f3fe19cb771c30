package kernels

import "math"

// nvfp4Lane holds the sums of a record, or of a part of it.
type nvfp4Lane struct{ w2, q2, wq, e2 float64 }

// nvfp4Lanes are eight running sums over every eighth pair of elements of a row,
// and what else a kernel for whole blocks keeps by lane.
type nvfp4Lanes struct {
	w2, q2, wq, e2 [8]float64
	worst          [8]float64 // largest |w−q|
	far            [16]uint32 // errors in bin ErrorBins-1, two counts of 16 bits each: a kernel leaves them to its caller
}

// nvfp4Tap gathers what becomes a Tap. Sums are f64 in a stated order: lane i
// adds the terms of a block's element 2i, then those of element 2i+1, block by
// block; (w−q)² is added unrounded, by a fused multiply-add. A short last block
// is filled up with zeros. At the end of a row the lanes are added as
// ((0+4)+(2+6)) + ((1+5)+(3+7)), and rows in their order.
//
// The L2 mass of clipped elements is summed in eight lanes too, block i of a run
// in lane i mod 8, and these are added when all is done. A run is what
// nvfp4Row hands to a kernel at once; how rows come makes no difference to it.
type nvfp4Tap struct {
	lanes             nvfp4Lanes
	clips             nvfp4Clips
	total             nvfp4Lane
	codeBits, binBits nibbleCounts // what kernels in assembly count instead of pairs and errors

	elements, blocks, nan, inf, zeroBlocks int64
	padding                                int64 // zeros in blocks that stand for no finite element

	worst float64 // largest |w−q|
	amax  uint32  // largest |w|, f32 bits

	pairs           [256]int64 // use of packed bytes, which gives the use of codes
	errors          [64]int64  // see errorBin
	scaleCodes      [128]int64 // E4M3 scales of blocks that are not zero
	otherScaleCodes [128]int64 // added to them
	choices         [MultBins]int64

	scaleHigh, scaleLow      int64
	shallow, deep, subnormal int64
	depth                    [DepthBins]int64
}

func (t *nvfp4Tap) reset() { *t = nvfp4Tap{} }

// smallestNormalE4M3 is the code of 2⁻⁶.
const smallestNormalE4M3 = 8

// scale counts the scale of a block that is not zero. It counts as clamped
// where the scale that amax asks for rounds to something out of range; that a
// search tries more than the format holds is no clamping.
func (t *nvfp4Tap) scale(code byte, raw float32) {
	t.scaleCodes[code&127]++
	rawBits := math.Float32bits(raw)
	if rawBits > bits464 {
		t.scaleHigh++
	}
	if rawBits <= bits2pm10 {
		t.scaleLow++
	}
}

const bits2pm10 = 0x3a800000 // f32 bits of 2⁻¹⁰, the tie that rounds to a scale of 0

// clip counts a block whose largest magnitude is above the largest
// representable one. The L2 mass of its clipped elements is that of massAbove.
func (t *nvfp4Tap) clip(w *nvfp4Block, scale byte, amax, limit float64, lane int) {
	depth := 1 - limit/amax
	mass := amax * amax // of the one element that is clipped most of the time
	if limit32 := floorF32Bits(limit); countAbove(w, limit32) > 1 {
		mass = massAbove(w, limit)
	}
	t.depth[min(int(depth*DepthBins), DepthBins-1)]++
	switch {
	case scale < smallestNormalE4M3:
		t.subnormal++
		t.clips.lanes[massSubnormal][lane] += mass
	case depth <= ShallowDepth:
		t.shallow++
		t.clips.lanes[massShallow][lane] += mass
	default:
		t.deep++
		t.clips.lanes[massDeep][lane] += mass
	}
}

// floorF32Bits holds the bits of the largest f32 that is not above x ≥ 0.
func floorF32Bits(x float64) uint32 {
	f := float32(x)
	if float64(f) > x {
		return math.Float32bits(f) - 1
	}
	return math.Float32bits(f)
}

// floorF16 is the largest f16 that is not above the f32 of these bits, 0 or
// more.
func floorF16(f32Bits uint32) uint16 {
	h := F32ToF16(math.Float32frombits(f32Bits))
	if F16ToF32(h) > math.Float32frombits(f32Bits) {
		h--
	}
	return h
}

// countAbove is how many elements are above a limit in magnitude, as f32 bits.
func countAbove(w *nvfp4Block, limit uint32) (n uint32) {
	for _, v := range w {
		n += (limit - math.Float32bits(v)&^signF32) >> 31
	}
	return n
}

// endRow adds the lanes to the totals and returns the row's Σw² and Σ(w−q)².
func (t *nvfp4Tap) endRow() (w2, e2 float64) {
	l := &t.lanes
	w2, e2 = addLanes(&l.w2), addLanes(&l.e2)
	t.total.w2 += w2
	t.total.e2 += e2
	t.total.q2 += addLanes(&l.q2)
	t.total.wq += addLanes(&l.wq)
	for _, e := range l.worst {
		t.worst = max(t.worst, e)
	}
	*l = nvfp4Lanes{}
	return w2, e2
}

// record is the finished Tap.
func (t *nvfp4Tap) record(scale2 float64) Tap {
	r := Tap{
		Elements: t.elements, Blocks: t.blocks, NaN: t.nan, Inf: t.inf,
		SumW2: t.total.w2, SumQ2: t.total.q2, SumWQ: t.total.wq, SumE2: t.total.e2,
		MaxAbsErr:   t.worst,
		Amax:        float64(math.Float32frombits(t.amax)),
		GlobalScale: scale2,
		ScaleHigh:   t.scaleHigh, ScaleLow: t.scaleLow, ZeroBlocks: t.zeroBlocks,
		Shallow: t.shallow, Deep: t.deep, SubnormalClipped: t.subnormal,
		ShallowL2: addLanes(&t.clips.lanes[massShallow]), DeepL2: addLanes(&t.clips.lanes[massDeep]),
		SubnormalClippedL2: addLanes(&t.clips.lanes[massSubnormal]),

		Depth: t.depth, Multipliers: t.choices,
	}
	for pair, n := range t.pairs {
		r.Codes[pair&15] += n
		r.Codes[pair>>4] += n
	}
	for i := range ErrorBins {
		r.Errors[i] = t.errors[errorZero+i] + t.errors[errorZero-i]
	}
	r.Errors[0] = t.errors[errorZero]
	r.Errors[ErrorBins-1] += t.errors[errorFar]
	t.codeBits.addTo(r.Codes[:])
	t.binBits.addTo(r.Errors[:])
	// Zeros that stand for no finite element went in as code 0 without error.
	r.Codes[0] -= t.padding
	r.Errors[0] -= t.padding
	for code, n := range t.scaleCodes {
		if n += t.otherScaleCodes[code]; n == 0 {
			continue
		}
		s := float64(e4m3Values[code])
		if r.ScaleCount == 0 {
			r.ScaleMin = s
		}
		r.ScaleMax = s
		r.ScaleSum += s * float64(n)
		r.ScaleCount += n
		r.Scales[code*ScaleBins/128] += n
		if code < smallestNormalE4M3 {
			r.ScaleSubnormal += n
		}
	}
	return r
}
