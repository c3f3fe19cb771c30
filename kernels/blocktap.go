package kernels

import "math"

// The formats beside NVFP4 (MXFP4, FP8, int4) gather their records here. A
// block is what shares a scale: a group, a row, a tile, a tensor.
//
// Where Tap speaks of NVFP4, the same fields hold for them:
//
//	Scales         an octave a bin, from 2⁻²⁴: bin ⌊log2(scale)⌋+24, clamped to 0…31 (Format.ScaleBinStart)
//	ScaleSubnormal scales that are subnormal numbers of their own format (E8M0 has none)
//	ScaleHigh      blocks whose scale was lowered, since the largest code would have decoded to infinity
//	ScaleLow       blocks that ask for a scale below the format's least, so that it was raised
//	Errors         |w−q| by the sixteenth of the scale; of 32 scales, the widest step, in FP8
//	Codes          by the stored four bits; of 8-bit codes by the upper four, sign and exponent
//
// Clipping is measured from the middle of what a block's codes reach, which is
// 0 but in int4: with a the distance of the farthest element from there and m
// that of the end, the depth is 1 − m/a. The end is ±6 scales in MXFP4 and ±448
// in FP8. In int4 it is half a step beyond the outermost codes, 8 scales from the
// middle: up to there an element is rounded like any other.

// noDepth is how far beyond the end, relative to it, an element must be to count
// as clipped: an f32 scale's own rounding alone puts the largest magnitude 2⁻²⁴
// beyond.
const noDepth = 0x1p-20

// blockSums are running sums of a row: the term of column c goes to lane
// c mod 8, in the order of columns. At the end of a row the lanes are added as
// ((0+4)+(2+6)) + ((1+5)+(3+7)), and rows in their order. All are f64. w−q is
// rounded to f64, its square too; the other products are exact.
type blockSums struct {
	w2, q2, wq, e2 [8]float64
	worst          [8]float64 // largest |w−q|
}

// blockTap gathers what becomes a Tap.
type blockTap struct {
	sums  blockSums
	total nvfp4Lane

	elements, blocks, nan, inf, zeroBlocks int64

	amax    uint32           // largest |w|, f32 bits
	codes   [countBins]int64 // the last one is of no code
	errors  [countBins]int64
	choices [MultBins]int64

	scaleMin, scaleMax, scaleSum   float64
	scaleCount                     int64
	scales                         [ScaleBins]int64
	scaleHigh, scaleLow, subnormal int64

	shallow, deep, subnormalClipped   int64
	shallowL2, deepL2, subnormalMass2 float64
	depth                             [DepthBins]int64
}

// firstScaleOctave is log2 of where the second bin of the scales begins.
const firstScaleOctave = -24

// scaleBin is the bin of Tap.Scales for a positive scale.
func scaleBin(scale float32) int {
	return min(max(int(math.Float32bits(scale)>>23)-127-firstScaleOctave, 0), ScaleBins-1)
}

// block counts one block: its scale, its choice and its clipping. farthest and
// mass are the distance of its farthest element and the L2 mass beyond the end.
func (t *blockTap) block(amax uint32, c *blockChoice, farthest, mass float64) {
	t.blocks++
	t.amax = max(t.amax, amax)
	t.choices[c.choice]++
	if amax == 0 {
		t.zeroBlocks++
		return
	}
	s := float64(c.scale)
	if t.scaleCount == 0 {
		t.scaleMin = s
	}
	t.scaleMin, t.scaleMax = min(t.scaleMin, s), max(t.scaleMax, s)
	t.scaleSum += s
	t.scaleCount++
	t.scales[scaleBin(c.scale)]++
	if c.high {
		t.scaleHigh++
	}
	if c.low {
		t.scaleLow++
	}
	if c.subnormal {
		t.subnormal++
	}
	if !(farthest > c.limit()) {
		return
	}
	depth := 1 - c.reach/farthest
	t.depth[min(int(depth*DepthBins), DepthBins-1)]++
	switch {
	case c.subnormal:
		t.subnormalClipped++
		t.subnormalMass2 += mass
	case depth <= ShallowDepth:
		t.shallow++
		t.shallowL2 += mass
	default:
		t.deep++
		t.deepL2 += mass
	}
}

// addLanes adds eight lanes in the stated order.
func addLanes(l *[8]float64) float64 {
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

// endRow adds the lanes to the totals and returns the row's Σw² and Σ(w−q)².
func (t *blockTap) endRow() (w2, e2 float64) {
	s := &t.sums
	w2, e2 = addLanes(&s.w2), addLanes(&s.e2)
	t.total.w2 += w2
	t.total.e2 += e2
	t.total.q2 += addLanes(&s.q2)
	t.total.wq += addLanes(&s.wq)
	worst := s.worst
	*s = blockSums{worst: worst}
	return w2, e2
}

// record is the finished Tap.
func (t *blockTap) record() Tap {
	r := Tap{
		Elements: t.elements, Blocks: t.blocks, NaN: t.nan, Inf: t.inf,
		SumW2: t.total.w2, SumQ2: t.total.q2, SumWQ: t.total.wq, SumE2: t.total.e2,
		Amax:     float64(math.Float32frombits(t.amax)),
		ScaleMin: t.scaleMin, ScaleMax: t.scaleMax, ScaleSum: t.scaleSum, ScaleCount: t.scaleCount,
		ScaleHigh: t.scaleHigh, ScaleLow: t.scaleLow, ScaleSubnormal: t.subnormal, ZeroBlocks: t.zeroBlocks,
		Shallow: t.shallow, Deep: t.deep, SubnormalClipped: t.subnormalClipped,
		ShallowL2: t.shallowL2, DeepL2: t.deepL2, SubnormalClippedL2: t.subnormalMass2,
		Depth: t.depth, Codes: [16]int64(t.codes[:16]), Multipliers: t.choices, Scales: t.scales, Errors: t.errors,
	}
	for _, e := range t.sums.worst {
		r.MaxAbsErr = max(r.MaxAbsErr, e)
	}
	return r
}
