package layout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// DeepSeek stores FP8 in tiles: as weight and weight_scale_inv in V3, as weight and
// scale in V4, whose experts may be E2M1 with a power of two for each 32 inputs.
// Every scale multiplies, whatever its name.

// deepSeek is what an opener knows of such a checkpoint.
type deepSeek struct {
	experts  *string // expert_dtype of the config, once it was read
	evidence int     // modules whose scales were looked into
}

// tileScales are the types of scales of tiles: powers of two are F8_E8M0 or the same
// byte as U8.
var tileScales = []checkpoint.DType{checkpoint.F32, checkpoint.BF16, checkpoint.F8E8M0, checkpoint.U8}

// buildTiles reads FP8 with a scale a tile. The size of a tile is the config's:
// partial tiles at the edges leave several that would fit. Without a size one scale
// stands for the whole matrix.
func buildTiles(o *opener, f *form, g *group) ([]Module, error) {
	codes, scales := g.params["weight"], g.params[f.needs[1].param]
	tile := o.config.block
	spec := kernels.Spec{Convention: kernels.DeepSeek}
	if scales.DType == checkpoint.BF16 {
		spec.Convention = kernels.CT // products are rounded to bf16, as transformers has them
	}
	switch {
	case len(codes.Shape) != 2:
		return nil, fmt.Errorf("%s is %v, want [outputs, inputs]", codes.Name, codes.Shape)
	case tile[0] != 0 && tile[1] != 0:
		return o.tiles(f, g, spec, scales, tile)
	case len(scales.Shape) != 0 || scales.DType.Bits() < 16:
		return nil, errors.New("the config has no weight_block_size")
	}
	if scales.DType == checkpoint.F32 {
		spec.Convention = kernels.CT32
	}
	spec.Format = "fp8"
	ms, err := o.start(f, g, shape{false, 1, codes.Shape[0], codes.Shape[1]}, codes.Shape[1], spec)
	if err != nil {
		return nil, err
	}
	ms[0].scales = place{t: scales}
	ms[0].global = place{t: scales, row: int64(scales.DType.Bits()) / 8}
	return ms, nil
}

// packedScales are the types of scales of E2M1 experts: E8M0 by its own type or as a
// byte of either sign; E4M3 is taken to be refused.
var packedScales = []checkpoint.DType{checkpoint.F8E8M0, checkpoint.U8, checkpoint.I8, checkpoint.F8E4M3}

// buildPackedExpert reads two E2M1 codes a byte with a scale for each 32 inputs.
func buildPackedExpert(o *opener, f *form, g *group) ([]Module, error) {
	codes, scales := g.params["weight"], g.params["scale"]
	s, err := codesShape(codes)
	if err != nil {
		return nil, err
	}
	if len(scales.Shape) != len(codes.Shape) {
		return nil, fmt.Errorf("%s is %v and %s %v", codes.Name, codes.Shape, scales.Name, scales.Shape)
	}
	cols, blocks := 2*s.stored, scales.Shape[len(scales.Shape)-1]
	switch {
	case scales.DType == checkpoint.F8E4M3 || blocks == ceil(cols, kernels.BlockNVFP4) && blocks != ceil(cols, mxBlock):
		return nil, fmt.Errorf("%s is %s %v, a scale for each %d inputs, which are NVFP4's E4M3, but nothing says what their second level is: %w (known: E8M0 for each 32)", scales.Name, scales.DType, scales.Shape, kernels.BlockNVFP4, kernels.ErrUnsupported)
	case blocks != ceil(cols, mxBlock):
		return nil, fmt.Errorf("%s is %v and %s %v, want a scale for each %d of %d inputs, two in a byte", codes.Name, codes.Shape, scales.Name, scales.Shape, mxBlock, cols)
	}
	if scales.DType != checkpoint.F8E8M0 {
		if err := o.areExponents(scales); err != nil {
			return nil, err
		}
	}
	if d := o.expertDType(); d != "" && d != "fp4" {
		o.repeat(Contradicts, codes, d, "is stored as E2M1, two codes a byte, but expert_dtype of config.json is %q", d)
	}
	ms, err := o.start(f, g, s, cols, kernels.Spec{Format: "mxfp4", Convention: kernels.CT32})
	if err != nil {
		return nil, err
	}
	return ms, addScales(ms, scales, s.rows, blocks)
}

// Bounds of the evidence that bytes are exponents: scales of one matrix that was
// trained lie within 2^40 of one another, where E4M3 read as exponents would
// spread over up to 2^126.
const (
	widestExponents = 40
	evidenceBytes   = 4096
	evidenceModules = 16
)

// areExponents reads some scales that are stored as plain bytes and says where they
// cannot be exponents. Only the first modules of a checkpoint are read; its others
// are stored as they are.
func (o *opener) areExponents(t *checkpoint.Tensor) error {
	if o.evidence++; o.evidence > evidenceModules {
		return nil
	}
	raw := make([]byte, min(t.Size, evidenceBytes))
	if err := o.ck.ReadAt(context.Background(), t, 0, raw); err != nil {
		return err
	}
	low, high := byte(255), byte(0)
	for _, b := range raw {
		if b == 255 {
			return fmt.Errorf("%s is %s, and has bytes of 255, which as E8M0 are NaN", t.Name, t.DType)
		}
		if b != 0 { // a block of zeros may have any
			low, high = min(low, b), max(high, b)
		}
	}
	if high > low && high-low > widestExponents {
		return fmt.Errorf("%s is %s with bytes from %d to %d: as E8M0 they would be 2^%d apart, so that they are something else, E4M3 perhaps: %w", t.Name, t.DType, low, high, high-low, kernels.ErrUnsupported)
	}
	return nil
}

// expertDType is the key of that name in config.json, which V4 has; "" for none.
func (o *opener) expertDType() string {
	if o.experts == nil {
		var root struct {
			DType string `json:"expert_dtype"`
			Text  struct {
				DType string `json:"expert_dtype"`
			} `json:"text_config"`
		}
		_ = json.Unmarshal(o.ck.ConfigJSON(), &root) // a config that is none was refused before
		if root.DType == "" {
			root.DType = root.Text.DType
		}
		o.experts = &root.DType
	}
	return *o.experts
}
