package layout

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// place is where something of a matrix stands: row r (of the matrix, or of what
// the field has rows of) at byte off + r·row of the tensor.
type place struct {
	t        *checkpoint.Tensor // nil where the layout has no such field
	off, row int64
}

// Stored is what a range of rows is stored as, in the form that the kernels
// read and write: codes packed by row, scales and what stands beside them as
// kernels.Sizes says.
type Stored struct {
	Codes, Scales, Mins []byte
	Global              float32 // as stored; 0 where the layout has none
	Codebook            uint16  // what codes of two bits stand for, see kernels.Spec; 0 of other formats

	// Groups is the group of each input where a layout keeps that and they do not
	// follow one another; nil elsewhere.
	Groups []int32

	// Columns is what the weights of each input are multiplied by after they are
	// decoded, where a layout keeps that (ModelOpt's pre_quant_scale); nil elsewhere.
	// Decode and Panel multiply.
	Columns []float32

	words []byte // what is unpacked into Codes or Mins
}

// RowMultiple is what the first row of a range must be a multiple of: a tile's
// height, or the outputs whose zero points share a word.
func (m *Module) RowMultiple() int {
	switch {
	case m.zeros:
		return 8
	case m.packed != nil:
		return max(1, m.packed.multiple)
	case m.own != nil:
		return m.own.rowMultiple()
	}
	return max(1, m.tileR)
}

// Tile is the rows and columns that share a scale in a format of tiles, 0 and 0
// in others.
func (m *Module) Tile() (rows, cols int) { return m.tileR, m.tileC }

// CodeTensor is the stored tensor of the codes.
func (m *Module) CodeTensor() *checkpoint.Tensor { return m.codes.t }

// ScaleTensor is the stored tensor of the block scales, nil where there is none.
func (m *Module) ScaleTensor() *checkpoint.Tensor { return m.scales.t }

// GlobalTensor is the stored tensor of the second-level scale, nil where there
// is none. A format with one scale a tensor has it here and as its ScaleTensor.
func (m *Module) GlobalTensor() *checkpoint.Tensor { return m.global.t }

// MinTensor is the stored tensor of minima or zero points, nil where there is
// none.
func (m *Module) MinTensor() *checkpoint.Tensor { return m.mins.t }

// Format is the format's row in the table of kernels.
func (m *Module) Format() kernels.Format { return m.format }

// Bytes is what the module's fields take.
func (m *Module) Bytes() int64 {
	var n int64
	for _, f := range m.Fields {
		n += f.Size
	}
	return n
}

// Global reads the second-level scale, as what blocks' scales are multiplied by or
// divided by; 0 where the layout has none.
func (m *Module) Global(ctx context.Context) (float32, error) {
	if m.global.t == nil {
		return m.unit, nil
	}
	v, err := m.storedGlobal(ctx)
	if m.unit != 0 {
		v /= m.unit
	}
	return v, err
}

// storedGlobal is the second-level scale as it is stored.
func (m *Module) storedGlobal(ctx context.Context) (float32, error) {
	var raw [4]byte
	n := m.global.t.DType.Bits() / 8
	if err := m.ck.ReadAt(ctx, m.global.t, m.global.off, raw[:n]); err != nil {
		return 0, err
	}
	if n == 2 {
		return kernels.BF16ToF32(binary.LittleEndian.Uint16(raw[:])), nil
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(raw[:])), nil
}

// checkRows wants a range of rows that is inside and begins where it may.
func (m *Module) checkRows(first, rows int) error {
	if first < 0 || rows < 0 || rows > m.Rows-first {
		return fmt.Errorf("layout: %s: rows %d to %d of %d: %w", m.Name, first, first+rows, m.Rows, kernels.ErrShape)
	}
	if first%m.RowMultiple() != 0 || rows%m.RowMultiple() != 0 && first+rows != m.Rows {
		return fmt.Errorf("layout: %s: rows %d to %d are no multiple of %d: %w", m.Name, first, first+rows, m.RowMultiple(), kernels.ErrShape)
	}
	return nil
}

