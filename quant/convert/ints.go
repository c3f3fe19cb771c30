package convert

import (
	"context"
	"encoding/binary"
	"math"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
)

// intShape is how a module stores integers: scale·(code − zero point), with codes
// and zero points from 0 to 2^bits−1.
type intShape struct {
	bits, rows, cols int
	group, groups    int // inputs that share a scale, 0 for all; scales of a row
	middle           byte
	index            *checkpoint.Tensor // the group of each input; nil where they follow one another
	scale            checkpoint.DType
	signed           bool // zero points are the kernels': a byte with a sign, 8 below
	minima           bool // a minimum is stored in place of a zero point: −zero point · scale
}

func shapeOf(m *layout.Module) (intShape, error) {
	s := intShape{rows: m.Rows, cols: m.Cols, scale: m.ScaleTensor().DType}
	if formOf(m) == affine && m.Method != layout.Quantscope {
		return s, refuse(m, "MLX rounds the product with the scale and again the sum with the bias, which a zero point does not: only quantscope's own layout may have the same values")
	}
	if formOf(m) == affine {
		f := m.Format()
		s.bits, s.group, s.middle, s.minima = f.Bits, f.Group, byte(1)<<(f.Bits-1), true
		if s.groups = 1; s.group > 0 {
			s.groups = (m.Cols + s.group - 1) / s.group
		}
	} else if n, ok := m.Integers(); ok {
		s.bits, s.group, s.groups, s.index = n.Bits, n.Group, n.Groups, n.Index
		s.middle = byte(1) << (n.Bits - 1)
		if m.MinTensor() == nil && n.Middle != int(s.middle) {
			return s, refuse(m, "its codes stand for themselves less %d, which is not their middle and is not stored", n.Middle)
		}
	} else {
		f := m.Format()
		s.bits, s.group, s.middle, s.signed = f.Bits, f.Group, byte(1)<<(f.Bits-1), true
		s.groups = 1
		if s.group > 0 {
			s.groups = (m.Cols + s.group - 1) / s.group
		}
	}
	if int64(m.Rows)*int64(s.groups)*int64(s.scale.Bits()/8) != m.ScaleTensor().Size {
		return s, refuse(m, "does not have a scale for each group of each output")
	}
	return s, nil
}

// rowBytes is what the codes of an output take.
func (s *intShape) rowBytes() int { return (s.cols*s.bits + 7) / 8 }

// ints is some rows of a module.
type ints struct {
	layout.Stored
	zeros []byte // of each group of each row, in code values; nil where all are the middle
	steps []byte // memory for those that are derived
	four  []byte // and for codes that are unpacked
}

// read reads rows; the memory of x is used again.
func (s *intShape) read(ctx context.Context, m *layout.Module, x *ints, first, rows int) error {
	if err := m.Read(ctx, &x.Stored, first, rows); err != nil {
		return err
	}
	x.zeros = nil
	switch {
	case s.minima:
		return s.derive(m, x, first)
	case m.MinTensor() == nil:
		return nil
	}
	if x.zeros = x.Mins; !s.signed {
		return nil
	}
	for i, z := range x.zeros {
		x.zeros[i] = byte(int(int8(z)) + int(s.middle))
	}
	return nil
}

// derive finds the zero points that minima stand for: each must be a whole number of
// steps below 0, exactly. Both are bf16, whose quotient is whole where it rounds to that.
func (s *intShape) derive(m *layout.Module, x *ints, first int) error {
	n := len(x.Scales) / (s.scale.Bits() / 8)
	x.steps = append(x.steps[:0], make([]byte, n)...)
	for i := range n {
		scale, low := scaleAt(s.scale, x.Scales, i), scaleAt(s.scale, x.Mins, i)
		z := -low / scale
		switch {
		case scale == 0 && low == 0:
			z = float32(s.middle)
		case !(z >= 0 && z < float32(int(1)<<s.bits)) || z != float32(int(z)):
			return refuse(m, "output %d, group %d has the minimum %v, which is no whole number of its steps of %v: there is no zero point for it", first+i/s.groups, i%s.groups, low, scale)
		}
		x.steps[i] = byte(z)
	}
	x.zeros = x.steps
	return nil
}

