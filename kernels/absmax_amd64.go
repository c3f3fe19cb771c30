//go:build amd64 && !noasm

package kernels

import "math"

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) {
		s.absMax = absMaxBy(absMax16AVX2, absMax32AVX2)
		s.blockAmax = blockAmaxAVX2
	})
	avx512Kernels = append(avx512Kernels, func(s *Set) {
		s.absMax = absMaxBy(absMax16AVX512, absMax32AVX512)
		s.blockAmax = blockAmaxAVX512
	})
}

// absMaxBy is absMax by kernels for 16 and for 32 bits; what is left over is
// the reference's.
func absMaxBy(words, dwords func(n int, src *byte) uint32) func(e Element, src []byte) uint32 {
	return func(e Element, src []byte) uint32 {
		const group = 256
		n := len(src) / group
		rest := absMaxRef(e, src[n*group:])
		if n == 0 {
			return rest
		}
		switch e {
		case BF16:
			return max(rest, words(n, &src[0])<<16)
		case F16:
			return max(rest, math.Float32bits(F16ToF32(uint16(words(n, &src[0])))))
		default:
			return max(rest, dwords(n, &src[0]))
		}
	}
}

func blockAmaxAVX512(e Element, src []byte, amax []uint32) (blocks int) {
	const group = 16
	stride := BlockNVFP4 * e.Size()
	src = src[:len(amax)*stride]
	if n := len(amax) / group; n > 0 {
		blocks = blockAmaxGroups(e, n, &src[0], &amax[0])
		if blocks < n*group {
			return blocks
		}
	}
	if blocks == len(amax) {
		return blocks
	}
	var rest [group * BlockNVFP4 * 4]byte
	var found [group]uint32
	copy(rest[:], src[blocks*stride:])
	n := min(blockAmaxGroups(e, 1, &rest[0], &found[0]), len(amax)-blocks)
	copy(amax[blocks:], found[:n])
	return blocks + n
}

func blockAmaxGroups(e Element, n int, src *byte, amax *uint32) (blocks int) {
	switch e {
	case BF16:
		return blockAmaxBF16AVX512(n, src, amax)
	case F16:
		return blockAmaxF16AVX512(n, src, amax)
	default:
		return blockAmaxF32AVX512(n, src, amax)
	}
}

func blockAmaxAVX2(e Element, src []byte, amax []uint32) int {
	const group = 8
	kernel := func(n int, src *byte, amax *uint32) {
		if e == F32 {
			blockAmaxF32AVX2(n, src, amax)
		} else {
			blockAmax16AVX2(n, src, amax)
		}
	}
	stride := BlockNVFP4 * e.Size()
	src = src[:len(amax)*stride]
	if n := len(amax) / group; n > 0 {
		kernel(n, &src[0], &amax[0])
	}
	if done := len(amax) / group * group; done < len(amax) {
		var rest [group * BlockNVFP4 * 4]byte
		var found [group]uint32
		copy(rest[:], src[done*stride:])
		kernel(1, &rest[0], &found[0])
		copy(amax[done:], found[:])
	}
	for i, a := range amax {
		if e == F16 {
			a = math.Float32bits(F16ToF32(uint16(a >> 16)))
			amax[i] = a
		}
		if a >= infF32 {
			return i
		}
	}
	return len(amax)
}
