//go:build amd64 && !noasm

package kernels

import "golang.org/x/sys/cpu"

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) {
		f16 := blockLoadAsm(nil)
		if cpu.X86.HasF16C {
			f16 = blockLoadF16AVX2
		}
		s.blocks.load = loadWithAsm([...]blockLoadAsm{BF16: blockLoadBF16AVX2, F16: f16, F32: blockLoadF32AVX2})
		s.blocks.count = countWithAsm(32, [...]blockCountAsm{countPairs: blockCountPairsAVX2, countHigh: blockCountHighAVX2, countErrors: blockCountBinsAVX2})
		s.blocks.mass = massWithAsm(blockMassAVX2)
		s.blocks.encode = encodeWithAsm(&[rules]blockEncodeAsm{
			ruleE2M1: blockEncodeE2M1AVX2, ruleE2M1Down: blockEncodeE2M1DownAVX2,
			ruleE4M3: blockEncodeE4M3AVX2, ruleE4M3BF16: blockEncodeE4M3BF16AVX2, ruleE4M3Times: blockEncodeE4M3TimesAVX2,
			ruleIntMin: blockEncodeIntMinAVX2, ruleIntSym: blockEncodeIntSymAVX2, ruleIntZero: blockEncodeIntZeroAVX2, ruleIntZeroBF16: blockEncodeIntZeroBF16AVX2,
		})
	})
	avx512Kernels = append(avx512Kernels, func(s *Set) {
		s.blocks.load = loadWithAsm([...]blockLoadAsm{BF16: blockLoadBF16AVX512, F16: blockLoadF16AVX512, F32: blockLoadF32AVX512})
		s.blocks.count = countWithAsm(64, [...]blockCountAsm{countPairs: blockCountPairsAVX512, countHigh: blockCountHighAVX512, countErrors: blockCountBinsAVX512})
		s.blocks.mass = massWithAsm(blockMassAVX512)
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
const largestStep = largestSafe

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

type blockLoadAsm func(src *byte, w *float32, ranges *float32, groups, group int) uint32

// loadWithAsm goes through the reference again where an element is not finite.
func loadWithAsm(kernels [F32 + 1]blockLoadAsm) func(e Element, src []byte, w []float32, group int, ranges []blockRange) {
	return func(e Element, src []byte, w []float32, group int, ranges []blockRange) {
		n := group * len(ranges)
		if n == 0 {
			return
		}
		_, _ = src[n*e.Size()-1], w[n-1]
		if asm := kernels[e]; asm == nil || asm(&src[0], &w[0], &ranges[0].lo, len(ranges), group) >= infF32 {
			blockLoadRef(e, src, w, group, ranges)
		}
	}
}

type blockCountAsm func(data *byte, rounds int, counts *int64)

// countWithAsm gives a kernel rounds of sixteen vectors of values. What is left
// is filled up with zeros, which are not counted.
func countWithAsm(vectorBytes int, kernels [countKinds]blockCountAsm) func(kind countKind, data []byte, counts *[countBins]int64) {
	return func(kind countKind, data []byte, counts *[countBins]int64) {
		round := 16 * vectorBytes
		if kind == countPairs {
			round /= 2
		}
		if n := len(data) / round; n > 0 {
			kernels[kind](&data[0], n, &counts[0])
			data = data[n*round:]
		}
		if len(data) < 24 { // a round takes as long
			countRef(kind, data, counts)
			return
		}
		var rest [1024]byte
		zeros := round - copy(rest[:], data)
		kernels[kind](&rest[0], 1, &counts[0])
		if kind == countPairs {
			zeros *= 2
		}
		counts[0] -= int64(zeros)
	}
}

// massWithAsm takes 16·n elements.
func massWithAsm(kernel func(w *float32, n int, mid, limit float64, lanes *float64)) func(w []float32, mid, limit float64, lanes *[8]float64) {
	return func(w []float32, mid, limit float64, lanes *[8]float64) {
		if len(w) > 0 {
			kernel(&w[0], len(w), mid, limit, &lanes[0])
		}
	}
}
