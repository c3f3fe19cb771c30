package candidate

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
)

// withConfig is a config with a key more.
func withConfig(t testing.TB, config []byte, key, value string) []byte {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(config, &m); err != nil {
		t.Fatal(err)
	}
	m[key] = json.RawMessage(value)
	out, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// named finds a tensor.
func named(t testing.TB, list []tensor, name string) tensor {
	t.Helper()
	for _, x := range list {
		if x.name == name {
			return x
		}
	}
	t.Fatalf("no tensor %s", name)
	return tensor{}
}

// gpt-oss keeps its experts as MXFP4 blocks, gate and up alternating along the
// outputs and transposed against the model in floating point. It is what the same
// quantization on the fly presents, biases and all.
func TestGPTOSSBlocks(t *testing.T) {
	ref := open(t, "../model/testdata/gpt_oss")
	ck := stored(t, ref).ck
	var out []tensor
	for _, x := range readAll(t, ck) {
		if len(x.shape) != 3 {
			out = append(out, x)
			continue
		}
		experts, in, outs := int(x.shape[0]), int(x.shape[1]), int(x.shape[2])
		m := kernels.Matrix{Element: kernels.BF16, Rows: experts * outs, Cols: in}
		for e := range experts {
			for o := range outs {
				for i := range in {
					m.Data = append(m.Data, x.data[2*((e*in+i)*outs+o):][:2]...)
				}
			}
		}
		q, _ := quantized(t, kernels.Spec{Format: "mxfp4", Convention: kernels.CT32}, m)
		blocks := int64(in / 32)
		out = append(out,
			tensor{x.name + "_blocks", checkpoint.U8, []int64{x.shape[0], x.shape[2], blocks, 16}, q.Codes},
			tensor{x.name + "_scales", checkpoint.U8, []int64{x.shape[0], x.shape[2], blocks}, q.Scales})
	}
	c := open(t, writeModel(t, withConfig(t, ck.ConfigJSON(), "quantization_config", `{"quant_method":"mxfp4"}`), out))
	if n := checkModules(t, c); n != 2*4*3 {
		t.Errorf("%d quantized matrices", n)
	}
	made := mustParse(t, ref, "mxfp4", Options{})
	compareAll(t, made, c)
	if c.Bytes != made.Bytes || c.BitsPerWeight != made.BitsPerWeight {
		t.Errorf("%d bytes, %v bits a weight; made %d, %v", c.Bytes, c.BitsPerWeight, made.Bytes, made.BitsPerWeight)
	}
	for _, l := range ref.Arch.Layers {
		for e := range 4 {
			for _, projection := range []string{"gate", "up", "down"} {
				p := needOf(t, ref, fmt.Sprintf("layer %d expert %d %s", l.Index, e, projection))
				want, err := source(t, ref).Vector(t.Context(), p.Place, "bias")
				if err != nil {
					t.Fatal(err)
				}
				got, err := source(t, c).Vector(t.Context(), p.Place, "bias")
				if err != nil {
					t.Fatal(err)
				}
				sameBits(t, "bias of "+p.String(), got, want)
			}
		}
	}
}

func needOf(t testing.TB, c *Candidate, place string) need {
	t.Helper()
	for _, n := range needs(c.Arch) {
		if n.Place.String() == place {
			return n
		}
	}
	t.Fatalf("nothing at %s", place)
	return need{}
}

// DeepSeek's FP8: tiles of 128×128 with weight_scale_inv, which multiplies.
func TestDeepSeekTiles(t *testing.T) {
	ref := open(t, "demo")
	ck := stored(t, ref).ck
	var out []tensor
	n := 0
	for _, x := range readAll(t, ck) {
		if len(x.shape) != 2 || !strings.HasPrefix(x.name, "model.layers.0.") {
			out = append(out, x)
			continue
		}
		m := kernels.Matrix{Element: kernels.BF16, Rows: int(x.shape[0]), Cols: int(x.shape[1]), Data: x.data}
		q, _ := quantized(t, kernels.Spec{Format: "fp8-block128", Convention: kernels.DeepSeek}, m)
		out = append(out, tensor{x.name, checkpoint.F8E4M3, x.shape, q.Codes},
			tensor{x.name + "_scale_inv", checkpoint.F32, []int64{(x.shape[0] + 127) / 128, (x.shape[1] + 127) / 128}, q.Scales})
		n++
	}
	c := open(t, writeModel(t, withConfig(t, ck.ConfigJSON(), "quantization_config", `{"quant_method":"fp8","weight_block_size":[128,128]}`), out))
	if got := checkModules(t, c); got != n || n != 7 {
		t.Errorf("%d quantized matrices of %d", got, n)
	}
	compareAll(t, mustParse(t, ref, "fp8-block128@model.layers.0.*", Options{}), c)
}

// Experts that are quantized in one tensor, gate before up, with a second-level
// scale an expert.
func TestFusedNVFP4(t *testing.T) {
	ref := open(t, "demo")
	ck := stored(t, ref).ck
	all := readAll(t, ck)
	const layer = "model.layers.1.mlp.experts."
	var out []tensor
	for _, x := range all {
		if !strings.HasPrefix(x.name, layer) {
			out = append(out, x)
		}
	}
	for fused, parts := range map[string][]string{"gate_up_proj": {"gate_proj", "up_proj"}, "down_proj": {"down_proj"}} {
		var codes, scales, globals []byte
		rows := int64(128 * len(parts))
		for e := range 16 {
			m := kernels.Matrix{Element: kernels.BF16, Rows: int(rows), Cols: 128}
			for _, p := range parts {
				m.Data = append(m.Data, named(t, all, fmt.Sprintf("%s%d.%s.weight", layer, e, p)).data...)
			}
			q, global := quantized(t, kernels.Spec{Format: "nvfp4"}, m)
			codes, scales = append(codes, q.Codes...), append(scales, q.Scales...)
			globals = binary.LittleEndian.AppendUint32(globals, math.Float32bits(global))
		}
		out = append(out, tensor{layer + fused + ".weight", checkpoint.U8, []int64{16, rows, 64}, codes},
			tensor{layer + fused + ".weight_scale", checkpoint.F8E4M3, []int64{16, rows, 8}, scales},
			tensor{layer + fused + ".weight_scale_2", checkpoint.F32, []int64{16}, globals},
			tensor{layer + fused + ".input_scale", checkpoint.F32, []int64{16}, globals})
	}
	c := open(t, writeModel(t, ck.ConfigJSON(), out))
	if got := checkModules(t, c); got != 48 {
		t.Errorf("%d quantized matrices", got)
	}
	made := mustParse(t, ref, "nvfp4@"+layer+"*", Options{})
	compareAll(t, made, c)
	// Gate and up have one global scale an expert here; scales of activations are not read.
	if c.Bytes != made.Bytes-16*4 {
		t.Errorf("%d bytes, made %d", c.Bytes, made.Bytes)
	}
}

// What cannot be read for certain is refused with file, tensor and reason, in one
// line.
func TestOpenRefuses(t *testing.T) {
	ref := open(t, "demo")
	ck := stored(t, ref).ck
	all := readAll(t, ck)
	const q = "model.layers.2.self_attn.q_proj"
	without := func(names ...string) []tensor {
		var out []tensor
		for _, x := range all {
			keep := true
			for _, n := range names {
				keep = keep && x.name != n
			}
			if keep {
				out = append(out, x)
			}
		}
		return out
	}
	packed := tensor{q + ".weight", checkpoint.U8, []int64{128, 64}, make([]byte, 128*64)}
	scale := tensor{q + ".weight_scale", checkpoint.F8E4M3, []int64{128, 8}, make([]byte, 128*8)}
	global := tensor{q + ".weight_scale_2", checkpoint.F32, []int64{}, make([]byte, 4)}
	short := tensor{q + ".weight_scale", checkpoint.F8E4M3, []int64{128, 7}, make([]byte, 128*7)}
	narrow := tensor{q + ".weight", checkpoint.BF16, []int64{64, 128}, make([]byte, 2*64*128)}
	config := ck.ConfigJSON()
	for name, c := range map[string]struct {
		config  []byte
		tensors []tensor
		say     []string
	}{
		"no tensor":        {config, without(q + ".weight"), []string{q + ".weight", "is not there", "layer 2 attention q"}},
		"no norm":          {config, without("model.layers.3.input_layernorm.weight"), []string{"model.layers.3.input_layernorm.weight", "is not there"}},
		"no expert":        {config, without("model.layers.3.mlp.experts.7.up_proj.weight"), []string{"model.layers.3.mlp.experts.7.up_proj.weight", "is not there"}},
		"no embedding":     {config, without("model.embed_tokens.weight"), []string{"embedding", "is not there"}},
		"no head":          {config, without("lm_head.weight"), []string{"lm_head.weight", "tie_word_embeddings", "config.json"}},
		"another shape":    {config, append(without(q+".weight"), narrow), []string{q + ".weight", "is 64×128", "128×128"}},
		"another norm":     {config, append(without("model.norm.weight"), tensor{"model.norm.weight", checkpoint.BF16, []int64{64}, make([]byte, 128)}), []string{"model.norm.weight", "64 values", "128"}},
		"other vocabulary": {withConfig(t, config, "vocab_size", "1000"), all, []string{"model.embed_tokens.weight", "1024×128", "1000×128"}},
		"no global scale":  {config, append(without(q+".weight"), packed, scale), []string{q, "not known here", "weight U8", "weight_scale F8_E4M3"}},
		"short scales":     {config, append(without(q+".weight"), packed, short, global), []string{q, "[128 7]", "want [128 8]"}},
		"a model type":     {withConfig(t, config, "model_type", `"mamba"`), all, []string{"mamba", "forward pass"}},
		"no config":        {[]byte("{}"), all, []string{"forward pass"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeModel(t, c.config, c.tensors)
			got, err := Open(t.Context(), dir, Options{})
			if err == nil {
				_ = got.Close()
				t.Fatal("no error")
			}
			for _, s := range append(c.say, dir) {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%v does not say %q", err, s)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %v", err)
			}
		})
	}

	// A tensor of the MTP layer that nobody reads may be whatever it is.
	odd := append(without("model.layers.5.mlp.experts.3.up_proj.weight"), tensor{"model.layers.5.mlp.experts.3.up_proj.weight", checkpoint.U8, []int64{128, 64}, make([]byte, 128*64)})
	open(t, writeModel(t, config, odd))

	// So may a weight that is not a number: whoever measures counts it.
	nan := open(t, changed(t, ref, func(x tensor) tensor {
		if x.name == q+".weight" {
			x.data = bytes.Clone(x.data)
			binary.LittleEndian.PutUint16(x.data, 0x7FC0)
		}
		return x
	}))
	if v := values(t, source(t, nan), needOf(t, nan, "layer 2 attention q").Place); v[0] == v[0] {
		t.Error("the NaN is gone")
	}
}

