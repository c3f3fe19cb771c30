//go:build amd64 && !noasm

package kernels

import (
	"math"
	"sync"
)

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) {
		s.moments = momentsBy(momentsBF16AVX2, momentsF16AVX2, momentsF32AVX2)
	})
	avx512Kernels = append(avx512Kernels, func(s *Set) {
		s.moments = momentsBy(momentsBF16AVX512, momentsF16AVX512, momentsF32AVX512)
	})
}

type momentsAsm func(src *byte, rows, cols int, sums *float64)

// momentBuffer is where rows go that do not end with a whole group of lanes.
type momentBuffer struct{ data []byte }

var momentBuffers = sync.Pool{New: func() any { return new(momentBuffer) }}

// momentsBy is momentsRef by a kernel for each kind of element. Rows are filled
// up with zeros, which change no sum. A row with an element that is not finite is the
// reference's.
func momentsBy(bf16, f16, f32 momentsAsm) func(e Element, cols int, data []byte, rows []rowMoments) {
	return func(e Element, cols int, data []byte, rows []rowMoments) {
		asm := f32
		switch e {
		case BF16:
			asm = bf16
		case F16:
			asm = f16
		}
		n := cols * e.Size()
		whole := ceilDiv(cols, momentLanes) * momentLanes
		if whole == cols {
			asm(&data[0], len(rows), cols, &rows[0][0])
		} else {
			momentsPadded(asm, data, n, whole, e.Size(), rows)
		}
		for r := range rows {
			if x := rows[r][2]; math.IsNaN(x) || math.IsInf(x, 0) {
				rows[r] = momentsRowRef(e, data[r*n:(r+1)*n])
			}
		}
	}
}

// momentsPadded takes rows of n bytes a few at a time through a buffer in which
// they have whole elements.
func momentsPadded(asm momentsAsm, data []byte, n, whole, size int, rows []rowMoments) {
	const bufferBytes = 32 << 10
	wide := whole * size
	atOnce := min(max(bufferBytes/wide, 1), len(rows))
	b := momentBuffers.Get().(*momentBuffer)
	defer momentBuffers.Put(b)
	b.data = resize(b.data, atOnce*wide)
	for r := 0; r < len(rows); r += atOnce {
		k := min(atOnce, len(rows)-r)
		for i := range k {
			row := b.data[i*wide : (i+1)*wide]
			clear(row[copy(row, data[(r+i)*n:(r+i+1)*n]):])
		}
		asm(&b.data[0], k, whole, &rows[r][0])
	}
}