// Read reads what the rows from first on are stored as. It uses the memory of s
// again where it is enough.
func (m *Module) Read(ctx context.Context, s *Stored, first, rows int) error {
	if err := m.checkRows(first, rows); err != nil {
		return err
	}
	s.Groups, s.Codebook = nil, 0
	var err error
	if s.Columns, err = m.readColumns(ctx, s.Columns); err != nil {
		return err
	}
	if m.packed != nil {
		return m.readPacked(ctx, s, first, rows)
	}
	if s.Global, err = m.Global(ctx); err != nil {
		return err
	}
	if s.Codebook, err = m.Codebook(ctx); err != nil {
		return err
	}
	if m.own != nil {
		return m.own.read(ctx, m, s, first, rows)
	}
	if err := m.readCodes(ctx, s, int64(first), int64(rows)); err != nil {
		return err
	}
	if err := m.readScales(ctx, s, int64(first), int64(rows)); err != nil {
		return err
	}
	return m.readMins(ctx, s, int64(first), int64(rows))
}

func (m *Module) readCodes(ctx context.Context, s *Stored, first, rows int64) (err error) {
	if !m.words {
		s.Codes, err = m.readPlace(ctx, s.Codes, m.codes, first, rows)
		return err
	}
	if s.words, err = m.readPlace(ctx, s.words, m.codes, first, rows); err != nil {
		return err
	}
	s.Codes = grow(s.Codes, int(rows)*((m.Cols+1)/2))
	return kernels.UnpackCodesInt32(s.Codes, s.words, int(rows), m.Cols)
}

// readScales reads the scales of rows: of a tensor that has one it is read with
// the first of them, as kernels.Pass gives it.
func (m *Module) readScales(ctx context.Context, s *Stored, first, rows int64) (err error) {
	switch {
	case m.format.Scope == kernels.ScopeTensor && first > 0:
		s.Scales = s.Scales[:0]
		return nil
	case m.format.Scope == kernels.ScopeTensor:
		s.Scales = grow(s.Scales, m.ScaleSize())
		return m.ck.ReadAt(ctx, m.scales.t, m.scales.off, s.Scales)
	case m.tileR > 0:
		first, rows = first/int64(m.tileR), ceil(rows, int64(m.tileR))
	}
	if m.powers() {
		if s.words, err = m.readPlace(ctx, s.words, m.scales, first, rows); err != nil {
			return err
		}
		s.Scales = grow(s.Scales, 4*len(s.words))
		for i, code := range s.words {
			binary.LittleEndian.PutUint32(s.Scales[4*i:], math.Float32bits(kernels.E8M0ToF32(code)))
		}
		return nil
	}
	s.Scales, err = m.readPlace(ctx, s.Scales, m.scales, first, rows)
	return err
}

// powers says whether the scales of tiles are stored as powers of two, and read as
// the f32 that they stand for.
func (m *Module) powers() bool {
	return m.tileR > 0 && m.scales.t.DType.Bits() == 8
}

func (m *Module) readMins(ctx context.Context, s *Stored, first, rows int64) (err error) {
	if !m.zeros {
		s.Mins, err = m.readPlace(ctx, s.Mins, m.mins, first, rows)
		return err
	}
	if s.words, err = m.readPlace(ctx, s.words, m.mins, first/8, ceil(rows, 8)); err != nil {
		return err
	}
	groups := int(m.mins.row / 4)
	s.Mins = grow(s.Mins, int(rows)*groups)
	return kernels.UnpackZeroPoints(s.Mins, s.words, int(rows), groups, 4)
}

// grow is buf with n bytes, whose content is whatever it was.
func grow(buf []byte, n int) []byte {
	if cap(buf) < n {
		return make([]byte, n)
	}
	return buf[:n]
}

