package layout

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"quantscope/kernels"
)

// ErrGroup is wrapped by the error about an input whose group is none.
var ErrGroup = errors.New("no such group")

// stripBytes bounds what of transposed codes is read at once.
const stripBytes = 1 << 20

// rowMultiple is how many outputs begin with a word of their own.
func (p *packed) rowMultiple() int {
	switch p.bits {
	case 3:
		return 32
	case 2:
		return 16
	case 8:
		return 4
	}
	return 8
}

// rowBytes is what the codes of an output take, packed by row.
func (m *Module) rowBytes() int { return (m.Cols*m.packed.bits + 7) / 8 }

// readPacked reads rows of GPTQ and AWQ and turns them: codes are packed by row, a
// row has a scale and a zero point, a byte, for each of its groups.
func (m *Module) readPacked(ctx context.Context, s *Stored, first, rows int) error {
	s.Global = 0
	var err error
	if s.Groups, err = m.groupIndex(ctx); err != nil {
		return err
	}
	if m.packed.awq {
		err = m.readAWQ(ctx, s, first, rows)
	} else {
		err = m.readGPTQ(ctx, s, first, rows)
	}
	if err != nil {
		return err
	}
	if err := m.readGroupScales(ctx, s, first, rows); err != nil {
		return err
	}
	s.Mins, err = m.readZeroPoints(ctx, s, first, rows)
	return err
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
	return m.strips(ctx, s, m.Cols, width, first/8, n, func(words []byte, line, lines int) {
		for k := range n {
			for i := 0; i < lines; i += 2 {
				even := binary.LittleEndian.Uint32(words[4*(i*n+k):])
				odd := uint32(0)
				if i+1 < lines {
					odd = binary.LittleEndian.Uint32(words[4*((i+1)*n+k):])
				}
				at := 8*k*rowBytes + (line+i)/2
				for _, p := range awqPlace {
					s.Codes[at] = byte(even>>(4*p)&15 | odd>>(4*p)&15<<4)
					at += rowBytes
				}
			}
		}
	})
}

