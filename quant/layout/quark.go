package layout

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// AMD Quark writes integers of a group as AWQ does, transposed, eight outputs a word,
// and those of a channel or a tensor as they are, eight inputs a word, under the names
// weight, weight_scale and weight_zero_point. pack_method of the config says whether
// the nibbles of a word are in AWQ's order (reorder) or in their own (order).

// Words of Quark's config.
const (
	quarkReorder = "reorder"
	quarkOrder   = "order"
)

// quarkArgs is what the config says of a module, and refuses what is not read.
func (o *opener) quarkArgs(g *group, known ...string) (weightArgs, error) {
	args := o.argsOf(g)
	switch {
	case args.DType == "":
		return args, fmt.Errorf("no weight.dtype of %s covers it", o.config.file)
	case !slices.Contains(known, args.DType):
		return args, fmt.Errorf("weight.dtype %q of %s with what is stored: %w (known here: %v)", args.DType, o.config.file, kernels.ErrUnsupported, known)
	}
	return args, nil
}

// orderOf is the nibble of each of eight values in a word.
func (o *opener) orderOf() (*[8]int, error) {
	switch o.config.packMethod {
	case quarkReorder, "":
		return &awqPlace, nil
	case quarkOrder:
		return &inOrder, nil
	}
	return nil, fmt.Errorf("pack_method %q of %s: %w (known: %s, %s)", o.config.packMethod, o.config.file, kernels.ErrUnsupported, quarkReorder, quarkOrder)
}

var inOrder = [8]int{0, 1, 2, 3, 4, 5, 6, 7}

// buildQuark reads 4-bit integers in words.
func buildQuark(o *opener, f *form, g *group) ([]Module, error) {
	args, err := o.quarkArgs(g, "int4", "uint4")
	if err != nil {
		return nil, err
	}
	codes, scales, zeros := g.params["weight"], g.params["weight_scale"], g.params["weight_zero_point"]
	if len(codes.Shape) != 2 || codes.Shape[0] > math.MaxInt32 || codes.Shape[1] > math.MaxInt32/8 {
		return nil, fmt.Errorf("%s is %v, want a matrix of words", codes.Name, codes.Shape)
	}
	p := &packed{bits: 4, multiple: 1}
	if p.order, err = o.orderOf(); err != nil {
		return nil, err
	}
	if args.DType == "int4" {
		p.middle, p.flip = 8, 8
	}
	turned := args.Strategy == byGroup
	rows, cols := codes.Shape[0], 8*codes.Shape[1]
	p.codes = (*Module).readOrderedRows
	if turned {
		rows, cols = 8*codes.Shape[1], codes.Shape[0]
		p.codes, p.multiple = (*Module).readAWQ, 8
	}
	return o.quark(f, g, p, &args, rows, cols, turned, scales, zeros)
}

// quarkInt8 reads 8-bit integers: those of groups are transposed.
func (o *opener) quarkInt8(g *group) ([]Module, error) {
	args, err := o.quarkArgs(g, "int8", "uint8")
	if err != nil {
		return nil, err
	}
	codes := g.params["weight"]
	if len(codes.Shape) != 2 || codes.Shape[0] > math.MaxInt32 || codes.Shape[1] > math.MaxInt32 {
		return nil, fmt.Errorf("%s is %v, want a matrix", codes.Name, codes.Shape)
	}
	if signed := codes.DType == checkpoint.I8; signed != (args.DType == "int8") {
		return nil, fmt.Errorf("%s is %s, but weight.dtype of %s is %s", codes.Name, codes.DType, o.config.file, args.DType)
	}
	p := &packed{bits: 8, multiple: 1, codes: (*Module).readFlipped}
	if args.DType == "int8" {
		p.middle, p.flip = 0x80, 0x80
	}
	turned := args.Strategy == byGroup
	rows, cols := codes.Shape[0], codes.Shape[1]
	if turned {
		rows, cols = cols, rows
		p.codes = (*Module).readTurnedBytes
	}
	return o.quark(&form{method: Quark, name: "int8", needs: []need{{"weight", nil}}}, g, p, &args, rows, cols, turned, g.params["weight_scale"], g.params["weight_zero_point"])
}

