//go:build amd64 && !noasm

package kernels

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) {
		s.blocks.rangeError = rangeErrorWithAsm(&[rules]rangeErrorAsm{
			ruleIntMin: rangeErrorIntMinAVX2, ruleIntSym: rangeErrorIntSymAVX2, ruleIntZero: rangeErrorIntZeroAVX2, ruleIntZeroBF16: rangeErrorIntZeroBF16AVX2,
		})
	})
	avx512Kernels = append(avx512Kernels, func(s *Set) {
		s.blocks.rangeError = rangeErrorWithAsm(&[rules]rangeErrorAsm{
			ruleIntMin: rangeErrorIntMinAVX512, ruleIntSym: rangeErrorIntSymAVX512, ruleIntZero: rangeErrorIntZeroAVX512, ruleIntZeroBF16: rangeErrorIntZeroBF16AVX512,
		})
	})
}

type rangeErrorAsm func(w *float32, n int, params *float32, candidates int, norm float32, powers, lanes *float32)

// rangeErrorWithAsm takes 16·n elements.
func rangeErrorWithAsm(kernels *[rules]rangeErrorAsm) func(r blockRule, w []float32, candidates []blockParams, norm float32, lanes [][16]float32) {
	return func(r blockRule, w []float32, candidates []blockParams, norm float32, lanes [][16]float32) {
		switch {
		case len(w) == 0 || len(candidates) == 0:
		case r == ruleIntMin && anyStepAbove(candidates, largestStep):
			rangeErrorRef(r, w, candidates, norm, lanes)
		default:
			_ = lanes[len(candidates)-1]
			kernels[r](&w[0], len(w), &candidates[0].step, len(candidates), norm, &rangePower[0], &lanes[0][0])
		}
	}
}
