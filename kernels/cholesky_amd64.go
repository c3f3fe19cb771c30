//go:build amd64 && !noasm

package kernels

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) {
		s.factor = factorKernels{tileCols: 8, tile: factorTileBy(8, []factorTileOf{
			{6, factorTile6x8AVX2}, {4, factorTile4x8AVX2}, {2, factorTile2x8AVX2}, {1, factorTile1x8AVX2},
		})}
	})
	avx512Kernels = append(avx512Kernels, func(s *Set) {
		s.factor = factorKernels{tileCols: 16, tile: factorTileBy(16, []factorTileOf{
			{14, factorTile14x16AVX512}, {8, factorTile8x16AVX512}, {4, factorTile4x16AVX512}, {2, factorTile2x16AVX512}, {1, factorTile1x16AVX512},
		})}
	})
}

// factorTileOf is a kernel for some rows.
type factorTileOf struct {
	rows int
	asm  func(depth int, a *float64, lda int, b, c *float64, ldc int)
}

// factorTileBy puts factorTileRef of cols columns together from kernels, the one
// for most rows first.
func factorTileBy(cols int, tiles []factorTileOf) func(rows, depth int, a []float64, lda int, b []float64, c []float64, ldc int) {
	return func(rows, depth int, a []float64, lda int, b []float64, c []float64, ldc int) {
		_, _, _ = a[(rows-1)*lda+depth-1], b[depth*cols-1], c[(rows-1)*ldc+cols-1]
		r := 0
		for _, t := range tiles {
			for ; rows-r >= t.rows; r += t.rows {
				t.asm(depth, &a[r*lda], 8*lda, &b[0], &c[r*ldc], 8*ldc)
			}
		}
	}
}