// zeroPoints reads all zero points of a module: whether they are all the middle, and
// whether one of them is 0. Codes are not read twice: a few rows at a time are.
func (s *intShape) zeroPoints(ctx context.Context, m *layout.Module) (middle, zero bool, err error) {
	if !s.minima && m.MinTensor() == nil {
		return true, false, nil
	}
	middle = true
	var x ints
	err = byRows(m.Rows, s.chunk(1), func(first, n int) error {
		if err := s.read(ctx, m, &x, first, n); err != nil {
			return err
		}
		for _, z := range x.zeros {
			middle = middle && z == s.middle
			zero = zero || z == 0
		}
		return nil
	})
	return middle, zero, err
}

// chunkBytes is about how much of a module is in memory at once.
const chunkBytes = 16 << 20

// rowUnit is what chunks of rows are a multiple of: outputs that begin with a word of
// their own, at any number of bits.
const rowUnit = 128

// chunk is how many rows are read at once, where each takes so many times the bytes of
// its codes.
func (s *intShape) chunk(times int) int {
	return max(chunkBytes/max(times*s.rowBytes(), 1)/rowUnit, 1) * rowUnit
}

// byRows goes through rows in chunks.
func byRows(rows, step int, do func(first, n int) error) error {
	for first := 0; first < rows; first += step {
		if err := do(first, min(step, rows-first)); err != nil {
			return err
		}
	}
	return nil
}

// scaleAt decodes a scale of what was read.
func scaleAt(d checkpoint.DType, raw []byte, i int) float32 {
	switch d {
	case checkpoint.F16:
		return kernels.F16ToF32(binary.LittleEndian.Uint16(raw[2*i:]))
	case checkpoint.BF16:
		return kernels.BF16ToF32(binary.LittleEndian.Uint16(raw[2*i:]))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
}

// half encodes a scale as F16 or BF16; it is false where that is not the same
// number. NaN stays NaN.
func half(d checkpoint.DType, v float32) (bits uint16, same bool) {
	if d == checkpoint.F16 {
		bits = kernels.F32ToF16(v)
		back := kernels.F16ToF32(bits)
		return bits, back == v || v != v && back != back
	}
	bits = kernels.F32ToBF16(v)
	back := kernels.BF16ToF32(bits)
	return bits, back == v || v != v && back != back
}

// halves wants every scale of a module to be a number of a narrower type.
func (s *intShape) halves(b *planner, m *layout.Module, d checkpoint.DType, whose string) error {
	if s.scale == d {
		return nil
	}
	raw := make([]byte, min(m.ScaleTensor().Size, 1<<20))
	size := s.scale.Bits() / 8
	for off := int64(0); off < m.ScaleTensor().Size; off += int64(len(raw)) {
		part := raw[:min(int64(len(raw)), m.ScaleTensor().Size-off)]
		if err := b.ck.ReadAt(b.ctx, m.ScaleTensor(), off, part); err != nil {
			return err
		}
		for i := range len(part) / size {
			v := scaleAt(s.scale, part, i)
			if _, same := half(d, v); !same {
				return refuse(m, "element %d of %s is %v, which is no %s, and %s has no other scales", off/int64(size)+int64(i), m.ScaleTensor().Name, v, d, whose)
			}
		}
	}
	return nil
}

// putBits puts value i of a stream of values of some bits into it, the first in the
// lowest bits. What is there is 0.
func putBits(words []byte, i, bits int, v byte) {
	at := i * bits
	x := uint16(v) << (at & 7)
	words[at>>3] |= byte(x)
	if x > 0xff {
		words[at>>3+1] |= byte(x >> 8)
	}
}

// wordsFor is how many words so many values take.
func wordsFor(n, bits int) int { return (n*bits + 31) / 32 }
