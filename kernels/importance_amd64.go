//go:build amd64 && !noasm

package kernels

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) {
		s.blocks.weighedError = weighedErrorWithAsm(&[rules]weighedErrorAsm{
			ruleIntMin: weighedErrorIntMinAVX2, ruleIntSym: weighedErrorIntSymAVX2, ruleIntZero: weighedErrorIntZeroAVX2, ruleIntZeroBF16: weighedErrorIntZeroBF16AVX2,
		})
	})
	avx512Kernels = append(avx512Kernels, func(s *Set) {
		s.nvfp4Weighted = nvfp4WeightedWithAsm
		s.blocks.weighedError = weighedErrorWithAsm(&[rules]weighedErrorAsm{
			ruleIntMin: weighedErrorIntMinAVX512, ruleIntSym: weighedErrorIntSymAVX512, ruleIntZero: weighedErrorIntZeroAVX512, ruleIntZeroBF16: weighedErrorIntZeroBF16AVX512,
		})
	})
}

type weighedErrorAsm func(w, f *float32, n int, params *float32, candidates int, norm float32, lanes *float32)

// weighedErrorWithAsm takes 16·n elements.
func weighedErrorWithAsm(kernels *[rules]weighedErrorAsm) func(r blockRule, w, f []float32, candidates []blockParams, norm float32, lanes [][16]float32) {
	return func(r blockRule, w, f []float32, candidates []blockParams, norm float32, lanes [][16]float32) {
		switch {
		case len(w) == 0 || len(candidates) == 0:
		case r == ruleIntMin && anyStepAbove(candidates, largestStep):
			weighedErrorRef(r, w, f, candidates, norm, lanes)
		default:
			_, _ = f[len(w)-1], lanes[len(candidates)-1]
			kernels[r](&w[0], &f[0], len(w), &candidates[0].step, len(candidates), norm, &lanes[0][0])
		}
	}
}

// nvfp4WeightedWithAsm is nvfp4ChooseRef under imatrix. What is left over of whole
// groups goes through one more, filled up with zeros.
func nvfp4WeightedWithAsm(j *nvfp4Job, src []byte, amax []uint32, scales, choices []byte) {
	args, ok := j.searchArgs()
	n := len(amax)
	if !ok || n == 0 {
		nvfp4ChooseRef(j, src, amax, scales, choices)
		return
	}
	stride := BlockNVFP4 * j.element.Size()
	src, scales, choices = src[:n*stride], scales[:n], choices[:n]
	tiles := j.weights.run(n)
	groups := n / weighTile
	_ = tiles[ceilDiv(n, weighTile)-1]
	if groups > 0 {
		nvfp4WeightedAVX512(&args.element, &src[0], &amax[0], &tiles[0][0], &scales[0], &choices[0], groups)
	}
	done := groups * weighTile
	if done == n {
		return
	}
	var rest struct {
		src             [weighTile * BlockNVFP4 * 4]byte
		amax            [weighTile]uint32
		scales, choices [weighTile]byte
	}
	copy(rest.src[:], src[done*stride:])
	copy(rest.amax[:], amax[done:])
	nvfp4WeightedAVX512(&args.element, &rest.src[0], &rest.amax[0], &tiles[groups][0], &rest.scales[0], &rest.choices[0], 1)
	copy(scales[done:], rest.scales[:])
	copy(choices[done:], rest.choices[:])
}
