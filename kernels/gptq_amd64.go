//go:build amd64 && !noasm

package kernels

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) {
		s.gptq = gptqBy(8, &[gptqRules]gptqColumnsAsm{
			gptqE2M1: gptqColumnsE2M1AVX2, gptqIntMin: gptqColumnsIntMinAVX2, gptqIntSym: gptqColumnsIntSymAVX2,
			gptqIntZero: gptqColumnsIntZeroAVX2, gptqIntZeroBF16: gptqColumnsIntZeroBF16AVX2, gptqCodebook: gptqColumnsCodebookAVX2,
		}, gptqMovedAVX2)
		s.blocks.measure = blockMeasureBy(blockMeasureAVX2)
	})
	avx512Kernels = append(avx512Kernels, func(s *Set) {
		s.gptq = gptqBy(16, &[gptqRules]gptqColumnsAsm{
			gptqE2M1: gptqColumnsE2M1AVX512, gptqIntMin: gptqColumnsIntMinAVX512, gptqIntSym: gptqColumnsIntSymAVX512,
			gptqIntZero: gptqColumnsIntZeroAVX512, gptqIntZeroBF16: gptqColumnsIntZeroBF16AVX512, gptqCodebook: gptqColumnsCodebookAVX512,
		}, gptqMovedAVX512)
		s.blocks.measure = blockMeasureBy(blockMeasureAVX512)
	})
}

type gptqColumnsAsm func(count, behind int, m *float32, d *float64, params *int32, w, c, e *float32, codes *byte, steps, extra *float32, loss *float64)

// gptqBy are the kernels of lanes rows side by side; extra are offsets, or the whole of
// a gptqBook. A rule without one, and
// steps that a rule treats apart, are left to the definition.
func gptqBy(lanes int, rules *[gptqRules]gptqColumnsAsm, moved func(count int, m, w, v *float32)) gptqKernels {
	columns := func(r gptqRule, j *gptqColumns, first, last int) {
		if j.odd || rules[r] == nil || first == last {
			gptqColumnsRef(r, j, first, last)
			return
		}
		end := j.width * lanes
		_, _, _, _ = j.w[end-1], j.c[end-1], j.e[end-1], j.codes[end-1]
		_, _ = j.loss[lanes-1], j.m[(last-1)*factorBlock+j.width-1]
		for _, p := range j.params[first:last] {
			_, _ = j.steps[int(p)+lanes-1], j.offsets[int(p)+lanes-1]
		}
		at, extra := first*lanes, &j.offsets[0]
		if j.book != nil {
			extra = &j.book.limits[0][0]
		}
		rules[r](last-first, j.width-first-1, &j.m[first*factorBlock+first], &j.d[first], &j.params[first],
			&j.w[at], &j.c[at], &j.e[at], &j.codes[at], &j.steps[0], extra, &j.loss[0])
	}
	return gptqKernels{lanes: lanes, columns: columns, moved: func(j *gptqColumns, first, last int, v []float32) {
		n := last - first
		if n == 0 {
			return
		}
		copy(v[:n*lanes], j.c[first*lanes:last*lanes])
		_ = j.m[(last-1)*factorBlock+last-1]
		moved(n, &j.m[first*factorBlock+first], &j.w[first*lanes], &v[0])
	}}
}

// blockMeasureBy takes 16·n elements.
func blockMeasureBy(asm func(w, q *float32, n int, bins float32, dst *byte, sums *float64)) func(w, q []float32, bins float32, dst []byte, sums *blockSums) {
	return func(w, q []float32, bins float32, dst []byte, sums *blockSums) {
		n := len(w)
		if n == 0 {
			return
		}
		_, _ = q[n-1], dst[n-1]
		asm(&w[0], &q[0], n, bins, &dst[0], &sums.w2[0])
	}
}
