package convert

import (
	"context"
	"encoding/binary"
	"slices"

	"quantscope/quant/checkpoint"
)

// gptqBits are the numbers of bits that every reader of GPTQ's layout knows.
var gptqBits = []int{2, 3, 4, 8}

// planGPTQ says integers as GPTQ does: transposed, with f16 scales.
func planGPTQ(b *planner, p *piece) error {
	s, err := shapeOf(p.m)
	if err != nil {
		return err
	}
	switch {
	case !slices.Contains(gptqBits, s.bits):
		return refuse(p.m, "is of %d bits, and GPTQ's readers know 2, 3, 4 and 8", s.bits)
	case s.cols*s.bits%32 != 0 || s.rows*s.bits%32 != 0:
		return refuse(p.m, "%d×%d of %d bits does not fill words of 32 along both sides, which GPTQ's readers want", s.rows, s.cols, s.bits)
	case s.group > 0 && s.cols%s.group != 0:
		return refuse(p.m, "%d inputs are no multiple of the %d of a group", s.cols, s.group)
	}
	if err := s.halves(b, p.m, checkpoint.F16, "GPTQ"); err != nil {
		return err
	}
	middle, zero, err := s.zeroPoints(b.ctx, p.m)
	if err != nil {
		return err
	}
	order, err := s.ordered(b.ctx, b, p)
	if err != nil {
		return err
	}
	p.scheme = scheme{form: integers, name: "int", bits: s.bits, group: s.group, asym: !middle, order: order, scale: checkpoint.F16}
	if p.scheme.inputs, err = b.inputsOf(p); err != nil {
		return err
	}
	if p.scheme.inputs != plainInputs {
		return refuse(p.m, "quantizes activations %s, which GPTQ does not", p.scheme.inputs)
	}
	b.facts.zero = b.facts.zero || zero
	p.promise.rounds, p.ints = true, true
	rows, cols, groups := int64(s.rows), int64(s.cols), int64(s.groups)
	lines, across := wordsFor(s.cols, s.bits), wordsFor(s.rows, s.bits)
	codes := p.add("qweight", checkpoint.I32, int64(lines), rows)
	zeros := p.add("qzeros", checkpoint.I32, groups, int64(across))
	scales := p.add("scales", checkpoint.F16, groups, rows)
	index := p.add("g_idx", checkpoint.I32, cols)
	p.write = func(ctx context.Context, put put) error {
		if err := s.putIndex(ctx, b, put, index); err != nil {
			return err
		}
		var x ints
		var line []byte
		return byRows(s.rows, s.chunk(1), func(first, n int) error {
			if err := s.read(ctx, p.m, &x, first, n); err != nil {
				return err
			}
			for k := range lines {
				line = line[:0]
				for r := range n {
					line = append(line, x.Codes[r*s.rowBytes()+4*k:][:4]...)
				}
				if err := put(codes, 4*(int64(k)*rows+int64(first)), line); err != nil {
					return err
				}
			}
			for g := range s.groups {
				line = line[:0]
				for r := range n {
					h, _ := half(checkpoint.F16, scaleAt(s.scale, x.Scales, r*s.groups+g))
					if s.scale == checkpoint.F16 {
						h = binary.LittleEndian.Uint16(x.Scales[2*(r*s.groups+g):])
					}
					line = binary.LittleEndian.AppendUint16(line, h)
				}
				if err := put(scales, 2*(int64(g)*rows+int64(first)), line); err != nil {
					return err
				}
				line = append(line[:0], make([]byte, 4*wordsFor(n, s.bits))...)
				for r := range n {
					z := s.middle
					if x.zeros != nil {
						z = x.zeros[r*s.groups+g]
					}
					putBits(line, r, s.bits, z)
				}
				if !b.facts.v2 {
					minus1(line, s.bits)
				}
				if err := put(zeros, 4*(int64(g)*int64(across)+int64(first*s.bits/32)), line); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return nil
}

// minus1 takes the 1 off each field that the older of GPTQ's formats does. None of
// them is 0, so that nothing is borrowed.
func minus1(words []byte, bits int) {
	n := 8 * len(words) / bits
	values := make([]byte, n)
	for i := range values {
		values[i] = getBits(words, i, bits) - 1
	}
	clear(words)
	for i, v := range values {
		putBits(words, i, bits, v&(1<<bits-1))
	}
}

// getBits takes a value out of a stream.
func getBits(words []byte, i, bits int) byte {
	at := i * bits
	v := uint16(words[at>>3])
	if at&7+bits > 8 {
		v |= uint16(words[at>>3+1]) << 8
	}
	return byte(v >> (at & 7) & (1<<bits - 1))
}

// putIndex writes the group of each input.
func (s *intShape) putIndex(ctx context.Context, b *planner, put put, tensor int) error {
	if s.index != nil {
		return b.copyTensor(ctx, s.index, put, tensor)
	}
	out := make([]byte, 0, 4*s.cols)
	for i := range s.cols {
		g := 0
		if s.group > 0 {
			g = i / s.group
		}
		out = binary.LittleEndian.AppendUint32(out, uint32(g))
	}
	return put(tensor, 0, out)
}
