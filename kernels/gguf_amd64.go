//go:build amd64 && !noasm

package kernels

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) { s.gguf = ggufAVX2 })
	avx512Kernels = append(avx512Kernels, func(s *Set) { s.gguf = ggufAVX512 })
}

var ggufAVX2 = []ggufBlocks{
	GGUFQ4_0:  decodeQ4_0AVX2,
	GGUFQ4_1:  decodeQ4_1AVX2,
	GGUFQ5_0:  decodeQ5_0AVX2,
	GGUFQ5_1:  decodeQ5_1AVX2,
	GGUFQ8_0:  decodeQ8_0AVX2,
	GGUFQ2_K:  decodeQ2KAVX2,
	GGUFQ3_K:  decodeQ3KAVX2,
	GGUFQ4_K:  decodeQ4KAVX2,
	GGUFQ5_K:  decodeQ5KAVX2,
	GGUFQ6_K:  decodeQ6KAVX2,
	GGUFIQ4NL: decodeIQ4NLAVX2,
	GGUFIQ4XS: decodeIQ4XSAVX2,
	GGUFMXFP4: decodeGGUFMXFP4AVX2,
}

var ggufAVX512 = []ggufBlocks{
	GGUFQ4_0:  decodeQ4_0AVX512,
	GGUFQ4_1:  decodeQ4_1AVX512,
	GGUFQ5_0:  decodeQ5_0AVX512,
	GGUFQ5_1:  decodeQ5_1AVX512,
	GGUFQ8_0:  decodeQ8_0AVX512,
	GGUFQ2_K:  decodeQ2KAVX512,
	GGUFQ3_K:  decodeQ3KAVX512,
	GGUFQ4_K:  decodeQ4KAVX512,
	GGUFQ5_K:  decodeQ5KAVX512,
	GGUFQ6_K:  decodeQ6KAVX512,
	GGUFIQ4NL: decodeIQ4NLAVX512,
	GGUFIQ4XS: decodeIQ4XSAVX512,
	GGUFMXFP4: decodeGGUFMXFP4AVX512,
}
