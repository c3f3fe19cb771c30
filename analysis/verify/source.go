package verify

import (
	"context"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// chunkBytes is about how much of a source matrix is in memory at once.
const chunkBytes = 1 << 20

// matrixReader reads rows of a source matrix. It has one user.
type matrixReader struct {
	ck     *checkpoint.Checkpoint
	t      *checkpoint.Tensor
	m      *topology.Matrix
	elem   kernels.Element
	buf    []byte
	span   []byte // rows as they are stored, where they are not contiguous
	loaded bool   // span holds the whole matrix, which is stored by columns
}

// chunkRows is how many rows are read at once, a multiple of what the caller
// needs.
func (s *matrixReader) chunkRows(multiple int) int {
	rowBytes := s.m.Cols * s.elem.Size()
	n := max(1, chunkBytes/max(rowBytes, 1))
	return max(multiple, n/multiple*multiple)
}

// rows reads rows first to first+n in row-major order. The result is good until
// the next call.
func (s *matrixReader) rows(ctx context.Context, first, n int) ([]byte, error) {
	size := s.elem.Size()
	rowBytes := s.m.Cols * size
	s.buf = grow(s.buf, n*rowBytes)
	switch {
	case s.m.ColStride == 1 && s.m.RowStride == int64(s.m.Cols):
		return s.buf, s.ck.ReadAt(ctx, s.t, s.m.Offset+int64(first)*int64(rowBytes), s.buf)
	case s.m.ColStride == 1:
		stride := int(s.m.RowStride) * size
		s.span = grow(s.span, (n-1)*stride+rowBytes)
		if err := s.ck.ReadAt(ctx, s.t, s.m.Offset+int64(first)*int64(stride), s.span); err != nil {
			return nil, err
		}
		for r := range n {
			copy(s.buf[r*rowBytes:(r+1)*rowBytes], s.span[r*stride:])
		}
		return s.buf, nil
	}
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	rowStep, colStep := int(s.m.RowStride)*size, int(s.m.ColStride)*size
	for r := range n {
		at, row := (first+r)*rowStep, s.buf[r*rowBytes:(r+1)*rowBytes]
		for c := 0; c < rowBytes; c += size {
			copy(row[c:c+size], s.span[at:at+size])
			at += colStep
		}
	}
	return s.buf, nil
}

// load reads a matrix that is stored by columns, whole.
func (s *matrixReader) load(ctx context.Context) error {
	if s.loaded {
		return nil
	}
	size := int64(s.elem.Size())
	n := (int64(s.m.Rows-1)*s.m.RowStride + int64(s.m.Cols-1)*s.m.ColStride + 1) * size
	s.span = grow(s.span, int(n))
	s.loaded = true
	return s.ck.ReadAt(ctx, s.t, s.m.Offset, s.span)
}

// grow is buf with n bytes, whose content is whatever it was.
func grow[T any](buf []T, n int) []T {
	if cap(buf) < n {
		return make([]T, n)
	}
	return buf[:n]
}
