package layout

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// What scales and zero points of modules that decode themselves belong to: all of a
// matrix, an output, a group of an output's inputs, or a block of some outputs by
// some inputs.

// strategies of compressed-tensors that scales of weights are known under.
const (
	byTensor      = "tensor"
	byChannel     = "channel"
	byToken       = "token"
	byGroup       = "group"
	byTensorGroup = "tensor_group"
	byBlock       = "block"
)

// scopes settles which of the inputs and outputs share a scale, as the config's
// strategy says, and holds the shape of the scales against it.
func (o *opener) scopes(p *packed, g *group, args *weightArgs, rows, cols int64, scales *checkpoint.Tensor) error {
	p.height, p.groups = 1, 1
	strategy := args.Strategy
	if strategy == "" {
		switch {
		case args.Block[0] > 0:
			strategy = byBlock
		case args.GroupSize != nil && *args.GroupSize > 0:
			strategy = byGroup
		case scales.Elements() == 1 && rows > 1 && args.GroupSize == nil:
			strategy = byTensor
		default:
			strategy = byChannel
		}
	}
	lines := rows
	switch strategy {
	case byTensor:
		p.height, lines = 0, 1
	case byChannel, byToken: // what activations are by, weights have by channel
	case byGroup, byTensorGroup:
		if args.GroupSize == nil || *args.GroupSize <= 0 {
			return fmt.Errorf("strategy %s of the config has no group_size", strategy)
		}
		p.group = *args.GroupSize
	case byBlock:
		if args.Block[0] <= 0 || args.Block[1] <= 0 {
			return errors.New("strategy block of the config has no block_structure")
		}
		p.height, p.group = args.Block[0], args.Block[1]
		lines = ceil(rows, int64(p.height))
	default:
		return fmt.Errorf("strategy %q of weights: %w (known: tensor, channel, group, tensor_group, block)", strategy, kernels.ErrUnsupported)
	}
	if p.group > 0 {
		p.groups = int(ceil(cols, int64(p.group)))
	}
	want := []int64{lines, int64(p.groups)}
	have := scales.Shape
	if len(have) == 3 && len(g.first.Shape) == 3 { // experts before them
		have = have[1:]
	}
	switch {
	case slices.Equal(have, want):
	case p.groups == 1 && slices.Equal(have, want[:1]): // [outputs], or [1]
	case strategy == byTensor && len(have) == 0:
	default:
		return fmt.Errorf("%s is %v, want %v for %d×%d by %s", scales.Name, scales.Shape, want, rows, cols, strategy)
	}
	if t := g.params["weight_g_idx"]; t != nil {
		if t.DType != checkpoint.I32 || !slices.Equal(t.Shape, []int64{cols}) || p.height != 1 {
			return fmt.Errorf("%s is %s %v, want I32 [%d]", t.Name, t.DType, t.Shape, cols)
		}
		p.index = t
	}
	return nil
}

// intFormat describes integers that are in no table of the kernels.
func (p *packed) intFormat(maker string, scales *checkpoint.Tensor, asymmetric bool) kernels.Format {
	f := kernels.Format{
		Name: fmt.Sprintf("%s-int%d", maker, p.bits), Bits: p.bits, Element: fmt.Sprintf("int%d", p.bits),
		Description: fmt.Sprintf("%d-bit integers as %s stores them", p.bits, makers[maker]),
	}
	p.scoped(&f, scales)
	if asymmetric {
		f.MinBits = p.bits
	} else {
		f.Name += "-sym"
	}
	return f
}

// makers are the names that formats begin with.
var makers = map[string]string{"ct": CompressedTensors, "modelopt": ModelOpt, "quark": Quark}

// makerOf is the name that formats of a method begin with.
func makerOf(method string) string {
	for maker, m := range makers {
		if m == method {
			return maker
		}
	}
	return "own"
}

// scoped adds to a format what shares a scale.
func (p *packed) scoped(f *kernels.Format, scales *checkpoint.Tensor) {
	f.Scope, f.Scale, f.ScaleBits = kernels.ScopeChannel, scaleName(scales), scales.DType.Bits()
	if p.group > 0 {
		f.Scope, f.Group = kernels.ScopeGroup, p.group
	}
	switch {
	case p.height == 0:
		f.Name += "-tensor"
		f.Description += " with a scale for all"
	case p.height > 1:
		f.Name += fmt.Sprintf("-block%dx%d", p.height, p.group)
		f.Description += " with a scale a block"
	case p.group > 0:
		f.Name += fmt.Sprintf("-g%d", p.group)
		f.Description += " with a scale a group"
	default:
		f.Name += "-channel"
		f.Description += " with a scale a row"
	}
}

// scaleName is the number format of stored scales. Bytes are powers of two.
func scaleName(t *checkpoint.Tensor) string {
	switch t.DType {
	case checkpoint.F16:
		return "f16"
	case checkpoint.BF16:
		return "bf16"
	case checkpoint.U8, checkpoint.F8E8M0:
		return "e8m0"
	case checkpoint.F8E4M3:
		return "e4m3"
	}
	return "f32"
}

