package recode

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// Matrix is one matrix of FP4 codes, of a stack of experts that of one of them. Its Rows
// and Cols are those of what is decoded; Tensor holds its codes.
type Matrix struct {
	topology.Matrix
	Module *layout.Module
	Expert int // in a stack of experts, -1 elsewhere

	offset, size int64 // of its codes in their tensor
	scales       int   // bytes
}

func matrixOf(m *layout.Module) Matrix {
	t := m.CodeTensor()
	x := Matrix{
		Matrix: topology.Matrix{Name: t.Name, Tensor: t.Name, Role: m.Role, Rows: m.Rows, Cols: m.Cols, RowStride: int64(m.Cols), ColStride: 1},
		Module: m, Expert: m.Expert,
	}
	if m.Expert >= 0 {
		x.Name = fmt.Sprintf("%s[%d]", t.Name, m.Expert)
	}
	for _, f := range m.Fields {
		switch f.Tensor {
		case t:
			x.offset, x.size = f.Offset, f.Size
		case m.ScaleTensor():
			x.scales = int(f.Size)
		}
	}
	return x
}

// Codes is where the codes of the matrix stand: their tensor, and the bytes of it that
// are the matrix's.
func (m *Matrix) Codes() (t *checkpoint.Tensor, offset, size int64) {
	return m.Module.CodeTensor(), m.offset, m.size
}

// Scales are the tensors of what codes stand under, which stay: block scales, and the
// second-level scale, nil where there is none.
func (m *Matrix) Scales() (blocks, global *checkpoint.Tensor) {
	return m.Module.ScaleTensor(), m.Module.GlobalTensor()
}

// Bytes is what Read wants: codes, block scales and four bytes of the second-level one.
func (m *Matrix) Bytes() int { return int(m.size) + m.scales + 4 }

// Read reads the matrix into buf, which has Bytes: its codes, then its block scales, then
// the second-level scale as f32, 0 where there is none. What is returned stands in buf.
func (m *Matrix) Read(ctx context.Context, buf []byte) (kernels.FP4, error) {
	codes, scales := int(m.size), m.scales
	if len(buf) != m.Bytes() {
		return kernels.FP4{}, fmt.Errorf("recode: %s: %d bytes of room, want %d: %w", m.Name, len(buf), m.Bytes(), kernels.ErrShape)
	}
	s := layout.Stored{Codes: buf[:0:codes], Scales: buf[codes : codes : codes+scales]}
	if err := m.Module.Read(ctx, &s, 0, m.Rows); err != nil {
		return kernels.FP4{}, err
	}
	if len(s.Codes) != codes || len(s.Scales) != scales {
		return kernels.FP4{}, fmt.Errorf("recode: %s: %d bytes of codes and %d of scales, want %d and %d: %w", m.Name, len(s.Codes), len(s.Scales), codes, scales, kernels.ErrShape)
	}
	binary.LittleEndian.PutUint32(buf[codes+scales:], math.Float32bits(s.Global))
	return m.FP4(buf), nil
}

// FP4 is the matrix that Read read into buf.
func (m *Matrix) FP4(buf []byte) kernels.FP4 {
	codes, scales := int(m.size), m.scales
	spec := m.Module.Spec
	return kernels.FP4{
		Format: spec.Format, Convention: spec.Convention, Rows: m.Rows, Cols: m.Cols,
		Codes: buf[:codes:codes], Scales: buf[codes : codes+scales : codes+scales],
		Global: math.Float32frombits(binary.LittleEndian.Uint32(buf[codes+scales:])),
	}
}

// Rows decodes rows of what was read, from the first on as many as dst holds, by the
// layout's own formula.
func Rows(dst []float32, m *kernels.FP4, first int) error {
	if m.Cols == 0 || len(dst)%m.Cols != 0 || first < 0 || len(dst)/m.Cols > m.Rows-first {
		return fmt.Errorf("recode: %d elements from row %d on of %d×%d: %w", len(dst), first, m.Rows, m.Cols, kernels.ErrShape)
	}
	rows := len(dst) / m.Cols
	codeRow, scaleRow := len(m.Codes)/m.Rows, len(m.Scales)/m.Rows
	return kernels.Dequantize(dst, kernels.Spec{Format: m.Format, Convention: m.Convention}, rows, m.Cols,
		m.Codes[first*codeRow:][:rows*codeRow], m.Scales[first*scaleRow:][:rows*scaleRow], nil, m.Global)
}
