package layout

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// compressed-tensors' pack-quantized: integers of 1 to 8 bits in int32 words, each
// stored plus 2^(bits−1). Since 0.13 the words of a row are filled up, so that values
// of 3, 5, 6 and 7 bits cross them; before, a word held ⌊32/bits⌋ values and its upper
// bits nothing. The number of words tells, and where that is the same, the upper bits.

// Packing is how words hold integers of bits that do not divide 32.
type Packing string

// Ways of packing.
const (
	PackingTold   Packing = ""       // by what is stored, and refused where that does not tell
	PackingDense  Packing = "dense"  // values cross words
	PackingPadded Packing = "padded" // words hold whole values
)

var packings = []string{string(PackingDense), string(PackingPadded)}

// ParsePacking reads a way by its name; "" is by what is stored. An unknown name is an
// error that lists the known ones.
func ParsePacking(name string) (Packing, error) {
	if name == "" || slices.Contains(packings, name) {
		return Packing(name), nil
	}
	return "", fmt.Errorf("packing %q: %w (known: %s, %s)", name, kernels.ErrUnsupported, packings[0], packings[1])
}

// buildWords reads integers in int32 words. Bits and groups are the config's: what is
// stored fits more than one.
func buildWords(o *opener, f *form, g *group) ([]Module, error) {
	codes, scales := g.params["weight_packed"], g.params["weight_scale"]
	args := o.argsOf(g)
	experts := int64(1)
	var rows, stored int64
	switch len(codes.Shape) {
	case 2:
		rows, stored = codes.Shape[0], codes.Shape[1]
	case 3:
		experts, rows, stored = codes.Shape[0], codes.Shape[1], codes.Shape[2]
	default:
		return nil, fmt.Errorf("%s is %v, want [outputs, words]", codes.Name, codes.Shape)
	}
	switch {
	case args.Bits == 0:
		return nil, errors.New("the config does not say how many bits and which groups")
	case args.Bits < 1 || args.Bits > 8:
		return nil, fmt.Errorf("integers of %d bits: %w (known: 1 to 8)", args.Bits, kernels.ErrUnsupported)
	}
	sides, err := o.readInts(g.params["weight_shape"], len(codes.Shape))
	if err != nil {
		return nil, err
	}
	cols := sides[len(sides)-1]
	if sides[len(sides)-2] != rows || len(sides) == 3 && sides[0] != experts || cols <= 0 || cols > math.MaxInt32 {
		return nil, fmt.Errorf("weight_shape is %v, weight_packed %v", sides, codes.Shape)
	}
	p := &packed{bits: args.Bits, middle: 1 << (args.Bits - 1), round: roundingOf(scales), multiple: 1, unordered: true, codes: (*Module).readWords}
	zeros := g.params["weight_zero_point"]
	if p.padded, err = o.packing(g, args.Bits, rows, cols, stored, zeros); err != nil {
		return nil, err
	}
	if err := o.scopes(p, g, &args, rows, cols, scales); err != nil {
		return nil, err
	}
	s := shape{len(codes.Shape) == 3, experts, rows, stored}
	if table, ok := tableFormat(p, g, scales); ok && !s.fused && wordsOf(zeros) {
		return o.tableWords(f, g, s, cols, table, zeros, int64(p.groups))
	}
	format := p.intFormat("ct", scales, zeros != nil)
	ms, err := o.startFormat(f, g, s, cols, kernels.Spec{Format: format.Name, Convention: kernels.CT32}, format)
	if err != nil {
		return nil, err
	}
	if err := p.attach(ms, scales, cols); err != nil {
		return nil, err
	}
	return ms, addWordZeros(ms, p, zeros)
}

// wordsOf says whether zero points are stored as newer files store them, or not.
func wordsOf(zeros *checkpoint.Tensor) bool { return zeros == nil || zeros.DType == checkpoint.I32 }

