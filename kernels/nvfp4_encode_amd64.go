//go:build amd64 && !noasm

package kernels

import "golang.org/x/sys/cpu"

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) {
		k := encodeKernels{bf16: nvfp4EncodeBF16AVX2, f32: nvfp4EncodeF32AVX2, countNibbles: countNibblesAVX2}
		if cpu.X86.HasF16C {
			k.f16 = nvfp4EncodeF16AVX2
		}
		s.nvfp4Encode = encodeInFours(k)
	})
	avx512Kernels = append(avx512Kernels, func(s *Set) {
		s.nvfp4Encode = encodeInFours(encodeKernels{
			bf16: nvfp4EncodeBF16AVX512, f16: nvfp4EncodeF16AVX512, f32: nvfp4EncodeF32AVX512,
			countNibbles: countNibblesAVX512,
		})
	})
}

// encodeKernel does blocks in fours.
type encodeKernel func(fours int, src, scales *byte, steps *float32, codes, bins *byte, lanes *float64)

// encodeKernels are the parts of nvfp4Encode in assembly.
type encodeKernels struct {
	bf16, f16, f32 encodeKernel
	countNibbles   func(n int, src *byte, counts *uint64)
}

// maxKernelScaleBF16 is the largest global scale with which no quotient of a
// bf16 underflows to 0, so that the sign of a code is that of the element.
const maxKernelScaleBF16 = 0x1p7

// encodeInFours is nvfp4Encode by kernels that take blocks in fours. What is
// left over goes through a four of its own, filled up with zeros.
func encodeInFours(k encodeKernels) func(j *nvfp4Job, src, scales, codes []byte) {
	return func(j *nvfp4Job, src, scales, codes []byte) {
		var encode encodeKernel
		switch j.element {
		case BF16:
			encode = k.bf16
		case F16:
			encode = k.f16
		default:
			encode = k.f32
		}
		if encode == nil || !j.stepsAreNormal() || j.element == BF16 && j.scale2() > maxKernelScaleBF16 {
			nvfp4EncodeRef(j, src, scales, codes)
			return
		}
		stride := BlockNVFP4 * j.element.Size()
		n := len(scales)
		src, codes = src[:n*stride], codes[:n*BlockNVFP4/2]
		fours := n / 4
		if fours > 0 {
			encode(fours, &src[0], &scales[0], &j.steps[0], &codes[0], &j.bins[0], &j.tap.lanes.w2[0])
		}
		if done := fours * 4; done < n {
			rest := &j.rest
			clear(rest.src[:])
			copy(rest.src[:], src[done*stride:])
			rest.scales = [4]byte{1, 1, 1, 1}
			copy(rest.scales[:], scales[done:])
			encode(1, &rest.src[0], &rest.scales[0], &j.steps[0], &rest.codes[0], &rest.bins[0], &j.tap.lanes.w2[0])
			copy(codes[done*BlockNVFP4/2:], rest.codes[:])
			// The bins of one block may be anywhere among those of the four.
			copy(j.bins[done*BlockNVFP4/2:], rest.bins[:])
			j.tap.binBits.total -= int64(4-(n-done)) * BlockNVFP4
		}
		for i, n := range &j.tap.lanes.far {
			far := int64(n&0xffff + n>>16)
			j.tap.errors[errorZero] -= far // where the kernel counted them
			j.tap.errors[errorFar] += far
			j.tap.lanes.far[i] = 0
		}
		k.count(codes, &j.tap.codeBits)
		k.count(j.bins[:(n+3)/4*4*BlockNVFP4/2], &j.tap.binBits)
	}
}

// count counts nibbles; the kernel takes them in groups.
func (k *encodeKernels) count(nibbles []byte, c *nibbleCounts) {
	const group = len(c.rest)
	c.total += 2 * int64(len(nibbles))
	if n := len(nibbles) / group; n > 0 {
		k.countNibbles(n, &nibbles[0], &c.having[0][0])
		nibbles = nibbles[n*group:]
	}
	if len(nibbles) > 0 {
		rest := &c.rest // its zeros have no bits
		clear(rest[copy(rest[:], nibbles):])
		k.countNibbles(1, &rest[0], &c.having[0][0])
	}
}
