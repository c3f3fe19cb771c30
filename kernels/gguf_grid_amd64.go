//go:build amd64 && !noasm

package kernels

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) { s.grid = gridKernels{uniform: uniformWithAVX2, levels: levelsWithAVX2} })
	avx512Kernels = append(avx512Kernels, func(s *Set) { s.grid = gridKernels{uniform: uniformWithAVX512, levels: levelsWithAVX512} })
}

func uniformWithAVX2(out []gridSums, tries []gridTry, x, w []float32, low, high float32) {
	if n := len(tries); n > 0 {
		uniformSumsAVX2(&out[0].rr, &tries[0].inverse, n, &x[0], &w[0], len(x), low, high)
	}
}

func levelsWithAVX2(out []gridSums, tries []gridTry, x, w []float32, levels *gridLevels) {
	if n := len(tries); n > 0 {
		levelSumsAVX2(&out[0].rr, &tries[0].inverse, n, &x[0], &w[0], len(x), &levels.bounds[0])
	}
}

// Wide vectors hold two tries; the last of an odd number is left to narrow ones.
func uniformWithAVX512(out []gridSums, tries []gridTry, x, w []float32, low, high float32) {
	pairs := len(tries) / 2
	if pairs > 0 {
		uniformSumsAVX512(&out[0].rr, &tries[0].inverse, pairs, &x[0], &w[0], len(x), low, high)
	}
	uniformWithAVX2(out[2*pairs:], tries[2*pairs:], x, w, low, high)
}

func levelsWithAVX512(out []gridSums, tries []gridTry, x, w []float32, levels *gridLevels) {
	pairs := len(tries) / 2
	if pairs > 0 {
		levelSumsAVX512(&out[0].rr, &tries[0].inverse, pairs, &x[0], &w[0], len(x), &levels.bounds[0])
	}
	levelsWithAVX2(out[2*pairs:], tries[2*pairs:], x, w, levels)
}
