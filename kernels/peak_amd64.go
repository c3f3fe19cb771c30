//go:build amd64 && !noasm

package kernels

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) { s.fmaLoop = fmaLoopWith(48*8, fmaLoopAVX2) })
	avx512Kernels = append(avx512Kernels, func(s *Set) { s.fmaLoop = fmaLoopWith(48*16, fmaLoopAVX512) })
}

func fmaLoopWith(perRound int, asm func(rounds int)) fmaLoop {
	return func(steps int) int {
		rounds := max(steps/perRound, 1)
		asm(rounds)
		return rounds * perRound
	}
}
