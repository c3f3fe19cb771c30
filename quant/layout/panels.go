package layout

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// ErrGroup is wrapped by the error about an input whose group is none.
var ErrGroup = errors.New("no such group")

// ErrZeroPoint is wrapped by the error about a zero point that is no code.
var ErrZeroPoint = errors.New("no such code")

// packed is what a Module knows that decodes itself, not by one of the kernels'
// formats: codes of a number of bits, packed by row with the first in the lowest
// bits, a scale for each group of a row, and of each a zero point. An element is
// scale·(value − zero point), rounded as the library does whose it is.
type packed struct {
	bits   int                // of a code, as Read gives it
	values *[256]float32      // what codes stand for; nil where they are integers and stand for themselves
	group  int                // inputs of one; 0 for all
	groups int                // that there are
	index  *checkpoint.Tensor // the group of each input; nil where they follow one another
	middle byte               // the zero point of all, where none is stored
	round  rounding
	within int // bits that the config says codes keep to, where they are stored in more; 0 where it says nothing

	// How what is stored becomes that, row by row. zeros is nil where none are stored.
	codes, scales func(m *Module, ctx context.Context, s *Stored, first, rows int) error
	zeros         func(m *Module, ctx context.Context, s *Stored, first, rows int) ([]byte, error)
	multiple      int // that rows are read in
	height        int // rows that share scales and zero points; 0 for all

	minus1    bool    // GPTQ's zero points are stored minus 1
	awq       bool    // words hold eight outputs
	gemv      bool    // words hold eight inputs, in order
	sym       bool    // the config says that zero points are the middle
	unordered bool    // an index with −1 in it is none
	flip      byte    // what makes a code with a sign one that is counted from the least
	order     *[8]int // the nibble of each of eight values in a word; nil is AWQ's
	padded    bool    // words hold whole codes, and are not filled up
	signed    bool    // zero points are bytes with a sign
}

// rounding is the type that a library computes in: what its results are rounded to.
type rounding uint8

const (
	exact  rounding = iota // f32 holds them
	toBF16                 // each result is rounded to bf16
	toF16
)

func (r rounding) of(v float32) float32 {
	switch r {
	case toBF16:
		return kernels.BF16ToF32(kernels.F32ToBF16(v))
	case toF16:
		return kernels.F16ToF32(kernels.F32ToF16(v))
	}
	return v
}

// roundingOf is what a library rounds to that computes in the type of its scales.
func roundingOf(scales *checkpoint.Tensor) rounding {
	switch scales.DType {
	case checkpoint.BF16:
		return toBF16
	case checkpoint.F16:
		return toF16
	}
	return exact
}

// rowBytes is what the codes of an output take, packed by row.
func (m *Module) rowBytes() int { return (m.Cols*m.packed.bits + 7) / 8 }

// readPacked reads rows of a module that decodes itself: codes are packed by row, a
// row has a scale for each of its groups, and a zero point, a byte, where they are
// stored.
func (m *Module) readPacked(ctx context.Context, s *Stored, first, rows int) error {
	p := m.packed
	var err error
	if s.Global, err = m.Global(ctx); err != nil {
		return err
	}
	if s.Groups, err = m.groupIndex(ctx); err != nil {
		return err
	}
	if err := p.codes(m, ctx, s, first, rows); err != nil {
		return err
	}
	if err := p.scales(m, ctx, s, first, rows); err != nil {
		return err
	}
	if p.zeros == nil {
		s.Mins = s.Mins[:0]
		return nil
	}
	s.Mins, err = p.zeros(m, ctx, s, first, rows)
	return err
}

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
	if p.unordered && minusOne(raw) {
		return nil, nil
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

// minusOne says whether an index has a −1 in it, which compressed-tensors writes
// where there is no order.
func minusOne(raw []byte) bool {
	for ; len(raw) >= 4; raw = raw[4:] {
		if binary.LittleEndian.Uint32(raw) == math.MaxUint32 {
			return true
		}
	}
	return false
}

// groupOf is the group of an input where groups follow one another.
func (m *Module) groupOf(col int) int {
	if m.packed.group == 0 {
		return 0
	}
	return col / m.packed.group
}

// Integers is how a module that decodes itself stores integers: an element is
// scale·(code − zero point) with codes and zero points from 0 to 2^Bits−1. Codes are
// packed by row, the first in the lowest bits; Stored.Mins has a byte for each zero
// point, or nothing, where all are Middle.
type Integers struct {
	Bits   int
	Group  int                // inputs that share a scale; 0 where all do
	Groups int                // of a row
	Middle int                // the code of 0 where no zero points are stored
	Index  *checkpoint.Tensor // the group of each input, nil where they follow one another
}

// Integers is false for modules of the kernels' formats and of floats.
func (m *Module) Integers() (Integers, bool) {
	p := m.packed
	if p == nil || p.values != nil {
		return Integers{}, false
	}
	return Integers{p.bits, p.group, p.groups, int(p.middle), p.index}, true
}

// OwnPanels says whether what was read is decoded by Panel, not by the kernels'
// formats.
func (m *Module) OwnPanels() bool { return m.packed != nil || m.own != nil }

// Panel decodes rows row0 … and columns col0 … of what was read, rows counted from
// the first of it, into dst, row-major without gaps. Of GPTQ, AWQ, Quark and ModelOpt
// these are the exact products scale·(code − zero point), which f32 holds, and a
// kernel that works in the scales' type computes these rounded to it once; of
// compressed-tensors they are rounded to the scales' type as the library does. Many
// goroutines may call it at once.
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
		steps := rowOf{m: m, global: s.Global, scales: s.Scales[(row0+r)*p.groups*m.ScaleSize():]}
		if p.zeros != nil {
			steps.zeros = s.Mins[(row0+r)*p.groups:][:p.groups]
		}
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
	s.Multiply(dst, col0, cols)
	return nil
}

