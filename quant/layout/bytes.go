package layout

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// Codes of a byte each: FP8, MXFP8 and 8-bit integers.

// whose says that a config does not say whose layout it is.
func (o *opener) whose(f *form) error {
	known := ModelOpt + ", " + CompressedTensors + ", " + Quark
	if o.config.method == "" {
		return fmt.Errorf("no config says whose %s it is (quant_method %s)", f.name, known)
	}
	return fmt.Errorf("quant_method %q of %s with %s: %w (known: %s)", o.config.method, o.config.file, f.name, kernels.ErrUnsupported, known)
}

// e4m3Table is what codes of E4M3 stand for.
var e4m3Table = tableOf(kernels.E4M3ToF32)

func tableOf(value func(byte) float32) *[256]float32 {
	var t [256]float32
	for c := range t {
		t[c] = value(byte(c))
	}
	return &t
}

// buildFP8 reads one code a byte with a scale of the tensor, of each row or of
// each tile. ModelOpt, compressed-tensors and Quark write it alike, so the config
// says whose it is; f32 scales mean the same in each. Scales of groups, zero points
// and scales in f16 are compressed-tensors'.
func buildFP8(o *opener, f *form, g *group) ([]Module, error) {
	scales := g.params["weight_scale"]
	named := *f
	spec := kernels.Spec{Convention: kernels.CT32}
	switch m := o.config.method; {
	case m == Quark:
		return o.quarkFP8(f, g)
	case m == CompressedTensors:
		named.method = m
		if scales.DType == checkpoint.BF16 {
			spec.Convention = kernels.CT
		}
	case m == ModelOpt && scales.DType == checkpoint.F32:
		named.method, spec.Convention = m, kernels.ModelOpt
	case scales.DType == checkpoint.BF16:
		named.method, spec.Convention = CompressedTensors, kernels.CT
	}
	codes := g.params["weight"]
	if len(codes.Shape) != 2 {
		return o.fp8Experts(&named, g, codes, scales)
	}
	rows, cols := codes.Shape[0], codes.Shape[1]
	args := o.argsOf(g)
	if g.params["weight_zero_point"] != nil || scales.DType == checkpoint.F16 || args.Strategy == byGroup {
		return o.ownFP8(&named, g, &args, shape{false, 1, rows, cols}, cols)
	}
	tile := args.Block
	if named.method == ModelOpt {
		tile = block{128, 128} // the only one of ModelOpt's FP8_PB_WO
	}
	byTile := func() bool {
		if tile[0] == 0 || tile[1] == 0 {
			return false
		}
		r, c := ceil(rows, int64(tile[0])), ceil(cols, int64(tile[1]))
		return slices.Equal(scales.Shape, []int64{r, c}) || slices.Equal(scales.Shape, []int64{r, 1, c, 1})
	}
	switch {
	case args.Strategy == byBlock && byTile(), args.Strategy == "" && len(scales.Shape) > 2 && byTile():
		return o.tiles(&named, g, spec, scales, tile)
	case scales.Elements() == 1 && args.Strategy != byChannel:
		spec.Format = "fp8"
	case slices.Equal(scales.Shape, []int64{rows}) || slices.Equal(scales.Shape, []int64{rows, 1}):
		spec.Format = "fp8-channel"
	case byTile():
		return o.tiles(&named, g, spec, scales, tile)
	default:
		return nil, fmt.Errorf("%s is %v for %d×%d, and no block_structure of the config explains it", scales.Name, scales.Shape, rows, cols)
	}
	ms, err := o.start(&named, g, shape{false, 1, rows, cols}, cols, spec)
	if err != nil {
		return nil, err
	}
	m := &ms[0]
	m.scales = place{t: scales, row: int64(scales.DType.Bits()) / 8}
	if spec.Format == "fp8" {
		m.global, m.scales.row = m.scales, 0
	}
	return ms, nil
}

// fp8Experts reads FP8 of experts in one tensor, with a scale for each expert or for each
// of its outputs.
func (o *opener) fp8Experts(f *form, g *group, codes, scales *checkpoint.Tensor) ([]Module, error) {
	s, err := codesShape(codes)
	if err != nil {
		return nil, err
	}
	args := weightArgs{Strategy: byTensor}
	switch squeezed := squeeze(scales.Shape); {
	case scales.Elements() == s.experts && len(squeezed) <= 1:
	case scales.Elements() == s.experts*s.rows && slices.Equal(squeezed, squeeze([]int64{s.experts, s.rows})):
		args.Strategy = byChannel
	default:
		return nil, fmt.Errorf("%s is %v, want a scale for each of %d experts, or for each of their %d outputs", scales.Name, scales.Shape, s.experts, s.rows)
	}
	p := &packed{bits: 8, values: e4m3Table, multiple: 1, codes: (*Module).readBytes, height: 1, groups: 1}
	if args.Strategy == byTensor {
		p.height = 0
	}
	if f.method == CompressedTensors {
		p.round = roundingOf(scales)
	}
	return o.floats8(f, g, p, s, s.stored, scales, nil)
}

// ownFP8 reads FP8 that the kernels have no format for.
func (o *opener) ownFP8(f *form, g *group, args *weightArgs, s shape, cols int64) ([]Module, error) {
	scales := g.params["weight_scale"]
	p := &packed{bits: 8, values: e4m3Table, round: roundingOf(scales), multiple: 1, codes: (*Module).readBytes}
	if err := o.scopes(p, g, args, s.rows, cols, scales); err != nil {
		return nil, err
	}
	return o.floats8(f, g, p, s, cols, scales, g.params["weight_zero_point"])
}

