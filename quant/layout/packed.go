package layout

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// buildPacked reads what GPTQ and AWQ store under the same names and types. The
// config says whose it is, and the shapes must agree: GPTQ has a column of words
// for each output, AWQ one for eight.
func buildPacked(o *opener, f *form, g *group) ([]Module, error) {
	own := *f
	switch c := o.config; c.method {
	case GPTQ, AWQ:
		own.method = c.method
	case "":
		return nil, errors.New("no config says whose it is (quant_method gptq or awq), how many bits and which groups")
	case Marlin:
		return nil, errMarlin
	default:
		return nil, fmt.Errorf("quant_method %q of %s with GPTQ's tensors: %w (known: %s, %s)", c.method, c.file, kernels.ErrUnsupported, GPTQ, AWQ)
	}
	w, err := o.wordsOf(g)
	if err != nil {
		return nil, err
	}
	m, err := o.packedModule(&own, g, &w)
	if err != nil {
		return nil, err
	}
	return []Module{*m}, nil
}

// errMarlin says why a repacked checkpoint is not read.
var errMarlin = fmt.Errorf("marlin's order of codes is that of one GPU kernel: %w; the GPTQ checkpoint that it was repacked from can be read", kernels.ErrUnsupported)

// buildMarlin refuses what older tools wrote for one kernel.
func buildMarlin(*opener, *form, *group) ([]Module, error) { return nil, errMarlin }

// check refuses what a config says and is not read.
func (w *wordArgs) check(method string) error {
	unsupported := func(format string, args ...any) error {
		return fmt.Errorf(format+": %w", append(args, kernels.ErrUnsupported)...)
	}
	switch {
	case w.marlin || w.checkpoint == formatMarlin:
		return errMarlin
	case w.packed != "" && w.packed != "int32":
		return unsupported("pack_dtype %q", w.packed)
	case w.bits == 0:
		return errors.New("the config does not say how many bits")
	case w.group == nil:
		return errors.New("the config does not say which groups (group_size, -1 for all inputs)")
	case *w.group < -1 || *w.group == 0 || *w.group > math.MaxInt32:
		return unsupported("group_size %d", *w.group)
	case method == AWQ && w.bits != 4:
		return unsupported("AWQ of %d bits (known: 4)", w.bits)
	case method == AWQ && !slices.Contains(awqVersions, w.version):
		return unsupported("AWQ's version %q (known: %s, %s)", w.version, versionGEMM, versionGEMV)
	case method == AWQ && !slices.Contains(awqVersions, w.checkpoint):
		return unsupported("AWQ's checkpoint_format %q (known: %s, %s)", w.checkpoint, versionGEMM, versionGEMV)
	case !slices.Contains([]int{2, 3, 4, 8}, w.bits):
		return unsupported("GPTQ of %d bits (known: 2, 3, 4, 8)", w.bits)
	}
	return nil
}

// packedModule holds shapes against what the config says.
func (o *opener) packedModule(f *form, g *group, w *wordArgs) (*Module, error) {
	if err := w.check(f.method); err != nil {
		return nil, err
	}
	if f.method == AWQ && (w.version == versionGEMV || w.checkpoint == versionGEMV) {
		return o.gemvModule(f, g, w)
	}
	codes, scales, index := g.params["qweight"], g.params["scales"], g.params["g_idx"]
	if len(codes.Shape) != 2 || len(scales.Shape) != 2 {
		return nil, fmt.Errorf("%s is %v and %s %v, want a matrix each", codes.Name, codes.Shape, scales.Name, scales.Shape)
	}
	p := &packed{bits: w.bits, awq: f.method == AWQ, sym: w.symmetric != nil && *w.symmetric, multiple: wordMultiple(w.bits), scales: (*Module).readTurnedScales, zeros: (*Module).readTurnedZeros}
	p.codes = (*Module).readGPTQ
	if p.awq {
		p.codes = (*Module).readAWQ
	}
	lines, across, outs := codes.Shape[0], codes.Shape[1], scales.Shape[1]
	if lines > math.MaxInt32 || across > math.MaxInt32/8 || outs > math.MaxInt32 {
		return nil, fmt.Errorf("%s of %v is too large", codes.Name, codes.Shape)
	}
	ins := lines
	switch {
	case p.awq && outs != 8*across:
		hint := ""
		if outs == across {
			hint = ", as GPTQ stores it"
		} else if scales.Shape[0] == lines {
			hint = ", as AWQ's gemv stores it (which version of the config would say)"
		}
		return nil, fmt.Errorf("%s is %v and %s %v%s, want [inputs, outputs/8] and [groups, outputs] of AWQ's gemm", codes.Name, codes.Shape, scales.Name, scales.Shape, hint)
	case !p.awq && outs != across:
		hint := ""
		if outs == 8*across {
			hint = ", as AWQ stores it"
		}
		return nil, fmt.Errorf("%s is %v and %s %v%s, want [inputs·bits/32, outputs] and [groups, outputs] of GPTQ", codes.Name, codes.Shape, scales.Name, scales.Shape, hint)
	case !p.awq && index != nil:
		if len(index.Shape) != 1 || index.DType != checkpoint.I32 {
			return nil, fmt.Errorf("%s is %s %v, want I32 [inputs]", index.Name, index.DType, index.Shape)
		}
		if ins = index.Shape[0]; ins > math.MaxInt32 || ceil(ins*int64(p.bits), 32) != lines {
			return nil, fmt.Errorf("%s is %v, want [%d %d] for the %d inputs of %s at %d bits", codes.Name, codes.Shape, ceil(min(ins, math.MaxInt32)*int64(p.bits), 32), across, ins, index.Name, p.bits)
		}
	case !p.awq:
		if lines*32%int64(p.bits) != 0 {
			return nil, fmt.Errorf("%s is %v, which is no whole number of inputs at %d bits", codes.Name, codes.Shape, p.bits)
		}
		ins = lines * 32 / int64(p.bits)
	}
	groups := int64(1)
	if *w.group > 0 {
		p.group = *w.group
		groups = ceil(ins, int64(p.group))
	}
	p.groups = int(groups)
	switch zeros := g.params["qzeros"]; {
	case outs == 0 || ins == 0:
		return nil, errors.New("is empty")
	case scales.Shape[0] != groups:
		return nil, fmt.Errorf("%s is %v, want [%d %d] for %d inputs in groups of %d", scales.Name, scales.Shape, groups, outs, ins, *w.group)
	case !slices.Equal(zeros.Shape, []int64{groups, ceil(outs*int64(p.bits), 32)}):
		return nil, fmt.Errorf("%s is of shape %v, want [%d %d] for %d outputs of %d bits in %d groups", zeros.Name, zeros.Shape, groups, ceil(outs*int64(p.bits), 32), outs, p.bits, groups)
	}
	format := packedFormat(f.method, p, scales.DType)
	ms, err := o.startFormat(f, g, shape{false, 1, outs, 0}, ins, kernels.Spec{Format: format.Name, Convention: kernels.CT32}, format)
	if err != nil {
		return nil, err
	}
	m := &ms[0]
	m.packed = p
	m.scales = place{t: scales, row: outs * int64(scales.DType.Bits()) / 8}
	m.mins = place{t: g.params["qzeros"], row: 4 * g.params["qzeros"].Shape[1]}
	if p.awq {
		return m, o.symmetric(m, w)
	}
	p.index = index
	if err := o.order(m, g, w); err != nil {
		return nil, err
	}
	return m, o.zeroPoints(m, w)
}