// A head that is neither stored nor tied, from a case that was made for it.
func TestTiedHeadCase(t *testing.T) {
	_, err := Open(t.Context(), "testdata/C38-tied-head", Options{})
	if err == nil || !strings.Contains(err.Error(), "lm_head.weight") || !strings.Contains(err.Error(), "tie_word_embeddings") {
		t.Errorf("%v", err)
	}
}

// What a config gets wrong is a finding; of many alike the first are listed and the
// others counted.
func TestLayoutFindings(t *testing.T) {
	ref := open(t, "demo")
	x := stored(t, ref)
	dir := exported(t, x.ck, x.top, "", "modelopt", "nvfp4")
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]json.RawMessage
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	var quant map[string]json.RawMessage
	if err := json.Unmarshal(config["quantization_config"], &quant); err != nil {
		t.Fatal(err)
	}
	quant["ignore"] = json.RawMessage(`["lm_head","*mlp.experts*"]`)
	if config["quantization_config"], err = json.Marshal(quant); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o666); err != nil {
		t.Fatal(err)
	}
	c := open(t, dir)
	ignored := findingsOf(c.Findings, layout.Ignored)
	if len(ignored) != mostAlike || !strings.HasSuffix(ignored[mostAlike-1].Message, fmt.Sprintf("(and %d more like it)", 240-mostAlike)) || strings.Contains(ignored[0].Message, "more like") {
		t.Errorf("%d findings: %v", len(ignored), ignored)
	}
	if missing := findingsOf(c.Findings, layout.NotQuantized); len(missing) == 0 || missing[0].Tensor == "" {
		t.Errorf("plain weights that the config says are quantized: %v", c.Findings)
	}
	compareAll(t, c, mustParse(t, ref, "nvfp4", Options{}))
}