// buildMXFP8 reads E4M3 with powers of two for each 32 inputs, bytes that are exponents
// and no floats.
func buildMXFP8(o *opener, f *form, g *group) ([]Module, error) {
	named := *f
	switch o.config.method {
	case ModelOpt, CompressedTensors, Quark:
		named.method = o.config.method
	default:
		return nil, o.whose(f)
	}
	s, err := codesShape(g.params["weight"])
	if err != nil {
		return nil, err
	}
	scales := g.params["weight_scale"]
	p := &packed{bits: 8, values: e4m3Table, group: 32, groups: int(ceil(s.stored, 32)), height: 1, multiple: 1, codes: (*Module).readBytes}
	if named.method == CompressedTensors {
		p.round = toBF16 // which it makes of the powers
	}
	want := []int64{s.rows, int64(p.groups)}
	if s.fused {
		want = append([]int64{s.experts}, want...)
	}
	if !slices.Equal(scales.Shape, want) {
		return nil, fmt.Errorf("%s is %v, want %v", scales.Name, scales.Shape, want)
	}
	return o.floats8(&named, g, p, s, s.stored, scales, nil)
}

// floats8 makes modules of E4M3 that decode themselves.
func (o *opener) floats8(f *form, g *group, p *packed, s shape, cols int64, scales, zeros *checkpoint.Tensor) ([]Module, error) {
	format := kernels.Format{Name: makerOf(f.method) + "-fp8", Bits: 8, Element: "e4m3", Description: "E4M3"}
	if scaleName(scales) == "e8m0" {
		format.Name, format.Description = "mxfp8", "E4M3 in blocks of 32 with E8M0 scales"
		format.Scope, format.Group, format.Scale, format.ScaleBits = kernels.ScopeGroup, p.group, "e8m0", 8
	} else {
		p.scoped(&format, scales)
	}
	if zeros != nil {
		format.Name, format.MinBits = format.Name+"-asym", 8
	}
	ms, err := o.startFormat(f, g, s, cols, kernels.Spec{Format: format.Name, Convention: kernels.CT32}, format)
	if err != nil {
		return nil, err
	}
	if err := p.attach(ms, scales, cols); err != nil || zeros == nil {
		return ms, err
	}
	return ms, addByteZeros(ms, p, zeros)
}

// readBytes reads codes of a byte each.
func (m *Module) readBytes(ctx context.Context, s *Stored, first, rows int) (err error) {
	s.Codes, err = m.readPlace(ctx, s.Codes, m.codes, int64(first), int64(rows))
	return err
}

// readSigned reads integers of a byte each as codes: plus half of their range.
func (m *Module) readSigned(ctx context.Context, s *Stored, first, rows int) error {
	if err := m.readBytes(ctx, s, first, rows); err != nil {
		return err
	}
	for i := range s.Codes {
		s.Codes[i] ^= 0x80
	}
	return nil
}

// buildInt8 reads integers of a byte each: compressed-tensors' int-quantized and
// naive-quantized, whatever their bits, ModelOpt's W8A8 and W8A16, and Quark's.
func buildInt8(o *opener, f *form, g *group) ([]Module, error) {
	codes, scales, zeros := g.params["weight"], g.params["weight_scale"], g.params["weight_zero_point"]
	named := *f
	maker := "ct"
	switch o.config.method {
	case CompressedTensors:
		named.method = CompressedTensors
	case ModelOpt:
		named.method, maker = ModelOpt, "modelopt"
		if zeros != nil {
			return nil, fmt.Errorf("%s beside ModelOpt's integers, which have none: %w", zeros.Name, kernels.ErrUnsupported)
		}
	case Quark:
		return o.quarkInt8(g)
	default:
		return nil, o.whose(f)
	}
	s, err := codesShape(codes)
	if err != nil {
		return nil, err
	}
	args := o.argsOf(g)
	if args.Bits > 8 {
		return nil, fmt.Errorf("integers of %d bits in bytes", args.Bits)
	}
	if args.Strategy == "" && named.method == ModelOpt && scales.Elements() > 1 {
		args.Strategy = byChannel
	}
	p := &packed{bits: 8, middle: 0x80, multiple: 1, unordered: true, codes: (*Module).readSigned, within: args.Bits}
	if named.method == CompressedTensors {
		p.round = roundingOf(scales)
	}
	if err := o.scopes(p, g, &args, s.rows, s.stored, scales); err != nil {
		return nil, err
	}
	format := p.intFormat(maker, scales, zeros != nil)
	ms, err := o.startFormat(&named, g, s, s.stored, kernels.Spec{Format: format.Name, Convention: kernels.CT32}, format)
	if err != nil {
		return nil, err
	}
	if err := p.attach(ms, scales, s.stored); err != nil || zeros == nil {
		return ms, err
	}
	return ms, addByteZeros(ms, p, zeros)
}

// buildBytes reads what is in bytes without a sign: ModelOpt's 4-bit integers, two
// outputs a byte, and Quark's 8-bit ones.
func buildBytes(o *opener, f *form, g *group) ([]Module, error) {
	switch o.config.method {
	case ModelOpt:
		return o.modelOptInt4(f, g)
	case Quark:
		return o.quarkInt8(g)
	case "":
		return nil, errors.New("no config says whose it is (quant_method modelopt or quark)")
	}
	return nil, fmt.Errorf("quant_method %q of %s with weights in bytes and scales in floats: %w (known: %s, %s)", o.config.method, o.config.file, kernels.ErrUnsupported, ModelOpt, Quark)
}