// attach makes modules decode themselves, with scales row by row after experts.
func (p *packed) attach(ms []Module, scales *checkpoint.Tensor, cols int64) error {
	if p.groups > math.MaxInt32/4 || int64(p.groups) > cols {
		return fmt.Errorf("%d groups are too many", p.groups)
	}
	p.scales = (*Module).readRowScales
	row := int64(p.groups) * int64(scales.DType.Bits()) / 8
	each := scales.Size / int64(len(ms))
	if ms[0].Expert >= 0 && (len(scales.Shape) == 0 || scales.Shape[0] != int64(len(ms))) {
		return fmt.Errorf("%s is %v, want a part for each of %d experts", scales.Name, scales.Shape, len(ms))
	}
	for i := range ms {
		ms[i].packed = p
		ms[i].scales = place{t: scales, off: int64(i) * each, row: row}
	}
	return nil
}

// sharedRows reads rows of a field that several rows of the matrix share, and gives
// each row its own.
func (m *Module) sharedRows(ctx context.Context, s *Stored, dst []byte, at place, size, first, rows int) ([]byte, error) {
	height := m.packed.height
	if height == 1 && int(at.row) == size {
		return m.readPlace(ctx, dst, at, int64(first), int64(rows))
	}
	if rows == 0 {
		return dst[:0], nil
	}
	line := func(r int) int {
		if height == 0 {
			return 0
		}
		return r / height
	}
	from := line(first)
	var err error
	if s.words, err = m.readPlace(ctx, s.words, at, int64(from), int64(line(first+rows-1)-from+1)); err != nil {
		return dst[:0], err
	}
	dst = grow(dst, rows*size)
	for r := range rows {
		copy(dst[r*size:][:size], s.words[(line(first+r)-from)*int(at.row):])
	}
	return dst, nil
}

// readRowScales reads scales that are stored row by row.
func (m *Module) readRowScales(ctx context.Context, s *Stored, first, rows int) (err error) {
	s.Scales, err = m.sharedRows(ctx, s, s.Scales, m.scales, m.packed.groups*m.ScaleSize(), first, rows)
	return err
}

// addByteZeros gives modules zero points of a byte each, in the shape of the scales:
// integers with a sign, or, beside floats, floats.
func addByteZeros(ms []Module, p *packed, t *checkpoint.Tensor) error {
	scales := ms[0].scales.t
	want := checkpoint.I8
	if p.values != nil {
		want = checkpoint.F8E4M3
	}
	if t.DType != want || t.Elements() != scales.Elements() || !slices.Equal(squeeze(t.Shape), squeeze(scales.Shape)) {
		return fmt.Errorf("%s is %s %v, want %s %v", t.Name, t.DType, t.Shape, want, scales.Shape)
	}
	p.zeros, p.signed = (*Module).readByteZeros, p.values == nil
	for i := range ms {
		ms[i].mins = place{t: t, off: int64(i) * t.Size / int64(len(ms)), row: int64(p.groups)}
	}
	return nil
}

// squeeze is a shape without sides of 1.
func squeeze(shape []int64) []int64 {
	return slices.DeleteFunc(slices.Clone(shape), func(n int64) bool { return n == 1 })
}

// readByteZeros reads zero points of a byte each, as codes.
func (m *Module) readByteZeros(ctx context.Context, s *Stored, first, rows int) ([]byte, error) {
	p := m.packed
	out, err := m.sharedRows(ctx, s, s.Mins, m.mins, p.groups, first, rows)
	if err != nil || !p.signed {
		return out, err
	}
	for i, b := range out {
		z := int(int8(b)) + int(p.middle)
		if z < 0 || z >= 1<<p.bits {
			return out, fmt.Errorf("layout: %s: the zero point %d of output %d is none of %d bits: %w", m.mins.t.Name, int8(b), first+i/p.groups, p.bits, ErrZeroPoint)
		}
		out[i] = byte(z)
	}
	return out, nil
}

// readInts reads a small tensor of integers.
func (o *opener) readInts(t *checkpoint.Tensor, n int) ([]int64, error) {
	if t.Elements() != int64(n) {
		return nil, fmt.Errorf("%s is %v, want [%d]", t.Name, t.Shape, n)
	}
	size := t.DType.Bits() / 8
	raw := make([]byte, size*n)
	if err := o.ck.ReadAt(context.Background(), t, 0, raw); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "checkpoint: "))
	}
	out := make([]int64, n)
	for i := range out {
		if size == 4 {
			out[i] = int64(int32(binary.LittleEndian.Uint32(raw[4*i:])))
		} else {
			out[i] = int64(binary.LittleEndian.Uint64(raw[8*i:]))
		}
	}
	return out, nil
}
