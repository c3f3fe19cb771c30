package layout

import (
	"fmt"
	"slices"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// MLX keeps a matrix [outputs, inputs], or [experts, outputs, inputs], in words of
// 32 bits along the inputs, codes of any width in one stream from the lowest bit
// on. What the codes are is its mode.

// mlxArgs is what an MLX config says of a module.
type mlxArgs struct {
	bits, group int
	mode        string
}

// Modes of MLX.
const (
	mlxAffine = "affine" // scale and bias a group, of the weights' type
	mlxMXFP4  = "mxfp4"
	mlxNVFP4  = "nvfp4"
	mlxMXFP8  = "mxfp8"
)

// mlxModes are the modes with the bits and the group that each begins with; all
// but affine know no others.
var mlxModes = map[string]mlxArgs{
	mlxAffine: {4, 64, mlxAffine}, mlxMXFP4: {4, 32, mlxMXFP4}, mlxNVFP4: {4, 16, mlxNVFP4}, mlxMXFP8: {8, 32, mlxMXFP8},
}

// mlxBits are the widths of affine codes that MLX packs.
var mlxBits = []int{1, 2, 3, 4, 5, 6, 8}

// mlxArgsOf is what the config says of a module: its own entry, else what stands
// for all.
func (o *opener) mlxArgsOf(g *group) (mlxArgs, error) {
	c := o.config
	switch {
	case c.method == "":
		return mlxArgs{}, fmt.Errorf("no config says how many bits and which groups (config.json: quantization)")
	case c.method != MLX:
		return mlxArgs{}, fmt.Errorf("quant_method %q of %s with MLX's tensors: %w (known: %s)", c.method, c.file, kernels.ErrUnsupported, MLX)
	}
	if a, ok := c.mlxLayers[g.name]; ok {
		return a, nil
	}
	return c.mlx, nil
}

// mlxShape is what the codes of a group are shaped as, and the inputs that as many
// words hold.
func mlxShape(g *group, bits int) (s shape, cols int64, err error) {
	codes := g.params["weight"]
	if s, err = codesShape(codes); err != nil {
		return s, 0, err
	}
	if s.stored > maxWords {
		return s, 0, fmt.Errorf("%s of %v is too large", codes.Name, codes.Shape)
	}
	if s.stored*32%int64(bits) != 0 {
		return s, 0, fmt.Errorf("%s is %v, which is no whole number of inputs at %d bits", codes.Name, codes.Shape, bits)
	}
	return s, s.stored * 32 / int64(bits), nil
}

// maxWords bounds the words of a row, so that bits can be counted.
const maxWords = 1 << 31

// buildMLXAffine reads codes that stand for scale·code + bias.
func buildMLXAffine(o *opener, f *form, g *group) ([]Module, error) {
	a, err := o.mlxArgsOf(g)
	if err != nil {
		return nil, err
	}
	scales, biases := g.params["scales"], g.params["biases"]
	switch {
	case a.mode != mlxAffine:
		return nil, fmt.Errorf("has biases, which affine has, but %s of %s says mode %s", mlxSection, o.config.file, a.mode)
	case !slices.Contains(mlxBits, a.bits):
		return nil, fmt.Errorf("affine of %d bits: %w (known: %v)", a.bits, kernels.ErrUnsupported, mlxBits)
	case a.group < 8 || a.group > 1<<20:
		return nil, fmt.Errorf("affine in groups of %d: %w", a.group, kernels.ErrUnsupported)
	case biases.DType != scales.DType || !slices.Equal(biases.Shape, scales.Shape):
		return nil, fmt.Errorf("%s is %s %v, %s %s %v", scales.Name, scales.DType, scales.Shape, biases.Name, biases.DType, biases.Shape)
	}
	s, cols, err := mlxShape(g, a.bits)
	if err != nil {
		return nil, err
	}
	if n := scales.Shape[len(scales.Shape)-1]; len(scales.Shape) != len(g.params["weight"].Shape) || cols%int64(a.group) != 0 || n != cols/int64(a.group) {
		return nil, fmt.Errorf("%s is %v and %s %v: not %d bits in groups of %d, as %s of %s says", g.params["weight"].Name, g.params["weight"].Shape, scales.Name, scales.Shape, a.bits, a.group, mlxSection, o.config.file)
	}
	format := kernels.Format{
		Name: fmt.Sprintf("mlx-int%d-g%d", a.bits, a.group), Description: fmt.Sprintf("%d-bit integers with a scale and a bias a group, as MLX stores them", a.bits),
		Bits: a.bits, Element: fmt.Sprintf("int%d", a.bits), Scope: kernels.ScopeGroup, Group: a.group,
		Scale: floatName[scales.DType], ScaleBits: scales.DType.Bits(), MinBits: scales.DType.Bits(),
	}
	ms, err := o.startFormat(f, g, s, cols, kernels.Spec{Format: format.Name}, format)
	if err != nil {
		return nil, err
	}
	groups := cols / int64(a.group)
	if err := addScales(ms, scales, s.rows, groups); err != nil {
		return nil, err
	}
	row := groups * int64(biases.DType.Bits()) / 8
	for i := range ms {
		ms[i].own = affine{a.bits, a.group, scales.DType}
		ms[i].mins = place{t: biases, off: int64(i) * s.rows * row, row: row}
	}
	return ms, nil
}

// floatName is what the kernels call the types of scales.
var floatName = map[checkpoint.DType]string{checkpoint.F16: "f16", checkpoint.BF16: "bf16", checkpoint.F32: "f32"}

// buildMLXFloat reads floating-point codes with scales of a byte. How many words
// share a scale tells the three modes apart; the config is held against that.
func buildMLXFloat(o *opener, f *form, g *group) ([]Module, error) {
	codes, scales := g.params["weight"], g.params["scales"]
	s, err := codesShape(codes)
	if err != nil {
		return nil, err
	}
	if len(scales.Shape) != len(codes.Shape) {
		return nil, fmt.Errorf("%s is %v and %s %v", codes.Name, codes.Shape, scales.Name, scales.Shape)
	}
	n := scales.Shape[len(scales.Shape)-1]
	var mode string
	for name, words := range map[string]int64{mlxNVFP4: 2, mlxMXFP4: 4, mlxMXFP8: 8} {
		if n > 0 && n <= maxWords && s.stored == n*words {
			mode = name
		}
	}
	if mode == "" {
		return nil, fmt.Errorf("%s is %v and %s %v, but 2, 4 or 8 words share a scale (nvfp4, mxfp4, mxfp8)", codes.Name, codes.Shape, scales.Name, scales.Shape)
	}
	if a, err := o.mlxArgsOf(g); err != nil && o.config.method != "" {
		return nil, err
	} else if err == nil && a.mode != mode {
		o.findf(Contradicts, codes, "is stored as %s, but %s of %s says mode %s of %d bits in groups of %d", mode, mlxSection, o.config.file, a.mode, a.bits, a.group)
	}
	global := g.params["global_scale"]
	if global != nil && mode != mlxNVFP4 {
		return nil, fmt.Errorf("%s: %s has no scale of the tensor", global.Name, mode)
	}
	s.stored *= 4 // bytes
	var ms []Module
	switch mode {
	case mlxMXFP8:
		ms, err = o.startFormat(f, g, s, s.stored, kernels.Spec{Format: mode}, mx8Format())
		for i := range ms {
			ms[i].own = mx8{}
		}
	case mlxMXFP4:
		ms, err = o.start(f, g, s, 2*s.stored, kernels.Spec{Format: mode, Convention: kernels.CT32})
	default:
		ms, err = o.start(f, g, s, 2*s.stored, kernels.Spec{Format: mode, Convention: kernels.ModelOpt})
		for i := range ms {
			ms[i].unit = 1
		}
	}
	if err != nil {
		return nil, err
	}
	if global != nil {
		if global.DType != checkpoint.F32 {
			return nil, fmt.Errorf("%s is %s, want F32", global.Name, global.DType)
		}
		if err := addGlobal(ms, global); err != nil {
			return nil, err
		}
		for i := range ms {
			ms[i].unit = 6 * kernels.MaxE4M3 // it is the largest magnitude
		}
	}
	return ms, addScales(ms, scales, s.rows, n)
}

// readMLX says how an MLX module is read.
func (m *Module) readMLX(add func(string, ...any)) {
	if a, ok := m.own.(affine); ok {
		add("%d-bit codes as one stream of words along the inputs, the first in the lowest bits", a.bits)
		add("scale times code plus bias, product and sum rounded to %s each", m.scales.t.DType)
		return
	}
	add("%s in words along the inputs, the first in the lowest bits", map[string]string{"e2m1": "E2M1", "e4m3": "E4M3"}[m.format.Element])
	switch {
	case m.format.Scale == "e8m0":
		add("scales are powers of two in %s (E8M0)", m.scales.t.DType)
	case m.global.t != nil:
		add("scales are E4M3 in %s, times the largest magnitude over 2688", m.scales.t.DType)
	default:
		add("scales are E4M3 in %s", m.scales.t.DType)
	}
}