// readPlace reads rows of one field.
func (m *Module) readPlace(ctx context.Context, buf []byte, p place, first, rows int64) ([]byte, error) {
	if p.t == nil {
		return buf[:0], nil
	}
	buf = grow(buf, int(rows*p.row))
	return buf, m.ck.ReadAt(ctx, p.t, p.off+first*p.row, buf)
}

// Dequantize decodes the rows from first on, as many as dst holds of Cols
// elements, by the layout's own formula. s is memory to use again; it holds what
// was read.
func (m *Module) Dequantize(ctx context.Context, dst []float32, first int, s *Stored) error {
	if len(dst)%m.Cols != 0 {
		return fmt.Errorf("layout: %s: %d elements are no rows of %d: %w", m.Name, len(dst), m.Cols, kernels.ErrShape)
	}
	if err := m.Read(ctx, s, first, len(dst)/m.Cols); err != nil {
		return err
	}
	return m.Decode(dst, s)
}

// Decode decodes what Read read.
func (m *Module) Decode(dst []float32, s *Stored) error {
	rows := len(dst) / m.Cols
	if m.OwnPanels() {
		return m.Panel(dst, s, 0, rows, 0, m.Cols)
	}
	var err error
	if m.tileR > 0 {
		err = kernels.DequantizeFP8Tiles(dst, m.Spec.Convention, rows, m.Cols, m.tileR, m.tileC, s.Codes, s.Scales)
	} else {
		err = kernels.Dequantize(dst, m.SpecOf(s), rows, m.Cols, s.Codes, s.Scales, s.Mins, s.Global)
	}
	if err != nil {
		return fmt.Errorf("layout: %s: %w", m.Name, err)
	}
	s.Multiply(dst, 0, m.Cols)
	return nil
}

// ScaleSize is the bytes of one block scale as Read gives it; 0 where there is
// none.
func (m *Module) ScaleSize() int {
	switch {
	case m.scales.t == nil:
		return 0
	case m.powers():
		return 4
	}
	return m.scales.t.DType.Bits() / 8
}

// Steps decodes the scales of what was read, in their order: what an element
// code of 1 stands for in each block.
func (m *Module) Steps(s *Stored) []float32 {
	if m.format.Scope == kernels.ScopeTensor {
		return []float32{s.Global}
	}
	size := max(m.ScaleSize(), 1)
	out := make([]float32, 0, len(s.Scales)/size)
	for k := 0; k+size <= len(s.Scales); k += size {
		raw := s.Scales[k : k+size]
		var v float32
		switch {
		case m.format.Scale == "e4m3":
			v = kernels.E4M3ToF32(raw[0])
		case m.format.Scale == "e8m0":
			v = kernels.E8M0ToF32(raw[0])
		case m.format.Scale == "f16":
			v = kernels.F16ToF32(binary.LittleEndian.Uint16(raw))
		case size == 2:
			v = kernels.BF16ToF32(binary.LittleEndian.Uint16(raw))
		case size == 4:
			v = math.Float32frombits(binary.LittleEndian.Uint32(raw))
		}
		switch {
		case m.format.TensorBytes == 0 || m.format.Scale == "e8m0":
		case m.divides():
			v /= s.Global
		default:
			v *= s.Global
		}
		out = append(out, v)
	}
	return out
}

// StepIndex is which of the Steps of what was read is that of an element, its row
// counted from the first that was read.
func (m *Module) StepIndex(s *Stored, row, col int) int {
	switch m.format.Scope {
	case kernels.ScopeChannel:
		return row
	case kernels.ScopeGroup:
		if s.Groups != nil {
			return row*m.packed.groups + int(s.Groups[col])
		}
		return row*((m.Cols+m.format.Group-1)/m.format.Group) + col/m.format.Group
	case kernels.ScopeTile:
		return row/m.tileR*((m.Cols+m.tileC-1)/m.tileC) + col/m.tileC
	}
	return 0
}