// Multiply applies Columns to rows of cols decoded elements, of columns col0 ….
func (s *Stored) Multiply(dst []float32, col0, cols int) {
	if s.Columns == nil || cols == 0 {
		return
	}
	factors := s.Columns[col0:][:cols]
	for ; len(dst) >= cols; dst = dst[cols:] {
		for c, f := range factors {
			dst[c] *= f
		}
	}
}

// rowOf is what one output's codes stand for.
type rowOf struct {
	m             *Module
	scales, zeros []byte
	global        float32 // that scales of E4M3 are multiplied by
}

// scale is that of a group.
func (x *rowOf) scale(g int) float32 {
	switch x.m.format.Scale {
	case "f16":
		return kernels.F16ToF32(binary.LittleEndian.Uint16(x.scales[2*g:]))
	case "bf16":
		return kernels.BF16ToF32(binary.LittleEndian.Uint16(x.scales[2*g:]))
	case "e8m0":
		return kernels.E8M0ToF32(x.scales[g])
	case "e4m3":
		return kernels.E4M3ToF32(x.scales[g]) * x.global
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(x.scales[4*g:]))
}

// zero is the code of 0 in a group.
func (x *rowOf) zero(g int) byte {
	if x.zeros == nil {
		return x.m.packed.middle
	}
	return x.zeros[g]
}

// element is what a code of a group stands for.
func (x *rowOf) element(code byte, zero byte, scale float32) float32 {
	p := x.m.packed
	if p.values == nil {
		return p.round.of(scale * float32(int(code)-int(zero)))
	}
	v := p.values[code]
	if x.zeros != nil {
		v = p.round.of(v - p.values[zero])
	}
	return p.round.of(v * scale)
}

// run decodes elements of one group, the first of them at column col.
func (x *rowOf) run(dst []float32, codes []byte, col, g int) {
	scale, zero, p := x.scale(g), x.zero(g), x.m.packed
	switch bits := p.bits; {
	case bits == 8:
		x.bytes(dst, codes[col:], zero, scale)
	case bits == 4:
		var table [16]float32
		x.fill(table[:], zero, scale)
		nibbles(dst, codes, col, &table)
	default:
		if bits < 4 {
			var table [16]float32
			x.fill(table[:1<<bits], zero, scale)
			few(dst, codes, col, bits, &table)
			return
		}
		var table [128]float32
		x.fill(table[:1<<bits], zero, scale)
		fields(dst, codes, col, bits, &table)
	}
}

// fill makes the table of what all codes stand for.
func (x *rowOf) fill(table []float32, zero byte, scale float32) {
	p := x.m.packed
	if p.values != nil {
		for c := range table {
			table[c] = x.element(byte(c), zero, scale)
		}
		return
	}
	z := int(zero)
	switch p.round {
	case exact:
		for c := range table {
			table[c] = scale * float32(c-z)
		}
	case toBF16:
		for c := range table {
			table[c] = kernels.BF16ToF32(kernels.F32ToBF16(scale * float32(c-z)))
		}
	default:
		for c := range table {
			table[c] = p.round.of(scale * float32(c-z))
		}
	}
}

