package layout

import (
	"errors"
	"fmt"
	"slices"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// The functions here make modules of the tensors of each form.

// buildNVFP4 reads [outputs, inputs/2] codes with [outputs, inputs/16] scales.
func buildNVFP4(o *opener, f *form, g *group) ([]Module, error) {
	spec := kernels.Spec{Format: "nvfp4", Convention: kernels.ModelOpt}
	if f.method == CompressedTensors {
		spec.Convention = kernels.CT
	}
	if wide, err := o.wideBlocks(f, g); wide != nil || err != nil {
		return wide, err
	}
	ms, err := o.fourBit(f, g, spec, kernels.BlockNVFP4)
	if err != nil {
		return nil, err
	}
	return ms, addGlobal(ms, g.params[f.needs[2].param])
}

// buildMXFP4 reads [outputs, inputs/2] codes with [outputs, inputs/32] scales. The same
// names and types are ModelOpt's and Quark's, so that the config says whose they are.
func buildMXFP4(o *opener, f *form, g *group) ([]Module, error) {
	named := *f
	spec := kernels.Spec{Format: "mxfp4", Convention: kernels.CT}
	if named.method == "" {
		spec.Convention = kernels.CT32
		switch o.config.method {
		case ModelOpt, Quark:
			named.method = o.config.method
		default:
			return nil, o.whose(f)
		}
	}
	return o.fourBit(&named, g, spec, 32)
}

// fourBit reads codes of which two share a byte, with scales of blocks.
func (o *opener) fourBit(f *form, g *group, spec kernels.Spec, block int64) ([]Module, error) {
	s, err := codesShape(g.params[f.needs[0].param])
	if err != nil {
		return nil, err
	}
	cols := 2 * s.stored
	ms, err := o.start(f, g, s, cols, spec)
	if err != nil {
		return nil, err
	}
	return ms, addScales(ms, g.params["weight_scale"], s.rows, ceil(cols, block))
}

// buildBlocks reads gpt-oss's experts: [experts, outputs, blocks, 16] codes
// with [experts, outputs, blocks] scales. The model has them transposed.
func buildBlocks(o *opener, f *form, g *group) ([]Module, error) {
	codes, scales := g.params["blocks"], g.params["scales"]
	if len(codes.Shape) != 4 || codes.Shape[3] != 16 {
		return nil, fmt.Errorf("%s is %v, want [experts, outputs, blocks, 16]", codes.Name, codes.Shape)
	}
	s := shape{fused: true, experts: codes.Shape[0], rows: codes.Shape[1], stored: codes.Shape[2] * 16}
	ms, err := o.start(f, g, s, 2*s.stored, kernels.Spec{Format: "mxfp4", Convention: kernels.CT32})
	if err != nil {
		return nil, err
	}
	return ms, addScales(ms, scales, s.rows, codes.Shape[2])
}

// tiles reads codes with a scale for each tile.
func (o *opener) tiles(f *form, g *group, spec kernels.Spec, scales *checkpoint.Tensor, tile block) ([]Module, error) {
	codes := g.params["weight"]
	rows, cols := codes.Shape[0], codes.Shape[1]
	down, across := ceil(rows, int64(tile[0])), ceil(cols, int64(tile[1]))
	if !slices.Equal(scales.Shape, []int64{down, across}) && !slices.Equal(scales.Shape, []int64{down, 1, across, 1}) {
		return nil, fmt.Errorf("%s is %v, want [%d %d] for %d×%d in tiles of %d×%d", scales.Name, scales.Shape, down, across, rows, cols, tile[0], tile[1])
	}
	spec.Format = "fp8-block128"
	ms, err := o.start(f, g, shape{false, 1, rows, cols}, cols, spec)
	if err != nil {
		return nil, err
	}
	m := &ms[0]
	m.tileR, m.tileC = tile[0], tile[1]
	m.scales = place{t: scales, row: across * int64(scales.DType.Bits()) / 8}
	return ms, nil
}

// buildOwn reads quantscope's own int4: bf16 scales and minima. Groups are the
// config's.
func buildOwn(o *opener, f *form, g *group) ([]Module, error) {
	codes := g.params["weight_packed"]
	args := o.argsOf(g)
	switch {
	case len(codes.Shape) != 2:
		return nil, fmt.Errorf("%s is %v, want [outputs, bytes]", codes.Name, codes.Shape)
	case args.Bits == 0:
		return nil, errors.New("the config does not say which groups")
	case args.Bits != 4:
		return nil, fmt.Errorf("integers of %d bits: %w", args.Bits, kernels.ErrUnsupported)
	}
	rows, cols := codes.Shape[0], 2*codes.Shape[1]
	name, groups := groupFormat(&args, cols)
	ms, err := o.start(f, g, shape{false, 1, rows, codes.Shape[1]}, cols, kernels.Spec{Format: name, Convention: kernels.Own})
	if err != nil {
		return nil, err
	}
	if mins, scales := g.params["weight_min"], g.params["weight_scale"]; !slices.Equal(mins.Shape, scales.Shape) {
		return nil, fmt.Errorf("%s is %v, %s %v", mins.Name, mins.Shape, scales.Name, scales.Shape)
	}
	ms[0].mins = place{t: g.params["weight_min"], row: 2 * groups}
	return ms, addScales(ms, g.params["weight_scale"], rows, groups)
}

// groupFormat is the format of asymmetric 4-bit integers in the groups that a
// config states, and how many of them a row has.
func groupFormat(w *weightArgs, cols int64) (name string, groups int64) {
	if w.GroupSize == nil || *w.GroupSize <= 0 {
		return "int4-channel", 1
	}
	return fmt.Sprintf("int4-g%d", *w.GroupSize), ceil(cols, int64(*w.GroupSize))
}

// argsOf is what the config says of a module's weights; zeros where it says
// nothing.
func (o *opener) argsOf(g *group) weightArgs {
	matched := o.index.find(nil, namesOf(g.name, len(g.first.Shape) == 3), true)
	if v := o.config.cover(matched, true); v.group != nil {
		return v.group.weights
	}
	return weightArgs{}
}
