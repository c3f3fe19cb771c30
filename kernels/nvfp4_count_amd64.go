//go:build amd64 && !noasm

package kernels

import "math/bits"

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) {
		k := countKernels{nvfp4RawScalesAVX2, nvfp4ScaleCodesAVX2, nvfp4ClipsAVX2, nvfp4DepthsAVX2, nvfp4DenseAVX2}
		s.nvfp4Choose, s.nvfp4Count = k.choose, k.count
	})
	avx512Kernels = append(avx512Kernels, func(s *Set) {
		k := countKernels{nvfp4RawScalesAVX512, nvfp4ScaleCodesAVX512, nvfp4ClipsAVX512, nvfp4DepthsAVX512, nvfp4DenseAVX512}
		s.nvfp4Choose, s.nvfp4Count = k.choose, k.count
	})
}

// countKernels are what is done by block, in assembly, in groups of countGroup.
type countKernels struct {
	rawScales  func(groups int, amax *uint32, raw *float32, convention int, divisor, top, global float32)
	scaleCodes func(groups int, raw *float32, scales *byte, zero uint32)
	clips      func(groups int, steps *float32, c *uint32)
	depths     func(groups int, c *uint32)
	dense      func(words int, src *byte, c *uint32)
}

const countGroup = 16

// prepare puts amax and raw scales of a run into c, filled up with zeros to
// whole groups.
func (k countKernels) prepare(j *nvfp4Job, amax []uint32) (c *nvfp4Clips, groups int) {
	c, groups = &j.tap.clips, ceilDiv(len(amax), countGroup)
	if &amax[0] != &c.amax[0] { // they are seldom elsewhere
		copy(c.amax[:], amax)
	}
	clear(c.amax[len(amax) : groups*countGroup])
	k.rawScales(groups, &c.amax[0], &c.raw[0], int(j.conv), j.divisor, j.search.top, j.global)
	return c, groups
}

// choose is nvfp4Choose for round to nearest.
func (k countKernels) choose(j *nvfp4Job, _ []byte, amax []uint32, scales, choices []byte) {
	if len(amax) == 0 {
		return
	}
	c, groups := k.prepare(j, amax)
	k.scaleCodes(groups, &c.raw[0], &c.scales[0], uint32(j.scaleCode(0)))
	c.chosen = true
	copy(scales[:len(amax)], c.scales[:])
	clear(choices[:len(amax)])
}

// count is nvfp4Count.
func (k countKernels) count(j *nvfp4Job, src []byte, amax []uint32, scales, choices []byte) {
	n := len(amax)
	if !j.stepsAreNormal() {
		nvfp4CountRef(j, src, amax, scales, choices)
		return
	}
	if n == 0 {
		return
	}
	t := &j.tap
	c, groups := &t.clips, ceilDiv(n, countGroup)
	if !c.chosen { // else choose left the same amax and raw scales
		k.prepare(j, amax)
	}
	c.chosen = false
	scales = scales[:n]
	copy(c.scales[:], scales)
	c.bits = [len(c.bits)]uint64{}
	for i := n; i < groups*countGroup; i++ {
		c.scales[i] = 1
	}
	k.clips(groups, &j.steps[0], &c.amax[0])
	c.counted = true
	k.crowdedMass(c, j.element, n, src[:n*BlockNVFP4*j.element.Size()])
	k.depths(groups, &c.amax[0])
	if c.counts[clipsZero] > int64(groups*countGroup-n) {
		for i, a := range amax {
			if a == 0 {
				t.scaleCodes[scales[i]&127]--
			}
		}
	}
	c.fold(t, groups*countGroup-n)
	t.blocks += int64(n)
	// By turns, since neighbours often have the same scale, and one increment
	// would wait for the other.
	for len(scales) >= 2 {
		t.scaleCodes[scales[0]&127]++
		t.otherScaleCodes[scales[1]&127]++
		scales = scales[2:]
	}
	for _, s := range scales {
		t.scaleCodes[s&127]++
	}
	if !j.searches() {
		t.choices[0] += int64(n)
		return
	}
	for _, choice := range choices[:n] {
		t.choices[choice&(MultBins-1)]++
	}
}

// crowdedMass corrects the mass of clipped blocks, of n, with more than one
// element above their limit.
func (k countKernels) crowdedMass(c *nvfp4Clips, e Element, n int, src []byte) {
	c.dense = c.bits
	switch e {
	case F32:
		if n := nvfp4CrowdedFloats(len(c.dense), &src[0], &c.amax[0]); n > 0 {
			nvfp4CrowdedMassF32(n, &src[0], &c.amax[0])
		}
	case BF16:
		if words := n / 64; words > 0 {
			k.dense(words, &src[0], &c.amax[0])
		}
		if n := nvfp4CrowdedWords(len(c.dense), &src[0], &c.amax[0]); n > 0 {
			nvfp4CrowdedMassBF16(n, &src[0], &c.amax[0])
		}
	case F16:
		for word, left := range c.bits {
			for ; left != 0; left &= left - 1 {
				limit := &c.limits[word*64+bits.TrailingZeros64(left)]
				*limit = uint32(floorF16(*limit)) << 16
			}
		}
		n := nvfp4CrowdedWords(len(c.dense), &src[0], &c.amax[0])
		var w nvfp4Block
		for _, i := range c.crowded[:n] {
			w.load(e, src[int(i)*BlockNVFP4*e.Size():])
			c.mass[i] = massAbove(&w, MaxE2M1*float64(c.steps[i]))
		}
	}
}
