//go:build amd64 && !noasm

package kernels

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) {
		s.blocks.encode = encodeWithAsm(&[rules]blockEncodeAsm{
			ruleE2M1: blockEncodeE2M1AVX2, ruleE2M1Down: blockEncodeE2M1DownAVX2,
			ruleE4M3: blockEncodeE4M3AVX2, ruleE4M3BF16: blockEncodeE4M3BF16AVX2, ruleE4M3Times: blockEncodeE4M3TimesAVX2,
			ruleIntMin: blockEncodeIntMinAVX2, ruleIntSym: blockEncodeIntSymAVX2, ruleIntZero: blockEncodeIntZeroAVX2, ruleIntZeroBF16: blockEncodeIntZeroBF16AVX2,
		})
	})
	avx512Kernels = append(avx512Kernels, func(s *Set) {
		s.blocks.encode = encodeWithAsm(&[rules]blockEncodeAsm{
			ruleE2M1: blockEncodeE2M1AVX512, ruleE2M1Down: blockEncodeE2M1DownAVX512,
			ruleE4M3: blockEncodeE4M3AVX512, ruleE4M3BF16: blockEncodeE4M3BF16AVX512, ruleE4M3Times: blockEncodeE4M3TimesAVX512,
			ruleIntMin: blockEncodeIntMinAVX512, ruleIntSym: blockEncodeIntSymAVX512, ruleIntZero: blockEncodeIntZeroAVX512, ruleIntZeroBF16: blockEncodeIntZeroBF16AVX512,
		})
	})
}

type blockEncodeAsm func(w, params *float32, codes, bins *byte, sums *float64, groups, group int)

// largestStep is a bound below which no intermediate result of ruleIntMin is
// beyond f32; groups with larger steps go to the reference.
const largestStep = 0x1p120

func encodeWithAsm(kernels *[rules]blockEncodeAsm) func(r blockRule, w []float32, group int, params []blockParams, codes, bins []byte, sums *blockSums) {
	return func(r blockRule, w []float32, group int, params []blockParams, codes, bins []byte, sums *blockSums) {
		n := group * len(params)
		if n == 0 {
			return
		}
		if r == ruleIntMin && anyStepAbove(params, largestStep) {
			blockEncodeRef(r, w, group, params, codes, bins, sums)
			return
		}
		_, _, _ = w[n-1], codes[n*r.bits()/8-1], bins[n-1]
		kernels[r](&w[0], &params[0].step, &codes[0], &bins[0], &sums.w2[0], len(params), group)
	}
}

func anyStepAbove(params []blockParams, bound float32) bool {
	for i := range params {
		if params[i].step > bound {
			return true
		}
	}
	return false
}
