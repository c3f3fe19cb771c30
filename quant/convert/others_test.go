package convert

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// mlxAffine is a matrix of 32×64 as MLX stores it, 4 bits in groups of 32, with biases that
// are 8 steps below 0.
func mlxAffine(scale func(i int) float32) []part {
	codes := make([]byte, 32*32)
	for i := range codes {
		codes[i] = byte(i * 37)
	}
	var scales, biases []byte
	for i := range 64 {
		s := kernels.BF16ToF32(kernels.F32ToBF16(scale(i)))
		scales = binary.LittleEndian.AppendUint16(scales, kernels.F32ToBF16(s))
		biases = binary.LittleEndian.AppendUint16(biases, kernels.F32ToBF16(-8*s))
	}
	return []part{
		{proj + ".weight", checkpoint.U32, []int64{32, 8}, codes},
		{proj + ".scales", checkpoint.BF16, []int64{32, 2}, scales}, {proj + ".biases", checkpoint.BF16, []int64{32, 2}, biases},
	}
}

// MLX's affine is our own layout's formula but for one more rounding: where that changes
// nothing, as with powers of two, the values are the same, and elsewhere it is refused.
func TestMLX(t *testing.T) {
	const quant = `null, "quantization": {"bits": 4, "group_size": 32}`
	dir := folder(t, quant, mlxAffine(func(i int) float32 { return float32(int(1)<<(i%5)) / 64 }))
	out, r := convertTo(t, dir, Own)
	if r.Values.Differ != 0 {
		t.Errorf("%+v", r.Values)
	}
	a, b := tensors(t, dir), tensors(t, out)
	for from, to := range map[string]string{"weight": "weight_packed", "scales": "weight_scale", "biases": "weight_min"} {
		if string(a[proj+"."+from].data) != string(b[proj+"."+to].data) {
			t.Errorf("%s is not %s, byte for byte", to, from)
		}
	}
	if _, err := planned(t, folder(t, quant, mlxAffine(func(i int) float32 { return 0.01 + float32(i)/1000 })), Own); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "would be") {
		t.Errorf("%v", err)
	}
	if _, err := planned(t, dir, CompressedTensors); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "MLX rounds") {
		t.Errorf("%v", err)
	}
}

// Of our own layout only minima that are a whole number of steps below 0 have zero points.
func TestOwnMinima(t *testing.T) {
	quant := `{"quant_method": "quantscope", "version": 1, "format": "int4-g32", "bits": 4, "group_size": 32, "targets": ["Linear"], "ignore": ["lm_head", "re:.*gate_proj"]}`
	parts := mlxAffine(func(i int) float32 { return 0.01 + float32(i)/1000 })
	for i, name := range []string{"weight_packed", "weight_scale", "weight_min"} {
		parts[i].name = proj + "." + name
	}
	parts[0].dtype, parts[0].shape = checkpoint.U8, []int64{32, 32}
	dir := folder(t, quant, parts)
	out, _ := convertTo(t, dir, CompressedTensors)
	back, _ := convertTo(t, out, Own)
	sameFiles(t, "back", dir, back)
	parts[2].data = slices.Clone(parts[2].data)
	parts[2].data[10] ^= 1
	if _, err := planned(t, folder(t, quant, parts), CompressedTensors); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "output 2, group 1") || !strings.Contains(err.Error(), "no zero point") {
		t.Errorf("%v", err)
	}
}

// MXFP4 of MLX and of DeepSeek-V4 is compressed-tensors', byte for byte.
func TestMXFP4(t *testing.T) {
	g := golden(t, "mxfp4_gaussian", "ct.")
	codes, scales := g["weight_packed"], g["weight_scale"]
	words := part{proj + ".weight", checkpoint.U32, []int64{codes.shape[0], codes.shape[1] / 4}, codes.data}
	bytes := part{proj + ".weight", checkpoint.I8, codes.shape, codes.data}
	for _, c := range []struct {
		what, quant string
		parts       []part
	}{
		{"MLX", `null, "quantization": {"bits": 4, "group_size": 32, "mode": "mxfp4"}`, []part{words, {proj + ".scales", checkpoint.U8, scales.shape, scales.data}}},
		{"DeepSeek-V4", `{"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}, "expert_dtype": "fp4"`, []part{bytes, {proj + ".scale", checkpoint.F8E8M0, scales.shape, scales.data}}},
	} {
		t.Run(c.what, func(t *testing.T) {
			out, r := convertTo(t, folder(t, c.quant, c.parts), CompressedTensors)
			x := tensors(t, out)
			if string(x[proj+".weight_packed"].data) != string(codes.data) || string(x[proj+".weight_scale"].data) != string(scales.data) || r.Values.Differ != 0 {
				t.Errorf("%+v", r.Values)
			}
		})
	}
}

// Powers of two in a byte become the F32 that they stand for.
func TestExponentTiles(t *testing.T) {
	g := golden(t, "fp8_deepseek_block128", "ue8m0.")
	dir := folder(t, `{"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"}`, module(proj, g, "weight", "weight_scale_inv"))
	out, r := convertTo(t, dir, CompressedTensors)
	x := tensors(t, out)[proj+".weight_scale"]
	for i, c := range g["weight_scale_inv"].data {
		if v := scaleAt(checkpoint.F32, x.data, i); v != kernels.E8M0ToF32(c) {
			t.Errorf("scale %d is %v for the exponent %d", i, v, c)
		}
	}
	if r.Values.Differ != 0 || !slices.Equal(x.shape, []int64{2, 2}) {
		t.Errorf("%+v, %v", r.Values, x.shape)
	}
}

// Whatever was an exception is one in the copy, and what would match what is quantized is
// left out with a note.
func TestExceptions(t *testing.T) {
	quant := `{"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head", "re:.*gate_proj", "re:^mtp.*", "vision.head"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": true}}}}`
	dir := folder(t, quant, module(proj, golden(t, "int4_ct_sym_g128", "ct."), "weight_packed", "weight_scale", "weight_shape"))
	out, _ := convertTo(t, dir, Own)
	if list := fmt.Sprint(quantConfig(t, out)["ignore"]); list != "[lm_head model.layers.0.mlp.gate_proj vision.head re:^mtp.*]" {
		t.Error(list)
	}
	for _, c := range []struct {
		expr, want string
		ok         bool
	}{
		{"^mtp.*", "mtp*", true}, {`^model\.visual\.`, "model.visual.*", true}, {".*gate$", "*gate", true}, {"mtp", "mtp*", true}, {"(a|b)", "", false}, {`a\d`, "", false}, {"a.b", "", false},
	} {
		if got, ok := asWildcard(c.expr); got != c.want || ok != c.ok {
			t.Errorf("%s: %q, %t", c.expr, got, ok)
		}
	}
	for pattern, want := range map[string]string{"mtp*": "^mtp.*$", "a.b?": `^a\.b.$`} {
		if got, ok := wildcard(pattern); got != want || !ok {
			t.Errorf("%s: %s", pattern, got)
		}
	}
	if _, ok := wildcard("[ab]"); ok {
		t.Error("[ab] is said")
	}
}
