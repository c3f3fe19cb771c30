//go:build amd64 && !noasm

package kernels

import (
	"slices"

	"golang.org/x/sys/cpu"
)

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) {
		k := encodeKernels{
			BF16: {nvfp4EncodeBF16AVX2, nvfp4EncodeTameBF16AVX2, nvfp4EncodeCalmBF16AVX2},
			F32:  {nvfp4EncodeF32AVX2, nvfp4EncodeTameF32AVX2, nvfp4EncodeCalmF32AVX2},
		}
		if cpu.X86.HasF16C {
			k[F16] = [3]encodeKernel{nvfp4EncodeF16AVX2, nvfp4EncodeTameF16AVX2, nvfp4EncodeCalmF16AVX2}
		}
		s.nvfp4Encode = encodeInFours(k, countNibblesAVX2)
	})
	avx512Kernels = append(avx512Kernels, func(s *Set) {
		s.nvfp4Encode = encodeInFours(encodeKernels{
			BF16: {nvfp4EncodeBF16AVX512, nvfp4EncodeTameBF16AVX512, nvfp4EncodeCalmBF16AVX512},
			F16:  {nvfp4EncodeF16AVX512, nvfp4EncodeTameF16AVX512, nvfp4EncodeCalmF16AVX512},
			F32:  {nvfp4EncodeF32AVX512, nvfp4EncodeTameF32AVX512, nvfp4EncodeCalmF32AVX512},
		}, countNibblesAVX512)
	})
}

// encodeKernel does blocks in fours.
type encodeKernel func(fours int, src, scales *byte, steps *float32, codes, bins *byte, lanes *float64)

// encodeKernels are those for any run, a tame and a calm one (see
// nvfp4Clips.kind), by element; nil where there is none.
type encodeKernels [F32 + 1][3]encodeKernel

// nibbleKernel counts the nibbles of n times 256 bytes.
type nibbleKernel func(n int, src *byte, counts *uint64)

// maxKernelScaleBF16 is the largest global scale with which no quotient of a
// bf16 underflows to 0, so that the sign of a code is that of the element.
const maxKernelScaleBF16 = 0x1p7

// encodeInFours is nvfp4Encode by kernels that take blocks in fours. What is
// left over goes through a four of its own, filled up with zeros.
func encodeInFours(k encodeKernels, countNibbles nibbleKernel) func(j *nvfp4Job, src, scales, codes []byte) {
	return func(j *nvfp4Job, src, scales, codes []byte) {
		lanes := &j.tap.lanes
		kind := j.tap.clips.kind(max(j.tap.worst, slices.Max(lanes.worst[:])))
		encode := k[j.element][kind]
		j.tap.clips.counted = false
		if encode == nil || !j.stepsAreNormal() || j.element == BF16 && j.scale2() > maxKernelScaleBF16 {
			nvfp4EncodeRef(j, src, scales, codes)
			return
		}
		stride := BlockNVFP4 * j.element.Size()
		n := len(scales)
		src, codes = src[:n*stride], codes[:n*BlockNVFP4/2]
		fours := n / 4
		if fours > 0 {
			encode(fours, &src[0], &scales[0], &j.steps[0], &codes[0], &j.bins[0], &lanes.w2[0])
		}
		if done := fours * 4; done < n {
			rest := &j.rest
			clear(rest.src[:])
			copy(rest.src[:], src[done*stride:])
			rest.scales = [4]byte{1, 1, 1, 1}
			copy(rest.scales[:], scales[done:])
			encode(1, &rest.src[0], &rest.scales[0], &j.steps[0], &rest.codes[0], &rest.bins[0], &lanes.w2[0])
			copy(codes[done*BlockNVFP4/2:], rest.codes[:])
			// The bins of one block may be anywhere among those of the four.
			copy(j.bins[done*BlockNVFP4/2:], rest.bins[:])
			j.tap.binBits.total -= int64(4-(n-done)) * BlockNVFP4
		}
		var far int64
		for _, n := range lanes.far {
			if kind != anyRun {
				far |= int64(n & 0x01000100)
			} else {
				far += int64(n&0xffff + n>>16)
			}
		}
		lanes.far = [16]uint32{}
		if kind != anyRun && far != 0 {
			// Where scales are such that this happens, it happens often: from
			// now on the other kernel counts.
			j.tap.clips.far = true
			far = j.countFar(src, scales)
		}
		j.tap.errors[errorZero] -= far // where the kernel counted them
		j.tap.errors[errorFar] += far
		countNibbles.count(codes, &j.tap.codeBits)
		countNibbles.count(j.bins[:(n+3)/4*4*BlockNVFP4/2], &j.tap.binBits)
	}
}

// countFar counts the elements that are off by a step or more.
func (j *nvfp4Job) countFar(src, scales []byte) (n int64) {
	var w nvfp4Block
	stride := BlockNVFP4 * j.element.Size()
	for i, scale := range scales {
		w.load(j.element, src[i*stride:(i+1)*stride])
		for _, v := range w {
			x := v / j.steps[scale&127]
			if d := x - nearestE2M1(x); d >= 1 || d <= -1 {
				n++
			}
		}
	}
	return n
}

// count counts nibbles; the kernel takes them in groups.
func (kernel nibbleKernel) count(nibbles []byte, c *nibbleCounts) {
	const group = len(c.rest)
	c.total += 2 * int64(len(nibbles))
	if n := len(nibbles) / group; n > 0 {
		kernel(n, &nibbles[0], &c.having[0][0])
		nibbles = nibbles[n*group:]
	}
	if len(nibbles) > 0 {
		rest := &c.rest // its zeros have no bits
		clear(rest[copy(rest[:], nibbles):])
		kernel(1, &rest[0], &c.having[0][0])
	}
}
