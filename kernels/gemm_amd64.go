//go:build amd64 && !noasm

package kernels

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) {
		s.gemm = gemmKernels{
			tileRows: 6, tileCols: 16, tile: gemmTileAVX2,
			copyPanel:     copyPanelWith(16, copyPanelAVX2),
			transposeF32:  transposeF32With(8, transposeF32AVX2),
			transposeBF16: transposeBF16With(8, transposeBF16AVX2),
		}
	})
	avx512Kernels = append(avx512Kernels, func(s *Set) {
		s.gemm = gemmKernels{
			tileRows: 14, tileCols: 32, tile: gemmTileAVX512,
			copyPanel:     copyPanelWith(32, copyPanelAVX512),
			transposeF32:  transposeF32With(16, transposeF32AVX512),
			transposeBF16: transposeBF16With(16, transposeBF16AVX512),
		}
	})
}

// gemmTileAVX512 puts a tile together from those of 14, 8, 4, 2 and 1 rows.
func gemmTileAVX512(rows, depth int, a, b, c []float32, stride int, alpha float32, accumulate bool) {
	const cols = 32
	_, _, _ = a[(rows-1)*gemmDepth+depth-1], b[depth*cols-1], c[(rows-1)*stride+cols-1]
	for r := 0; r < rows; {
		pa, pc := &a[r*gemmDepth], &c[r*stride]
		switch n := rows - r; {
		case n >= 14:
			gemmTile14x32AVX512(depth, pa, &b[0], pc, stride, alpha, accumulate)
			r += 14
		case n >= 8:
			gemmTile8x32AVX512(depth, pa, &b[0], pc, stride, alpha, accumulate)
			r += 8
		case n >= 4:
			gemmTile4x32AVX512(depth, pa, &b[0], pc, stride, alpha, accumulate)
			r += 4
		case n >= 2:
			gemmTile2x32AVX512(depth, pa, &b[0], pc, stride, alpha, accumulate)
			r += 2
		default:
			gemmTile1x32AVX512(depth, pa, &b[0], pc, stride, alpha, accumulate)
			r++
		}
	}
}

// gemmTileAVX2 puts a tile together from those of 6, 4, 2 and 1 rows.
func gemmTileAVX2(rows, depth int, a, b, c []float32, stride int, alpha float32, accumulate bool) {
	const cols = 16
	_, _, _ = a[(rows-1)*gemmDepth+depth-1], b[depth*cols-1], c[(rows-1)*stride+cols-1]
	for r := 0; r < rows; {
		pa, pc := &a[r*gemmDepth], &c[r*stride]
		switch n := rows - r; {
		case n >= 6:
			gemmTile6x16AVX2(depth, pa, &b[0], pc, stride, alpha, accumulate)
			r += 6
		case n >= 4:
			gemmTile4x16AVX2(depth, pa, &b[0], pc, stride, alpha, accumulate)
			r += 4
		case n >= 2:
			gemmTile2x16AVX2(depth, pa, &b[0], pc, stride, alpha, accumulate)
			r += 2
		default:
			gemmTile1x16AVX2(depth, pa, &b[0], pc, stride, alpha, accumulate)
			r++
		}
	}
}

// copyPanelWith is copyPanelRef of cols columns.
func copyPanelWith(cols int, asm func(dst, src *float32, lds, rows int)) func(dst, src []float32, lds, rows int) {
	return func(dst, src []float32, lds, rows int) {
		_, _ = dst[rows*cols-1], src[(rows-1)*lds+cols-1]
		asm(&dst[0], &src[0], 4*lds, rows)
	}
}

// transposeF32With is transposeRef by asm where it applies: whole groups of
// lanes rows, columns by four.
func transposeF32With(lanes int, asm func(dst *float32, ldd int, src *float32, lds, quads int)) func(dst []float32, ldd int, src []float32, lds, rows, cols int) {
	return func(dst []float32, ldd int, src []float32, lds, rows, cols int) {
		done := 0
		for quads := cols / 4; quads > 0 && rows-done >= lanes; done += lanes {
			_, _ = dst[(4*quads-1)*ldd+done+lanes-1], src[(done+lanes-1)*lds+4*quads-1]
			asm(&dst[done], 4*ldd, &src[done*lds], 4*lds, quads)
		}
		if rest := cols % 4; rest > 0 && done > 0 {
			transposeRef(dst[(cols-rest)*ldd:], ldd, src[cols-rest:], lds, done, rest)
		}
		if done < rows {
			transposeRef(dst[done:], ldd, src[done*lds:], lds, rows-done, cols)
		}
	}
}

// transposeBF16With is transposeBF16Ref by asm where it applies: whole groups
// of lanes rows, columns by eight.
func transposeBF16With(lanes int, asm func(dst *float32, ldd int, src *byte, lds, quads int)) func(dst []float32, ldd int, src []byte, lds, rows, cols int) {
	return func(dst []float32, ldd int, src []byte, lds, rows, cols int) {
		done := 0
		for quads := cols / 8; quads > 0 && rows-done >= lanes; done += lanes {
			_, _ = dst[(8*quads-1)*ldd+done+lanes-1], src[2*((done+lanes-1)*lds+8*quads)-1]
			asm(&dst[done], 4*ldd, &src[2*done*lds], 2*lds, quads)
		}
		if rest := cols % 8; rest > 0 && done > 0 {
			transposeBF16Ref(dst[(cols-rest)*ldd:], ldd, src[2*(cols-rest):], lds, done, rest)
		}
		if done < rows {
			transposeBF16Ref(dst[done:], ldd, src[2*done*lds:], lds, rows-done, cols)
		}
	}
}
