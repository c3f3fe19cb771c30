package export

import (
	"fmt"
	"math/bits"

	"quantscope/quant/checkpoint"
)

// Split deals the files of a checkpoint out to so many parts: runs of
// consecutive files, none of them empty, whose ends come as near to equal
// shares of the bytes as file boundaries allow (the earlier of two that are
// equally near). It depends on the order and the sizes of the files alone.
func Split(files []checkpoint.File, of int) ([][]int, error) {
	if of < 1 || of > len(files) {
		return nil, fmt.Errorf("%d parts of %d files: want 1 to %d", of, len(files), max(len(files), 1))
	}
	ends := make([]uint64, len(files)+1) // of each file, in bytes from the start of the first
	for i, f := range files {
		ends[i+1] = ends[i] + uint64(max(f.Size, 0))
	}
	parts := make([][]int, of)
	from := 0
	for p := range parts {
		to := len(files)
		if p < of-1 {
			to = from + 1
			want := share(ends[len(files)], p+1, of)
			last := len(files) - (of - 1 - p) // leaves a file for each part that follows
			for to < last && distance(ends[to+1], want) < distance(ends[to], want) {
				to++
			}
		}
		for i := from; i < to; i++ {
			parts[p] = append(parts[p], i)
		}
		from = to
	}
	return parts, nil
}

// share is total·k/of, rounded down, for k < of.
func share(total uint64, k, of int) uint64 {
	hi, lo := bits.Mul64(total, uint64(k))
	q, _ := bits.Div64(hi, lo, uint64(of))
	return q
}

func distance(a, b uint64) uint64 {
	if a > b {
		return a - b
	}
	return b - a
}
