package convert

import (
	"context"
	"encoding/binary"

	"quantscope/quant/checkpoint"
)

// planWords says integers as compressed-tensors' pack-quantized. Scales keep their
// type: the library decodes in it.
func planWords(b *planner, p *piece) error {
	s, err := shapeOf(p.m)
	if err != nil {
		return err
	}
	if s.group > 0 && s.cols%s.group != 0 {
		return refuse(p.m, "%d inputs are no multiple of the %d of a group, which compressed-tensors wants", s.cols, s.group)
	}
	middle, _, err := s.zeroPoints(b.ctx, p.m)
	if err != nil {
		return err
	}
	order, err := s.ordered(b.ctx, b, p)
	if err != nil {
		return err
	}
	p.scheme = scheme{form: integers, name: "int", bits: s.bits, group: s.group, asym: !middle, order: order, scale: s.scale}
	if p.scheme.inputs, err = b.inputsOf(p); err != nil {
		return err
	}
	if p.scheme.inputs != plainInputs {
		return refuse(p.m, "quantizes activations %s, which pack-quantized does not", p.scheme.inputs)
	}
	b.noteType(s.scale)
	if order {
		b.notef("groups are in the order of activations, which the copy says by weight_g_idx and actorder \"group\": older releases of compressed-tensors read that, 0.19 has taken it out and refuses the config")
	}
	p.promise.rounds, p.ints = true, true
	rows, cols, groups := int64(s.rows), int64(s.cols), int64(s.groups)
	codes := p.add("weight_packed", checkpoint.I32, rows, int64(wordsFor(s.cols, s.bits)))
	scales := p.add("weight_scale", s.scale, rows, groups)
	shape := p.add("weight_shape", checkpoint.I64, 2)
	zeros, index := -1, -1
	if !middle {
		zeros = p.add("weight_zero_point", checkpoint.I32, int64(wordsFor(s.rows, s.bits)), groups)
	}
	if order {
		index = p.add("weight_g_idx", checkpoint.I32, cols)
	}
	p.write = func(ctx context.Context, put put) error {
		sides := binary.LittleEndian.AppendUint64(nil, uint64(rows))
		if err := put(shape, 0, binary.LittleEndian.AppendUint64(sides, uint64(cols))); err != nil {
			return err
		}
		if index >= 0 {
			if err := b.copyTensor(ctx, s.index, put, index); err != nil {
				return err
			}
		}
		var x ints
		var buf []byte
		return byRows(s.rows, s.chunk(2), func(first, n int) error {
			if err := s.read(ctx, p.m, &x, first, n); err != nil {
				return err
			}
			stride := 4 * wordsFor(s.cols, s.bits)
			buf = padRows(buf, x.Codes, n, s.rowBytes(), stride)
			if err := put(codes, int64(first)*int64(stride), buf); err != nil {
				return err
			}
			if err := put(scales, int64(first)*groups*int64(s.scale.Bits()/8), x.Scales); err != nil {
				return err
			}
			if zeros < 0 {
				return nil
			}
			buf = downWords(buf, x.zeros, n, s.groups, s.bits)
			return put(zeros, int64(first*s.bits/32)*groups*4, buf)
		})
	}
	return nil
}

// padRows fills rows up with 0.
func padRows(buf, rows []byte, n, from, to int) []byte {
	buf = append(buf[:0], make([]byte, n*to)...)
	for r := range n {
		copy(buf[r*to:], rows[r*from:(r+1)*from])
	}
	return buf
}

// downWords packs a value of each of n outputs and groups along the outputs: words by
// groups.
func downWords(buf, values []byte, n, groups, bits int) []byte {
	lines := wordsFor(n, bits)
	buf = append(buf[:0], make([]byte, 4*lines*groups)...)
	column := make([]byte, 4*lines)
	for g := range groups {
		clear(column)
		for r := range n {
			putBits(column, r, bits, values[r*groups+g])
		}
		for k := range lines {
			copy(buf[4*(k*groups+g):][:4], column[4*k:])
		}
	}
	return buf
}

// ordered says whether groups are not those that follow one another.
func (s *intShape) ordered(ctx context.Context, b *planner, p *piece) (bool, error) {
	if s.index == nil {
		return false, nil
	}
	var x ints
	if err := s.read(ctx, p.m, &x, 0, min(s.rows, p.m.RowMultiple())); err != nil {
		return false, err
	}
	return x.Groups != nil, nil
}