// tableWords makes a module of 4-bit integers that the kernels have a format for.
func (o *opener) tableWords(f *form, g *group, s shape, cols int64, name string, zeros *checkpoint.Tensor, groups int64) ([]Module, error) {
	if zeros == nil {
		name += "-sym"
	}
	spec := kernels.Spec{Format: name, Convention: kernels.CT32}
	if g.params["weight_scale"].DType == checkpoint.BF16 {
		spec.Convention = kernels.CT
	}
	ms, err := o.start(f, g, s, cols, spec)
	if err != nil {
		return nil, err
	}
	m := &ms[0]
	m.words = true
	if zeros != nil {
		if want := []int64{ceil(s.rows, 8), groups}; !slices.Equal(zeros.Shape, want) {
			return nil, fmt.Errorf("%s is %s %v, want I32 %v", zeros.Name, zeros.DType, zeros.Shape, want)
		}
		m.zeros, m.mins = true, place{t: zeros, row: 4 * groups}
	}
	scales := g.params["weight_scale"]
	m.scales = place{t: scales, row: groups * int64(scales.DType.Bits()) / 8}
	return ms, nil
}

// tableFormat is the kernels' format of what is stored, where they have one.
func tableFormat(p *packed, g *group, scales *checkpoint.Tensor) (name string, ok bool) {
	if p.bits != 4 || p.index != nil || p.height != 1 || scales.DType == checkpoint.F16 {
		return "", false
	}
	name = "int4-channel"
	if p.group > 0 {
		name = fmt.Sprintf("int4-g%d", p.group)
	}
	_, err := kernels.FormatByName(name)
	return name, err == nil
}

// packing tells dense words from padded ones: by how many there are of codes and of
// zero points, and where that is the same by the bits that whole values leave empty.
func (o *opener) packing(g *group, bits int, rows, cols, stored int64, zeros *checkpoint.Tensor) (padded bool, err error) {
	codes := g.params["weight_packed"]
	dense, loose := ceil(cols*int64(bits), 32), ceil(cols, int64(32/bits))
	if stored != dense && stored != loose {
		return false, fmt.Errorf("weight_packed is %v, want %d words a row for %d inputs of %d bits, or %d in words that hold whole values", codes.Shape, dense, cols, bits, loose)
	}
	if dense != loose {
		return stored == loose, nil
	}
	var differ []*checkpoint.Tensor // what is not the same either way
	if cols > int64(32/bits) {
		differ = append(differ, codes)
	}
	if zeros != nil && zeros.DType == checkpoint.I32 && len(zeros.Shape) >= 2 && rows > int64(32/bits) {
		lines := zeros.Shape[len(zeros.Shape)-2]
		if dense, loose := ceil(rows*int64(bits), 32), ceil(rows, int64(32/bits)); dense != loose && (lines == dense || lines == loose) {
			return lines == loose, nil
		}
		differ = append(differ, zeros)
	}
	if 32%bits == 0 || len(differ) == 0 {
		return false, nil
	}
	used := false
	for _, t := range differ {
		if used, err = o.upperBits(t, bits); used || err != nil {
			break
		}
	}
	switch {
	case err != nil:
		return false, err
	case used && o.options.Packing == PackingPadded:
		return false, fmt.Errorf("words have their upper %d bits set, so that they hold no whole values, as --packing %s says", 32%bits, PackingPadded)
	case used:
		return false, nil
	case o.options.Packing != PackingTold:
		o.Packing = o.options.Packing
		return o.Packing == PackingPadded, nil
	}
	return false, fmt.Errorf("%d×%d of %d bits take as many words whether values cross words or not, and no word has its upper %d bits set: --packing %s or %s says which", rows, cols, bits, 32%bits, packings[0], packings[1])
}

// upperBitWords are how many words are looked at for bits that whole values leave
// empty.
const upperBitWords = 1 << 14

// upperBits says whether any of the first words has bits beyond its last whole value.
func (o *opener) upperBits(codes *checkpoint.Tensor, bits int) (bool, error) {
	raw := make([]byte, min(codes.Size, 4*upperBitWords))
	if err := o.ck.ReadAt(context.Background(), codes, 0, raw); err != nil {
		return false, err
	}
	for ; len(raw) >= 4; raw = raw[4:] {
		if binary.LittleEndian.Uint32(raw)>>(32-32%bits) != 0 {
			return true, nil
		}
	}
	return false, nil
}