// quark makes a module of integers.
func (o *opener) quark(f *form, g *group, p *packed, args *weightArgs, rows, cols int64, turned bool, scales, zeros *checkpoint.Tensor) ([]Module, error) {
	p.height, p.groups = 1, 1
	want := []int64{rows}
	switch args.Strategy {
	case byTensor:
		p.height, want = 0, nil
	case byChannel:
	case byGroup:
		if args.GroupSize == nil || *args.GroupSize <= 0 {
			return nil, fmt.Errorf("qscheme per_group of %s has no group_size", o.config.file)
		}
		p.group = *args.GroupSize
		p.groups = int(ceil(cols, int64(p.group)))
		want = []int64{int64(p.groups), rows}
	default:
		return nil, fmt.Errorf("qscheme %q of %s: %w (known: per_tensor, per_channel, per_group)", args.Strategy, o.config.file, kernels.ErrUnsupported)
	}
	if !slices.Equal(scales.Shape, want) && !(args.Strategy == byTensor && scales.Elements() == 1) {
		return nil, fmt.Errorf("%s is %v, want %v for %d×%d by %s", scales.Name, scales.Shape, want, rows, cols, args.Strategy)
	}
	format := p.intFormat("quark", scales, zeros != nil)
	ms, err := o.startFormat(&form{method: Quark, name: f.name, needs: []need{{"weight", nil}}}, g, shape{false, 1, rows, 0}, cols, kernels.Spec{Format: format.Name, Convention: kernels.CT32}, format)
	if err != nil {
		return nil, err
	}
	m := &ms[0]
	m.codes.row = g.params["weight"].Size / g.params["weight"].Shape[0]
	if err := p.attach(ms, scales, cols); err != nil {
		return nil, err
	}
	if turned {
		p.scales = (*Module).readTurnedScales
		m.scales.row = rows * int64(scales.DType.Bits()) / 8
	}
	if zeros == nil {
		return ms, nil
	}
	return ms, o.quarkZeros(m, zeros, rows, turned)
}

// quarkZeros gives a module its zero points, packed as its codes are.
func (o *opener) quarkZeros(m *Module, t *checkpoint.Tensor, rows int64, turned bool) error {
	p := m.packed
	size := int64(t.DType.Bits()) / 8
	want := []int64{rows}
	switch {
	case p.bits == 4:
		if want[0] = ceil(rows, 8); t.DType != checkpoint.I32 {
			return fmt.Errorf("%s is %s, want I32: %w", t.Name, t.DType, kernels.ErrUnsupported)
		}
	case t.DType != checkpoint.I8 && t.DType != checkpoint.U8:
		return fmt.Errorf("%s is %s, want the type of the codes: %w", t.Name, t.DType, kernels.ErrUnsupported)
	}
	if turned {
		want = append([]int64{int64(p.groups)}, want...)
	}
	if p.height == 0 {
		want = nil
	}
	if !slices.Equal(t.Shape, want) && !(p.height == 0 && t.Elements() == 1) {
		return fmt.Errorf("%s is %v, want %v", t.Name, t.Shape, want)
	}
	m.mins = place{t: t, row: t.Size}
	if turned {
		m.mins.row = t.Size / int64(p.groups)
	}
	p.zeros = func(m *Module, ctx context.Context, s *Stored, first, rows int) ([]byte, error) {
		return m.readQuarkZeros(ctx, s, first, rows, int(size))
	}
	return nil
}