// packedFormat describes what is stored; it is in no table of the kernels, which
// make no such thing.
func packedFormat(method string, p *packed, scale checkpoint.DType) kernels.Format {
	f := kernels.Format{
		Name: fmt.Sprintf("%s-int%d-g%d", method, p.bits, p.group), Description: fmt.Sprintf("%d-bit integers with a scale and a zero point a group, as %s stores them", p.bits, method),
		Bits: p.bits, Element: fmt.Sprintf("int%d", p.bits), Scope: kernels.ScopeGroup, Group: p.group,
		Scale: map[checkpoint.DType]string{checkpoint.F16: "f16", checkpoint.BF16: "bf16", checkpoint.F32: "f32"}[scale], ScaleBits: scale.Bits(), MinBits: p.bits,
	}
	if p.group == 0 {
		f.Name, f.Scope = fmt.Sprintf("%s-int%d-channel", method, p.bits), kernels.ScopeChannel
	}
	return f
}

// order wants the group of each input to be known.
func (o *opener) order(m *Module, g *group, w *wordArgs) error {
	if m.packed.index != nil {
		return nil
	}
	if m.packed.groups > 1 && (w.order == nil || *w.order) {
		return fmt.Errorf("has no g_idx, and desc_act of %s is not false: which group an input is in cannot be told", o.config.file)
	}
	o.repeat(NoGroupIndex, m.codes.t, "no g_idx", "has no g_idx; desc_act of %s is false, so that its groups are taken to follow one another", o.config.file)
	return nil
}

// zeroPoints decides how the zero points of a GPTQ module are read.
func (o *opener) zeroPoints(m *Module, w *wordArgs) error {
	p := m.packed
	minus1, label, err := w.label()
	if err != nil {
		return err
	}
	p.minus1 = minus1
	if p.sym {
		stored, read, against, err := m.evidence(context.Background())
		if err != nil {
			return err
		}
		if against {
			other, way := formatGPTQv2, ZeroPointsV2
			if !minus1 {
				other, way = formatGPTQ, ZeroPointsV1
			}
			say := fmt.Sprintf("stores the zero point %d, which %s of %s makes %d; sym is true, which makes it %d: it is stored as %s stores it, and by its label every weight would be one step off",
				stored, label, o.config.file, read, 1<<(p.bits-1), other)
			if o.options.ZeroPoints == ZeroPointsTold {
				return &mislabelled{say + fmt.Sprintf("; --zero-points %s reads it so, %s by its label", way, ZeroPointsLabelled)}
			}
			o.repeat(Mislabelled, m.mins.t, say, "%s; read as --zero-points %s says", say, o.options.ZeroPoints)
		}
	}
	switch o.options.ZeroPoints {
	case ZeroPointsV1, ZeroPointsV2:
		if p.minus1 = o.options.ZeroPoints == ZeroPointsV1; p.minus1 != minus1 {
			o.ZeroPoints = o.options.ZeroPoints
		}
	}
	return nil
}

// mislabelled says that what is stored speaks against the label.
type mislabelled struct{ say string }

func (e *mislabelled) Error() string { return e.say }
