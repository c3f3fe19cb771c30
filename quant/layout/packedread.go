package layout

import (
	"context"
	"encoding/binary"
)

// stripBytes bounds what of transposed codes is read at once.
const stripBytes = 1 << 20

// wordMultiple is how many outputs begin with a word of their own, where words hold
// outputs.
func wordMultiple(bits int) int {
	switch bits {
	case 3:
		return 32
	case 2:
		return 16
	case 8:
		return 4
	}
	return 8
}

// strips reads columns first … first+n of a matrix of words, lines lines, in
// strips of an even number of lines, and gives each to use with its first line.
func (m *Module) strips(ctx context.Context, s *Stored, lines, width, first, n int, use func(words []byte, line, lines int)) error {
	step := min(lines, max(2, stripBytes/(4*n)&^1))
	s.words = grow(s.words, step*n*4)
	for line := 0; line < lines; line += step {
		k := min(step, lines-line)
		words := s.words[:k*n*4]
		at := m.codes.off + 4*(int64(line)*int64(width)+int64(first))
		if n == width {
			if err := m.ck.ReadAt(ctx, m.codes.t, at, words); err != nil {
				return err
			}
		} else {
			for i := range k {
				if err := m.ck.ReadAt(ctx, m.codes.t, at+4*int64(i)*int64(width), words[4*i*n:][:4*n]); err != nil {
					return err
				}
			}
		}
		use(words, line, k)
	}
	return nil
}

// readGPTQ turns words of inputs by outputs: those of one output after another
// are its codes packed by row.
func (m *Module) readGPTQ(ctx context.Context, s *Stored, first, rows int) error {
	rowBytes := m.rowBytes()
	s.Codes = grow(s.Codes, rows*rowBytes)
	if rows == 0 {
		return nil
	}
	lines := int(m.codes.t.Shape[0])
	return m.strips(ctx, s, lines, m.Rows, first, rows, func(words []byte, line, n int) {
		whole := min(n, (rowBytes-4*line)/4)
		for r0 := 0; r0 < rows; r0 += turnedAtOnce {
			some := min(turnedAtOnce, rows-r0)
			for k := range n {
				from := words[4*(k*rows+r0):][:4*some]
				at := r0*rowBytes + 4*(line+k)
				for ; len(from) > 0; from, at = from[4:], at+rowBytes {
					if k < whole {
						copy(s.Codes[at:at+4], from)
					} else { // the last word of a row is cut
						copy(s.Codes[at:at+rowBytes-4*(line+k)], from)
					}
				}
			}
		}
	})
}

// turnedAtOnce is how many outputs are written to beside one another: as many as
// have their words in a cache line.
const turnedAtOnce = 16

// readAWQ turns words of eight outputs for each input.
func (m *Module) readAWQ(ctx context.Context, s *Stored, first, rows int) error {
	rowBytes := m.rowBytes()
	s.Codes = grow(s.Codes, rows*rowBytes)
	if rows == 0 {
		return nil
	}
	width, n := m.Rows/8, rows/8
	order := m.packed.order
	if order == nil {
		order = &awqPlace
	}
	flip := m.packed.flip * 0x11
	return m.strips(ctx, s, m.Cols, width, first/8, n, func(words []byte, line, lines int) {
		for k := range n {
			for i := 0; i < lines; i += 2 {
				even := binary.LittleEndian.Uint32(words[4*(i*n+k):])
				odd := uint32(0)
				if i+1 < lines {
					odd = binary.LittleEndian.Uint32(words[4*((i+1)*n+k):])
				}
				at := 8*k*rowBytes + (line+i)/2
				for _, p := range order {
					s.Codes[at] = byte(even>>(4*p)&15|odd>>(4*p)&15<<4) ^ flip
					at += rowBytes
				}
			}
		}
	})
}

// readTurnedScales turns scales of groups by outputs.
func (m *Module) readTurnedScales(ctx context.Context, s *Stored, first, rows int) error {
	size, groups := m.ScaleSize(), m.packed.groups
	s.Scales, s.words = grow(s.Scales, rows*groups*size), grow(s.words, rows*size)
	for g := range groups {
		if err := m.ck.ReadAt(ctx, m.scales.t, m.scales.off+int64(g)*m.scales.row+int64(first*size), s.words); err != nil {
			return err
		}
		for r := range rows {
			copy(s.Scales[(r*groups+g)*size:][:size], s.words[r*size:])
		}
	}
	return nil
}

// readTurnedZeros takes zero points out of their words, which are groups by outputs: a
// byte each, row by row.
func (m *Module) readTurnedZeros(ctx context.Context, s *Stored, first, rows int) ([]byte, error) {
	p := m.packed
	out := grow(s.Mins, rows*p.groups)
	n := (rows*p.bits + 31) / 32
	s.words = grow(s.words, 4*n)
	for g := range p.groups {
		if err := m.ck.ReadAt(ctx, m.mins.t, m.mins.off+int64(g)*m.mins.row+int64(first*p.bits/8), s.words); err != nil {
			return out, err
		}
		if p.minus1 {
			plus1(s.words, p.bits)
		}
		for r := range rows {
			k := r
			if p.awq {
				k = r&^7 + awqPlace[r&7]
			}
			out[r*p.groups+g] = field(s.words, k*p.bits, p.bits)
		}
	}
	return out, nil
}

// awqPlace is the nibble of each of eight outputs in AWQ's words, which hold them in
// the order 0 2 4 6 1 3 5 7.
var awqPlace = [8]int{0, 4, 1, 5, 2, 6, 3, 7}
