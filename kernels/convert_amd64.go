//go:build amd64 && !noasm

package kernels

import "golang.org/x/sys/cpu"

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) {
		f := &s.convert
		f.decodeBF16 = decodeWith(16, decodeBF16AVX2, decodeBF16Ref)
		f.decodeF16 = decodeWith(16, decodeF16AVX2, decodeF16Ref)
		f.decodeF32 = decodeWith(32, decodeF32AVX2, decodeF32Ref)
		f.decodeE4M3 = decodeWith(8, decodeE4M3AVX2, decodeE4M3Ref)
		f.decodeE2M1 = decodeWith(4, decodeE2M1AVX2, decodeE2M1Ref)
		f.encodeBF16 = encodeWith(16, encodeBF16AVX2, encodeBF16Ref)
		f.encodeF32 = encodeWith(32, encodeF32AVX2, encodeF32Ref)
		f.encodeE4M3 = encodeWith(8, encodeE4M3AVX2, encodeE4M3Ref)
		f.encodeE2M1 = encodeWith(4, encodeE2M1AVX2, encodeE2M1Ref)
		if cpu.X86.HasF16C {
			f.encodeF16 = encodeWith(16, encodeF16AVX2, encodeF16Ref)
		}
		f.roundBF16 = roundWith(roundBF16AVX2)
		f.packNibbles = packWith(packNibblesAVX2)
		f.unpackNibbles = unpackWith(unpackNibblesAVX2)
	})
	avx512Kernels = append(avx512Kernels, func(s *Set) {
		f := &s.convert
		f.decodeBF16 = decodeWith(16, decodeBF16AVX512, decodeBF16Ref)
		f.decodeF16 = decodeWith(16, decodeF16AVX512, decodeF16Ref)
		f.decodeF32 = decodeWith(32, decodeF32AVX512, decodeF32Ref)
		f.decodeE4M3 = decodeWith(8, decodeE4M3AVX512, decodeE4M3Ref)
		f.decodeE2M1 = decodeWith(4, decodeE2M1AVX512, decodeE2M1Ref)
		f.encodeBF16 = encodeWith(16, encodeBF16AVX512, encodeBF16Ref)
		f.encodeF16 = encodeWith(16, encodeF16AVX512, encodeF16Ref)
		f.encodeF32 = encodeWith(32, encodeF32AVX512, encodeF32Ref)
		f.encodeE4M3 = encodeWith(8, encodeE4M3AVX512, encodeE4M3Ref)
		f.encodeE2M1 = encodeWith(4, encodeE2M1AVX512, encodeE2M1Ref)
		f.roundBF16 = roundWith(roundBF16AVX512)
		f.packNibbles = packWith(packNibblesAVX512)
		f.unpackNibbles = unpackWith(unpackNibblesAVX512)
	})
}

// convertStep is how many elements the functions in assembly take at a time;
// what is left goes to the reference.
const convertStep = 32

func decodeWith(bits int, asm func(dst *float32, src *byte, n int), ref func([]float32, []byte)) func([]float32, []byte) {
	return func(dst []float32, src []byte) {
		n := len(dst) &^ (convertStep - 1)
		if n > 0 {
			_ = src[n*bits/8-1]
			asm(&dst[0], &src[0], n)
		}
		ref(dst[n:], src[n*bits/8:])
	}
}

func encodeWith(bits int, asm func(dst *byte, src *float32, n int), ref func([]byte, []float32)) func([]byte, []float32) {
	return func(dst []byte, src []float32) {
		n := len(src) &^ (convertStep - 1)
		if n > 0 {
			_ = dst[n*bits/8-1]
			asm(&dst[0], &src[0], n)
		}
		ref(dst[n*bits/8:], src[n:])
	}
}

func roundWith(asm func(dst, src *float32, n int)) func([]float32) {
	return func(x []float32) {
		n := len(x) &^ (convertStep - 1)
		if n > 0 {
			asm(&x[0], &x[0], n)
		}
		roundBF16Ref(x[n:])
	}
}

func packWith(asm func(dst, src *byte, n int)) func(packed, codes []byte) {
	return func(packed, codes []byte) {
		n := len(codes) &^ (convertStep - 1)
		if n > 0 {
			_ = packed[n/2-1]
			asm(&packed[0], &codes[0], n)
		}
		packNibblesRef(packed[n/2:], codes[n:])
	}
}

func unpackWith(asm func(dst, src *byte, n int)) func(codes, packed []byte) {
	return func(codes, packed []byte) {
		n := len(codes) &^ (convertStep - 1)
		if n > 0 {
			_ = packed[n/2-1]
			asm(&codes[0], &packed[0], n)
		}
		unpackNibblesRef(codes[n:], packed[n/2:])
	}
}
