package layout

import (
	"math"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// fp8Config is DeepSeek's; more are further keys of the config's root.
func fp8Config(block, more string) string {
	return `{"model_type":"deepseek_v4"` + more + `,"quantization_config":{"quant_method":"fp8","fmt":"e4m3","scale_fmt":"ue8m0","activation_scheme":"dynamic"` + block + `}}`
}

const tiles128 = `,"weight_block_size":[128,128]`

// V3's tiles: whole and partial ones, scales as f32 and, as a byte, powers of two,
// which multiply though they are called inverse.
func TestGoldenDeepSeekTiles(t *testing.T) {
	const file = "../../../../kernels/testdata/golden/fp8_deepseek_block128"
	for _, tt := range []struct {
		file, prefix string
		tensors      []string
	}{
		{file, "", []string{"weight", "weight_scale_inv"}},
		{"../../../../kernels/testdata/golden/fp8_deepseek_ragged_dequant", "", []string{"weight", "weight_scale_inv"}},
	} {
		g := golden(t, tt.file, tt.prefix)
		var parts []part
		for _, name := range tt.tensors {
			p := g[name]
			p.name = proj + "." + name
			parts = append(parts, p)
		}
		_, l := openPath(t, write(t, fp8Config(tiles128, ""), parts))
		if len(l.Modules) != 1 || len(l.Findings) != 0 {
			t.Fatalf("%s: %d modules, %v", tt.file, len(l.Modules), l.Findings)
		}
		got := decode(t, &l.Modules[0], 128)
		for i := range got {
			got[i] = roundBF16(got[i])
		}
		sameFloats(t, tt.file, got, g["dequant_bf16"].floats(t))
	}

	g := golden(t, file, "ue8m0.")
	codes, scales := g["weight"], g["weight_scale_inv"]
	for _, dtype := range []checkpoint.DType{checkpoint.U8, checkpoint.F8E8M0} {
		scales.dtype = dtype
		codes.name, scales.name = proj+".weight", proj+".weight_scale_inv"
		_, l := openPath(t, write(t, fp8Config(tiles128, ""), []part{codes, scales}))
		if len(l.Modules) != 1 || len(l.Findings) != 0 {
			t.Fatalf("%v: %d modules, %v", dtype, len(l.Modules), l.Findings)
		}
		want := codes.floats(t)
		for i := range want {
			want[i] *= kernels.E8M0ToF32(scales.data[i/256/128*2+i%256/128])
		}
		sameFloats(t, dtype.String(), decode(t, &l.Modules[0], 128), want)
	}
	// They are w's: each scale the least power of two under which its tile fits, each code
	// the nearest.
	w := golden(t, file, "")["w"].floats(t)
	var most [4]float64
	for i, x := range w {
		tile := i/256/128*2 + i%256/128
		most[tile] = max(most[tile], math.Abs(float64(x)))
		if scale := kernels.E8M0ToF32(scales.data[tile]); kernels.F32ToE4M3(x/scale) != codes.data[i] {
			t.Fatalf("code %d is %#x of %v under %v", i, codes.data[i], x, scale)
		}
	}
	for tile, amax := range most {
		if scale := float64(kernels.E8M0ToF32(scales.data[tile])); amax > 0 && (amax > 448*scale || amax <= 448*scale/2) {
			t.Errorf("tile %d: scale %v for %v", tile, scale, amax)
		}
	}
}

// V4's experts and dense matrices, by transformers' own decoder: scales of a byte of
// any type, or powers of two in f32; FP8 of one scale rounds products to its type.
func TestGoldenDeepSeekV4(t *testing.T) {
	const expert, dense = "layers.3.ffn.experts.5.w1", "layers.0.attn.wq_a"
	for _, tt := range []struct {
		prefix, module, param, config, format string
		codes, scales                         checkpoint.DType
	}{
		{"fp4.", expert, "scale", fp8Config(tiles128, `,"expert_dtype":"fp4"`), "mxfp4", checkpoint.I8, checkpoint.F8E8M0},
		{"fp4.", expert, "scale", fp8Config(tiles128, `,"expert_dtype":"fp4"`), "mxfp4", checkpoint.U8, checkpoint.I8},
		{"fp4.", expert, "scale", fp8Config(tiles128, ""), "mxfp4", checkpoint.I8, checkpoint.U8},
		{"fp8.", dense, "scale", fp8Config(`,"weight_block_size":[16,32]`, ""), "fp8-block128", checkpoint.F8E4M3, checkpoint.F8E8M0},
		{"fp8.", dense, "scale", fp8Config(`,"weight_block_size":[16,32]`, ""), "fp8-block128", checkpoint.F8E4M3, checkpoint.U8},
		{"fp8_f32.", dense, "scale", fp8Config(`,"weight_block_size":[16,32]`, ""), "fp8-block128", checkpoint.F8E4M3, checkpoint.F32},
		{"one.", dense, "weight_scale_inv", fp8Config("", ""), "fp8", checkpoint.F8E4M3, checkpoint.BF16},
	} {
		g := golden(t, "deepseek_v4", tt.prefix)
		codes, scales := g["weight"], g["scale"]
		codes.name, codes.dtype = tt.module+".weight", tt.codes
		scales.name, scales.dtype = tt.module+"."+tt.param, tt.scales
		_, l := openPath(t, write(t, tt.config, []part{codes, scales}))
		if len(l.Modules) != 1 || len(l.Findings) != 0 {
			t.Fatalf("%+v: %d modules, %v", tt, len(l.Modules), l.Findings)
		}
		m := &l.Modules[0]
		if m.Spec.Format != tt.format || m.Method != FP8 {
			t.Errorf("%+v: is %s of %s", tt, m.Spec.Format, m.Method)
		}
		if r := m.Role; tt.module == expert && (r.Kind != topology.Expert || r.Layer != 3 || r.Expert != 5 || r.Projection != "gate") {
			t.Errorf("w1 is %+v", r)
		}
		same(t, tt.prefix, decode(t, m, m.RowMultiple()), g["dequant"].floats(t))
	}
}

// Scales in bytes that cannot be exponents of one matrix, blocks of another size and
// a config that says otherwise are named.
func TestDeepSeekEvidence(t *testing.T) {
	const expert = "layers.3.ffn.experts.5.w1"
	g := golden(t, "deepseek_v4", "fp4.")
	codes, scales := g["weight"], g["scale"]
	codes.name, scales.name, scales.dtype = expert+".weight", expert+".scale", checkpoint.U8
	with := func(f func(p *part)) part {
		p := scales
		p.data = slices.Clone(p.data)
		f(&p)
		return p
	}
	dense := part{expert + ".weight", checkpoint.F8E4M3, []int64{2, 4}, make([]byte, 8)}
	for _, tt := range []struct {
		config string
		parts  []part
		id     string
		want   string
	}{
		{fp8Config(tiles128, ""), []part{codes, with(func(p *part) { p.data[7] = 12 })}, UnknownForm, "bytes from 12 to 127: as E8M0 they would be 2^115 apart"},
		{fp8Config(tiles128, ""), []part{codes, with(func(p *part) { p.data[7] = 255 })}, Incomplete, "bytes of 255, which as E8M0 are NaN"},
		{fp8Config(tiles128, ""), []part{codes, with(func(p *part) { p.shape, p.data = []int64{6, 6}, make([]byte, 36) })}, UnknownForm, "NVFP4's E4M3, but nothing says what their second level is"},
		{fp8Config(tiles128, ""), []part{codes, with(func(p *part) { p.dtype = checkpoint.F8E4M3 })}, UnknownForm, "known: E8M0 for each 32"},
		{fp8Config(tiles128, ""), []part{codes, with(func(p *part) { p.shape, p.data = []int64{6, 4}, make([]byte, 24) })}, Incomplete, "want a scale for each 32 of 96 inputs"},
		{fp8Config(tiles128, ""), []part{codes, with(func(p *part) { p.shape = []int64{18} })}, Incomplete, "scale [18]"},
		{fp8Config(tiles128, `,"text_config":{"expert_dtype":"fp8"}`), []part{codes, scales}, Contradicts, `expert_dtype of config.json is "fp8"`},
		{fp8Config("", ""), []part{dense, {expert + ".scale", checkpoint.F32, []int64{1, 1}, make([]byte, 4)}}, Incomplete, "no weight_block_size"},
		{fp8Config("", ""), []part{dense, {expert + ".scale", checkpoint.U8, []int64{}, make([]byte, 1)}}, Incomplete, "no weight_block_size"},
	} {
		_, l := openPath(t, write(t, tt.config, tt.parts))
		if !slices.ContainsFunc(l.Findings, func(f Finding) bool { return f.ID == tt.id && strings.Contains(f.Message, tt.want) }) {
			t.Errorf("%v, want %s: …%s…", l.Findings, tt.id, tt.want)
		}
	}
	// a block of zeros has any exponent, and 0 is one
	if _, l := openPath(t, write(t, fp8Config(tiles128, ""), []part{codes, with(func(p *part) { p.data[7] = 0 })})); len(l.Modules) != 1 || len(l.Findings) != 0 {
		t.Errorf("an exponent of 0: %d modules, %v", len(l.Modules), l.Findings)
	}
}

// A folder in plain bf16 whose config still says how it was quantized is read as it
// stands, with one finding; codes that cannot be decoded are refused by name.
func TestPlainExports(t *testing.T) {
	var weights []part
	for _, name := range []string{"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.k_proj", "lm_head"} {
		weights = append(weights, part{name + ".weight", checkpoint.BF16, []int64{2, 4}, make([]byte, 16)})
	}
	weights = append(weights, part{"model.norm.weight", checkpoint.BF16, []int64{4}, make([]byte, 8)})
	for _, tt := range []struct{ config, method string }{
		{`{"quantization_config":{"quant_method":"exl3","version":"0.0.3","bits":4.07,"head_bits":6,"calibration":{"rows":128,"cols":2048},"out_scales":"auto"}}`, EXL3},
		{`{"quantization_config":{"quant_method":"exl3","bits":4.0}}`, EXL3},
		{gptqConfig(4, 16, true, ""), GPTQ},
		{fp8Config(tiles128, ""), FP8},
		{mlxConfig("affine", 4, 64, ""), MLX},
	} {
		_, l := openPath(t, write(t, tt.config, weights))
		if len(l.Findings) != 1 || l.Findings[0].ID != PlainExport || !strings.Contains(l.Findings[0].Message, "BF16, as are all of 3 matrices, though "+tt.method) || len(l.Modules) != 0 {
			t.Errorf("%s: %v", tt.config, l.Findings)
		}
	}
	var trellis []part
	for _, name := range []string{"q_proj", "k_proj"} {
		name = "model.layers.0.self_attn." + name
		trellis = append(trellis, part{name + ".trellis", checkpoint.I16, []int64{1, 1, 64}, make([]byte, 128)},
			part{name + ".suh", checkpoint.F16, []int64{16}, make([]byte, 32)}, part{name + ".svh", checkpoint.F16, []int64{16}, make([]byte, 32)})
	}
	_, l := openPath(t, write(t, `{"quantization_config":{"quant_method":"exl3","bits":4.0}}`, trellis))
	if len(l.Findings) != 1 || l.Findings[0].ID != UnknownForm || len(l.Unread) != 6 || !strings.Contains(l.Findings[0].Message, "export the model to bf16") || !strings.Contains(l.Findings[0].Message, "so are 1 more modules") {
		t.Errorf("%v, unread %v", l.Findings, l.Unread)
	}
}
