package align

import (
	"context"
	"fmt"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/gguf"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// scratch is the memory of one worker.
type scratch struct {
	stored layout.Stored
	raw    []byte
	wide   []float32

	whole  *floats // whose span is in columns
	column []float32

	loaded *blocks // that operand is of
	data   []byte
	at     kernels.Operand
}

// grow is buf with n elements, whose content is whatever it was.
func grow[T any](buf []T, n int) []T {
	if cap(buf) < n {
		return make([]T, n)
	}
	return buf[:n]
}

// floats reads what stands in floating point.
type floats struct {
	ck *checkpoint.Checkpoint
	t  *checkpoint.Tensor
	m  topology.Matrix
}

func (f *floats) read(ctx context.Context, w *scratch, first int, dst []float32) error {
	rows, size := len(dst)/f.m.Cols, int64(f.t.DType.Bits()/8)
	if f.m.ColStride != 1 {
		return f.turned(ctx, w, first, dst)
	}
	stride := f.m.RowStride
	n := int64(rows-1)*stride + int64(f.m.Cols)
	w.raw = grow(w.raw, int(n*size))
	if err := f.ck.ReadAt(ctx, f.t, f.m.Offset+int64(first)*stride*size, w.raw); err != nil {
		return err
	}
	if stride == int64(f.m.Cols) {
		return checkpoint.DecodeF32(dst, f.t.DType, w.raw)
	}
	for r := range rows {
		at := int64(r) * stride * size
		if err := checkpoint.DecodeF32(dst[r*f.m.Cols:][:f.m.Cols], f.t.DType, w.raw[at:][:int64(f.m.Cols)*size]); err != nil {
			return err
		}
	}
	return nil
}

// turned reads rows of a matrix that is stored by columns, which is read whole and
// kept until another one is.
func (f *floats) turned(ctx context.Context, w *scratch, first int, dst []float32) error {
	if w.whole != f {
		n := int64(f.m.Rows-1)*f.m.RowStride + int64(f.m.Cols-1)*f.m.ColStride + 1
		w.whole, w.raw, w.column = nil, grow(w.raw, int(n*int64(f.t.DType.Bits()/8))), grow(w.column, int(n))
		if err := f.ck.ReadAt(ctx, f.t, f.m.Offset, w.raw); err != nil {
			return err
		}
		if err := checkpoint.DecodeF32(w.column, f.t.DType, w.raw); err != nil {
			return err
		}
		w.whole = f
	}
	for r := range len(dst) / f.m.Cols {
		at := int64(first+r) * f.m.RowStride
		for c := range f.m.Cols {
			dst[r*f.m.Cols+c] = w.column[at+int64(c)*f.m.ColStride]
		}
	}
	return nil
}

// coded reads a quantized module, or every step-th row of it from one on.
type coded struct {
	m           *layout.Module
	first, step int
}

func (c *coded) read(ctx context.Context, w *scratch, first int, dst []float32) error {
	cols := c.m.Cols
	rows := len(dst) / cols
	low := c.first + first*c.step
	high := low + (rows-1)*c.step + 1
	multiple := c.m.RowMultiple()
	from, to := low/multiple*multiple, min((high+multiple-1)/multiple*multiple, c.m.Rows)
	if from == low && to == high && c.step == 1 {
		return c.m.Dequantize(ctx, dst, from, &w.stored)
	}
	w.wide = grow(w.wide, (to-from)*cols)
	if err := c.m.Dequantize(ctx, w.wide, from, &w.stored); err != nil {
		return err
	}
	for r := range rows {
		copy(dst[r*cols:][:cols], w.wide[(low-from+r*c.step)*cols:])
	}
	return nil
}

// blocks reads a weight of a GGUF model.
type blocks struct {
	m *gguf.Model
	w *gguf.Weight
}

func (b *blocks) read(ctx context.Context, w *scratch, first int, dst []float32) error {
	if b.w.Vector {
		v, err := b.m.ReadVector(ctx, b.w)
		if err == nil {
			copy(dst, v[first*(b.w.Cols/max(b.w.Lines, 1)):])
		}
		return err
	}
	if w.loaded != b {
		w.loaded, w.data = nil, grow(w.data, int(b.w.Bytes()))
		l, err := b.m.Load(ctx, b.w, set, w.data)
		if err != nil {
			return err
		}
		w.loaded, w.at = b, l.Operand()
	}
	if err := set.ExpandRows(dst, w.at, first); err != nil {
		return fmt.Errorf("align: %s: %w", b.w.Name, err)
	}
	return nil
}

// rawBlocks reads rows of a tensor of a GGUF file as they are stored.
type rawBlocks struct {
	f     *gguf.File
	t     *gguf.Tensor
	first int
}

func (b *rawBlocks) read(ctx context.Context, _ *scratch, first int, dst []float32) error {
	cols := b.t.Shape[len(b.t.Shape)-1]
	return b.f.Decode(ctx, b.t, int64(b.first+first)*cols, dst)
}