// readQuarkZeros reads the zero points of rows, of each group a line.
func (m *Module) readQuarkZeros(ctx context.Context, s *Stored, first, rows, size int) ([]byte, error) {
	p := m.packed
	out := grow(s.Mins, rows*p.groups)
	var err error
	if s.words, err = m.readPlace(ctx, s.words, m.mins, 0, m.mins.t.Size/m.mins.row); err != nil {
		return out, err
	}
	for g := range p.groups {
		line := s.words[g*int(m.mins.row):][:m.mins.row]
		for r := range rows {
			k := first + r
			switch {
			case p.height == 0 && p.bits == 4: // one number, in a word of its own
				out[r*p.groups+g] = line[0]&15 ^ p.flip
			case p.height == 0:
				out[r*p.groups+g] = line[0] ^ p.flip
			case p.bits == 4:
				k = k&^7 + p.order[k&7]
				out[r*p.groups+g] = line[k/2]>>(k%2*4)&15 ^ p.flip
			default:
				out[r*p.groups+g] = line[k*size] ^ p.flip
			}
		}
	}
	return out, nil
}

// readOrderedRows reads rows of words of eight inputs each, in the order of a config.
func (m *Module) readOrderedRows(ctx context.Context, s *Stored, first, rows int) error {
	p := m.packed
	var err error
	if s.Codes, err = m.readPlace(ctx, s.Codes, m.codes, int64(first), int64(rows)); err != nil {
		return err
	}
	flip := uint32(p.flip) * 0x11111111
	for at := 0; at+4 <= len(s.Codes); at += 4 {
		w, v := binary.LittleEndian.Uint32(s.Codes[at:]), uint32(0)
		for i, k := range p.order {
			v |= w >> (4 * k) & 15 << (4 * i)
		}
		binary.LittleEndian.PutUint32(s.Codes[at:], v^flip)
	}
	return nil
}

// readFlipped reads codes of a byte each, with what makes a sign an offset.
func (m *Module) readFlipped(ctx context.Context, s *Stored, first, rows int) error {
	if err := m.readBytes(ctx, s, first, rows); err != nil || m.packed.flip == 0 {
		return err
	}
	for i := range s.Codes {
		s.Codes[i] ^= m.packed.flip
	}
	return nil
}

// readTurnedBytes reads columns of a matrix of bytes as rows.
func (m *Module) readTurnedBytes(ctx context.Context, s *Stored, first, rows int) error {
	s.Codes = grow(s.Codes, rows*m.Cols)
	if rows == 0 {
		return nil
	}
	step := max(1, min(m.Cols, stripBytes/rows))
	s.words = grow(s.words, step*rows)
	for col := 0; col < m.Cols; col += step {
		n := min(step, m.Cols-col)
		for i := range n {
			if err := m.ck.ReadAt(ctx, m.codes.t, m.codes.off+int64(col+i)*m.codes.row+int64(first), s.words[i*rows:][:rows]); err != nil {
				return err
			}
		}
		for r := range rows {
			row := s.Codes[r*m.Cols+col:][:n]
			for i := range row {
				row[i] = s.words[i*rows+r] ^ m.packed.flip
			}
		}
	}
	return nil
}

// quarkFP8 reads Quark's E4M3, by tensor or by channel.
func (o *opener) quarkFP8(f *form, g *group) ([]Module, error) {
	args, err := o.quarkArgs(g, "fp8_e4m3")
	if err != nil {
		return nil, err
	}
	named := *f
	named.method = Quark
	codes, scales := g.params["weight"], g.params["weight_scale"]
	if len(codes.Shape) != 2 {
		return nil, fmt.Errorf("%s is %v, want [outputs, inputs]", codes.Name, codes.Shape)
	}
	p := &packed{bits: 8, values: e4m3Table, multiple: 1, codes: (*Module).readBytes}
	if err := o.scopes(p, g, &args, codes.Shape[0], codes.Shape[1], scales); err != nil {
		return nil, err
	}
	return o.floats8(&named, g, p, shape{false, 1, codes.Shape[0], codes.Shape[1]}, codes.Shape[1], scales, nil)
}