// bytes decodes codes of a byte each.
func (x *rowOf) bytes(dst []float32, codes []byte, zero byte, scale float32) {
	p := x.m.packed
	if len(dst) == 0 {
		return
	}
	codes = codes[:len(dst)]
	dst = dst[:len(codes)]
	switch {
	case p.values == nil && p.round == exact:
		z := int(zero)
		for k, c := range codes {
			dst[k] = scale * float32(int(c)-z)
		}
	case p.values != nil && p.round == exact && x.zeros == nil:
		values := p.values
		for k, c := range codes {
			dst[k] = values[c] * scale
		}
	case p.values == nil && p.round == toBF16:
		z := int(zero)
		for k, c := range codes {
			dst[k] = kernels.BF16ToF32(kernels.F32ToBF16(scale * float32(int(c)-z)))
		}
	default:
		for k, c := range codes {
			dst[k] = x.element(c, zero, scale)
		}
	}
}

// nibbles looks codes of four bits up, the first of them that of column col.
func nibbles(dst []float32, codes []byte, col int, table *[16]float32) {
	if col&1 == 1 && len(dst) > 0 {
		dst[0] = table[codes[col/2]>>4]
		dst, col = dst[1:], col+1
	}
	codes = codes[min(col/2, len(codes)):]
	n := len(dst) / 2
	for k, b := range codes[:n] {
		two := dst[2*k:][:2]
		two[0], two[1] = table[b&15], table[b>>4]
	}
	if len(dst)%2 == 1 {
		dst[len(dst)-1] = table[codes[n]&15]
	}
}

// few looks codes of one to three bits up, the first of them that of column col.
func few(dst []float32, codes []byte, col, bits int, table *[16]float32) {
	for len(dst) > 0 && (col*bits%8 != 0 || len(dst) < 8) {
		dst[0] = table[field(codes, col*bits, bits)&15]
		dst, col = dst[1:], col+1
	}
	mask := uint32(1)<<bits - 1
	for codes = codes[min(col*bits/8, len(codes)):]; len(dst) >= 8; dst, codes = dst[8:], codes[bits:] {
		v := uint32(codes[0])
		if bits > 1 {
			v |= uint32(codes[1]) << 8
		}
		if bits > 2 {
			v |= uint32(codes[2]) << 16
		}
		eight := dst[:8]
		for k := range eight {
			eight[k] = table[v&mask&15]
			v >>= bits
		}
	}
	for k := range dst { // a whole number of bytes from where codes begin now
		dst[k] = table[field(codes, k*bits, bits)&15]
	}
}

// fields looks codes of five to seven bits up, the first of them that of column
// col.
func fields(dst []float32, codes []byte, col, bits int, table *[128]float32) {
	for len(dst) > 0 && (col*bits%8 != 0 || len(dst) < 8) {
		dst[0] = table[field(codes, col*bits, bits)&127]
		dst, col = dst[1:], col+1
	}
	mask := uint64(1)<<bits - 1
	for codes = codes[min(col*bits/8, len(codes)):]; len(dst) >= 8; dst, codes, col = dst[8:], codes[bits:], col+8 {
		var v uint64
		if len(codes) >= 8 {
			v = binary.LittleEndian.Uint64(codes)
		} else {
			for k, b := range codes[:bits] {
				v |= uint64(b) << (8 * k)
			}
		}
		eight := dst[:8]
		for k := range eight {
			eight[k] = table[v&mask&127]
			v >>= bits
		}
	}
	for k := range dst { // a whole number of bytes from where codes begin now
		dst[k] = table[field(codes, k*bits, bits)&127]
	}
}

// scattered decodes elements whose groups are given, the first of them at column
// col.
func (x *rowOf) scattered(dst []float32, codes []byte, groups []int32, col int) {
	p := x.m.packed
	var few [256]float32
	scales := few[:]
	if n := p.groups; n > len(few) {
		scales = make([]float32, n)
	}
	for g := range p.groups {
		scales[g] = x.scale(g)
	}
	if zeros := x.zeros; p.bits == 4 && p.values == nil && p.round == exact && zeros != nil {
		for k, g := range groups {
			code := int(codes[(col+k)/2] >> ((col + k) % 2 * 4) & 15)
			dst[k] = scales[g] * float32(code-int(zeros[g]))
		}
		return
	}
	for k, g := range groups {
		var code byte
		if p.bits == 4 {
			code = codes[(col+k)/2] >> ((col + k) % 2 * 4) & 15
		} else {
			code = field(codes, (col+k)*p.bits, p.bits)
		}
		dst[k] = x.element(code, x.zero(int(g)), scales[g])
	}
}