// readWords reads the words of rows and packs their values without gaps.
func (m *Module) readWords(ctx context.Context, s *Stored, first, rows int) error {
	var err error
	if s.words, err = m.readPlace(ctx, s.words, m.codes, int64(first), int64(rows)); err != nil {
		return err
	}
	p, stride, rowBytes := m.packed, int(m.codes.row), m.rowBytes()
	s.Codes = grow(s.Codes, rows*rowBytes)
	if !p.padded {
		for r := range rows {
			copy(s.Codes[r*rowBytes:][:rowBytes], s.words[r*stride:])
		}
		return nil
	}
	each := 32 / p.bits
	for r := range rows {
		row, words := s.Codes[r*rowBytes:][:rowBytes], s.words[r*stride:]
		have, n, at := uint64(0), 0, 0
		for col := 0; col < m.Cols; col += each {
			k := min(each, m.Cols-col)
			have |= uint64(binary.LittleEndian.Uint32(words)&(1<<(k*p.bits)-1)) << n
			words = words[4:]
			for n += k * p.bits; n >= 8; n -= 8 {
				row[at] = byte(have)
				have >>= 8
				at++
			}
		}
		if n > 0 {
			row[at] = byte(have)
		}
	}
	return nil
}

// addWordZeros gives modules their zero points: words along the outputs, or, in older
// files and beside bytes, an integer each.
func addWordZeros(ms []Module, p *packed, t *checkpoint.Tensor) error {
	if t == nil {
		return nil
	}
	if t.DType != checkpoint.I32 {
		return addByteZeros(ms, p, t)
	}
	n := int64(len(ms))
	each := int64(32 / p.bits)
	lines := ceil(int64(ms[0].Rows)*int64(p.bits), 32)
	if p.padded {
		lines = ceil(int64(ms[0].Rows), each)
	}
	want := []int64{lines, int64(p.groups)}
	if ms[0].Expert >= 0 {
		want = []int64{n, lines, int64(p.groups)}
	}
	if !slices.Equal(t.Shape, want) || p.height != 1 {
		return fmt.Errorf("%s is %s %v, want I32 %v", t.Name, t.DType, t.Shape, want)
	}
	p.zeros = (*Module).readWordZeros
	for i := range ms {
		ms[i].mins = place{t: t, off: int64(i) * lines * 4 * int64(p.groups), row: 4 * int64(p.groups)}
	}
	return nil
}

// readWordZeros takes zero points out of words that each hold some outputs of a group: a
// byte each, row by row.
func (m *Module) readWordZeros(ctx context.Context, s *Stored, first, rows int) ([]byte, error) {
	p := m.packed
	out := grow(s.Mins, rows*p.groups)
	if rows == 0 {
		return out, nil
	}
	each := 32 / p.bits
	from, to := first*p.bits/32, ((first+rows)*p.bits+31)/32
	if p.padded {
		from, to = first/each, (first+rows+each-1)/each
	}
	var err error
	if s.words, err = m.readPlace(ctx, s.words, m.mins, int64(from), int64(to-from)); err != nil {
		return out, err
	}
	mask := byte(1)<<p.bits - 1 // 255 for eight bits
	for r := range rows {
		line, bit := (first+r)*p.bits/32, (first+r)*p.bits%32
		if p.padded {
			line, bit = (first+r)/each, (first+r)%each*p.bits
		}
		for g := range p.groups {
			at := 4 * ((line-from)*p.groups + g)
			v := uint64(binary.LittleEndian.Uint32(s.words[at:]))
			if bit+p.bits > 32 {
				v |= uint64(binary.LittleEndian.Uint32(s.words[at+4*p.groups:])) << 32
			}
			out[r*p.groups+g] = byte(v>>bit) & mask
		}
	}
	return out, nil
}
