//go:build amd64 && !noasm

package kernels

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) {
		s.nibbles = &nibbleKernels{nibbleStepsAVX2, nibbleZerosAVX2, nibbleMinimaAVX2}
	})
	avx512Kernels = append(avx512Kernels, func(s *Set) {
		s.nibbles = &nibbleKernels{nibbleStepsAVX512, nibbleZerosAVX512, nibbleMinimaAVX512}
	})
}
