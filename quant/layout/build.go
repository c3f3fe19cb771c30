package layout

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	ms, err := o.fourBit(f, g, spec, kernels.BlockNVFP4)
	if err != nil {
		return nil, err
	}
	return ms, addGlobal(ms, g.params[f.needs[2].param])
}

// buildMXFP4 reads [outputs, inputs/2] codes with [outputs, inputs/32] scales.
func buildMXFP4(o *opener, f *form, g *group) ([]Module, error) {
	return o.fourBit(f, g, kernels.Spec{Format: "mxfp4", Convention: kernels.CT}, 32)
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

// buildFP8 reads one code a byte with a scale of the tensor, of each row or of
// each tile. ModelOpt and compressed-tensors write it alike, so the config says
// whose it is; f32 scales mean the same in either.
func buildFP8(o *opener, f *form, g *group) ([]Module, error) {
	scales := g.params["weight_scale"]
	own := *f
	spec := kernels.Spec{Convention: kernels.CT32}
	switch {
	case scales.DType == checkpoint.BF16:
		own.method, spec.Convention = CompressedTensors, kernels.CT
	case o.config.method == CompressedTensors:
		own.method = CompressedTensors
	case o.config.method == ModelOpt:
		own.method, spec.Convention = ModelOpt, kernels.ModelOpt
	}
	codes := g.params["weight"]
	if len(codes.Shape) != 2 {
		return nil, fmt.Errorf("%s is %v, want [outputs, inputs]", codes.Name, codes.Shape)
	}
	rows, cols := codes.Shape[0], codes.Shape[1]
	args := o.argsOf(g)
	tile := args.Block
	if own.method == ModelOpt {
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
	case args.Strategy == "block" && byTile(), args.Strategy == "" && len(scales.Shape) > 2 && byTile():
		return o.tiles(&own, g, spec, scales, tile)
	case scales.Elements() == 1 && args.Strategy != "channel":
		spec.Format = "fp8"
	case slices.Equal(scales.Shape, []int64{rows}) || slices.Equal(scales.Shape, []int64{rows, 1}):
		spec.Format = "fp8-channel"
	case byTile():
		return o.tiles(&own, g, spec, scales, tile)
	default:
		return nil, fmt.Errorf("%s is %v for %d×%d, and no block_structure of the config explains it", scales.Name, scales.Shape, rows, cols)
	}
	ms, err := o.start(&own, g, shape{false, 1, rows, cols}, cols, spec)
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

// buildWords reads compressed-tensors' integers in int32 words. Bits and groups
// are the config's: what is stored fits more than one.
func buildWords(o *opener, f *form, g *group) ([]Module, error) {
	codes, zeros := g.params["weight_packed"], g.params["weight_zero_point"]
	args := o.argsOf(g)
	switch {
	case len(codes.Shape) != 2:
		return nil, fmt.Errorf("%s is %v, want [outputs, words]", codes.Name, codes.Shape)
	case g.params["weight_g_idx"] != nil:
		return nil, fmt.Errorf("weight_g_idx: groups in the order of activations: %w", kernels.ErrUnsupported)
	case args.Bits == 0:
		return nil, errors.New("the config does not say how many bits and which groups")
	case args.Bits != 4:
		return nil, fmt.Errorf("integers of %d bits: %w", args.Bits, kernels.ErrUnsupported)
	}
	sides, err := o.readInts(g.params["weight_shape"], 2)
	if err != nil {
		return nil, err
	}
	rows, cols := codes.Shape[0], sides[1]
	if sides[0] != rows || cols < 0 || cols > 8*codes.Shape[1] || int64(kernels.PackedWords(int(cols), 4)) != codes.Shape[1] {
		return nil, fmt.Errorf("weight_shape is %v, weight_packed %v", sides, codes.Shape)
	}
	name, groups := groupFormat(&args, cols)
	if zeros == nil {
		name += "-sym"
	}
	spec := kernels.Spec{Format: name, Convention: kernels.CT32}
	if g.params["weight_scale"].DType == checkpoint.BF16 {
		spec.Convention = kernels.CT
	}
	ms, err := o.start(f, g, shape{false, 1, rows, codes.Shape[1]}, cols, spec)
	if err != nil {
		return nil, err
	}
	m := &ms[0]
	m.words = true
	if zeros != nil {
		if want := []int64{ceil(rows, 8), groups}; zeros.DType != checkpoint.I32 || !slices.Equal(zeros.Shape, want) {
			return nil, fmt.Errorf("%s is %s %v, want I32 %v", zeros.Name, zeros.DType, zeros.Shape, want)
		}
		m.zeros, m.mins = true, place{t: zeros, row: 4 * groups}
	}
	return ms, addScales(ms, g.params["weight_scale"], rows, groups)
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

// readInts reads a small tensor of I64.
func (o *opener) readInts(t *checkpoint.Tensor, n int) ([]int64, error) {
	if t.Elements() != int64(n) {
		return nil, fmt.Errorf("%s is %v, want [%d]", t.Name, t.Shape, n)
	}
	raw := make([]byte, 8*n)
	if err := o.ck.ReadAt(context.Background(), t, 0, raw); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "checkpoint: "))
	}
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(binary.LittleEndian.Uint64(raw[8*i:]))
	}
	return out, nil
}