// readGroupScales turns scales of groups by outputs.
func (m *Module) readGroupScales(ctx context.Context, s *Stored, first, rows int) error {
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

// readZeroPoints takes zero points out of their words: a byte each, row by row.
func (m *Module) readZeroPoints(ctx context.Context, s *Stored, first, rows int) ([]byte, error) {
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

// groupIndex reads the group of each input; nil where they follow one another.
func (m *Module) groupIndex(ctx context.Context) ([]int32, error) {
	p := m.packed
	if p.index == nil {
		return nil, nil
	}
	raw := make([]byte, 4*m.Cols)
	if err := m.ck.ReadAt(ctx, p.index, 0, raw); err != nil {
		return nil, err
	}
	out := make([]int32, m.Cols)
	apart := false
	for i := range out {
		g := int32(binary.LittleEndian.Uint32(raw[4*i:]))
		if g < 0 || int(g) >= p.groups {
			return nil, fmt.Errorf("layout: %s: input %d is in group %d of %d: %w", p.index.Name, i, g, p.groups, ErrGroup)
		}
		out[i] = g
		apart = apart || int(g) != m.groupOf(i)
	}
	if !apart {
		return nil, nil
	}
	return out, nil
}

// groupOf is the group of an input where groups follow one another.
func (m *Module) groupOf(col int) int {
	if m.packed.group == 0 {
		return 0
	}
	return col / m.packed.group
}

// OwnPanels says whether what was read is decoded by Panel, not by the kernels'
// formats.
func (m *Module) OwnPanels() bool { return m.packed != nil || m.own != nil }

// Panel decodes rows row0 … and columns col0 … of what was read, rows counted from
// the first of it, into dst, row-major without gaps: the exact products scale ·
// (code − zero point), which f32 holds. A kernel that works in the scales' type
// computes these rounded to it once. Many goroutines may call it at once.
func (m *Module) Panel(dst []float32, s *Stored, row0, rows, col0, cols int) error {
	p := m.packed
	switch {
	case m.own != nil:
		return m.ownPanel(dst, s, row0, rows, col0, cols)
	case p == nil:
		return fmt.Errorf("layout: %s: %s has no panels of its own: %w", m.Name, m.Spec.Format, kernels.ErrUnsupported)
	}
	rowBytes := m.rowBytes()
	have := len(s.Codes) / rowBytes
	if row0 < 0 || rows < 0 || rows > have-row0 || col0 < 0 || cols < 0 || cols > m.Cols-col0 || len(dst) != rows*cols {
		return fmt.Errorf("layout: %s: %d elements for rows %d to %d of %d, columns %d to %d of %d: %w", m.Name, len(dst), row0, row0+rows, have, col0, col0+cols, m.Cols, kernels.ErrShape)
	}
	for r := range rows {
		row := dst[r*cols:][:cols]
		codes := s.Codes[(row0+r)*rowBytes:][:rowBytes]
		steps := rowOf{m: m, scales: s.Scales[(row0+r)*p.groups*m.ScaleSize():], zeros: s.Mins[(row0+r)*p.groups:][:p.groups]}
		if s.Groups != nil {
			steps.scattered(row, codes, s.Groups[col0:col0+cols], col0)
			continue
		}
		for done := 0; done < cols; {
			col := col0 + done
			g, n := 0, cols-done
			if p.group > 0 {
				g = col / p.group
				n = min(n, (g+1)*p.group-col)
			}
			steps.run(row[done:done+n], codes, col, g)
			done += n
		}
	}
	return nil
}

// rowOf is what one output's codes stand for.
type rowOf struct {
	m             *Module
	scales, zeros []byte
}

// scale is that of a group.
func (x *rowOf) scale(g int) float32 {
	switch x.m.format.Scale {
	case "f16":
		return kernels.F16ToF32(binary.LittleEndian.Uint16(x.scales[2*g:]))
	case "bf16":
		return kernels.BF16ToF32(binary.LittleEndian.Uint16(x.scales[2*g:]))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(x.scales[4*g:]))
}

// run decodes elements of one group, the first of them at column col.
func (x *rowOf) run(dst []float32, codes []byte, col, g int) {
	scale, zero, bits := x.scale(g), int(x.zeros[g]), x.m.packed.bits
	if bits == 8 {
		for k := range dst {
			dst[k] = scale * float32(int(codes[col+k])-zero)
		}
		return
	}
	var table [16]float32
	for c := range 1 << bits {
		table[c] = scale * float32(c-zero)
	}
	if bits != 4 {
		for len(dst) > 0 && (col*bits%8 != 0 || len(dst) < 8) {
			dst[0] = table[field(codes, col*bits, bits)&15]
			dst, col = dst[1:], col+1
		}
		mask := uint32(1)<<bits - 1
		for codes = codes[min(col*bits/8, len(codes)):]; len(dst) >= 8; dst, codes, col = dst[8:], codes[bits:], col+8 {
			v := uint32(codes[0]) | uint32(codes[1])<<8
			if bits == 3 {
				v |= uint32(codes[2]) << 16
			}
			for k := range 8 {
				dst[k] = table[v&mask&15]
				v >>= bits
			}
		}
		for k := range dst { // a whole number of bytes from where codes begin now
			dst[k] = table[field(codes, k*bits, bits)&15]
		}
		return
	}
	if col&1 == 1 && len(dst) > 0 {
		dst[0] = table[codes[col/2]>>4]
		dst, col = dst[1:], col+1
	}
	codes = codes[col/2:]
	for len(dst) >= 2 {
		b := codes[0]
		dst[0], dst[1] = table[b&15], table[b>>4]
		dst, codes = dst[2:], codes[1:]
	}
	if len(dst) == 1 {
		dst[0] = table[codes[0]&15]
	}
}

// scattered decodes elements whose groups are given, the first of them at column
// col.
func (x *rowOf) scattered(dst []float32, codes []byte, groups []int32, col int) {
	var few [256]float32
	scales := few[:]
	if n := len(x.zeros); n > len(few) {
		scales = make([]float32, n)
	}
	for g := range x.zeros {
		scales[g] = x.scale(g)
	}
	if x.m.packed.bits == 4 {
		for k, g := range groups {
			code := int(codes[(col+k)/2] >> ((col + k) % 2 * 4) & 15)
			dst[k] = scales[g] * float32(code-int(x.zeros[g]))
		}
		return
	}
	bits := x.m.packed.bits
	for k, g := range groups {
		dst[k] = scales[g] * float32(int(field(codes, (col+k)*bits, bits))-int(x.zeros[g]))
	}
}
