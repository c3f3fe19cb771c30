// Package recodetest writes small checkpoints of FP4 codes for tests, in every way of
// storing them that tensors of their own have: random codes under random scales, with
// everything else in bf16.
package recodetest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// Forms are the ways of storing.
const (
	ModelOpt  = "modelopt nvfp4"
	CTNVFP4   = "compressed-tensors nvfp4"
	CTMXFP4   = "compressed-tensors mxfp4"
	DeepSeek  = "deepseek mxfp4" // I8 codes and F8_E8M0 scales
	GPTOSS    = "gpt-oss mxfp4"  // stacks of experts
	StackedNV = "stacked nvfp4"  // stacks of experts of ModelOpt's
)

// Forms lists them.
func Forms() []string { return []string{ModelOpt, CTNVFP4, CTMXFP4, DeepSeek, GPTOSS, StackedNV} }

// Tensor is one that is written.
type Tensor struct {
	Name  string
	DType checkpoint.DType
	Shape []int64
	Data  []byte
}

// Sizes of what is written: two layers of experts.
const (
	Layers  = 2
	Experts = 3
	Hidden  = 64
	Inner   = 96
)

// Matrices is how many FP4 matrices a form has: gate and up are one in gpt-oss's.
func Matrices(form string) int {
	if form == GPTOSS || form == StackedNV {
		return Layers * Experts * 2
	}
	return Layers * Experts * 3
}

// Tensors makes the tensors of a form.
func Tensors(form string, seed uint64) []Tensor {
	rng := rand.New(rand.NewPCG(seed, 10))
	var out []Tensor
	plain := func(name string, shape ...int64) {
		n := int64(1)
		for _, d := range shape {
			n *= d
		}
		t := Tensor{Name: name, DType: checkpoint.BF16, Shape: shape}
		for range n {
			t.Data = binary.LittleEndian.AppendUint16(t.Data, kernels.F32ToBF16(float32(rng.NormFloat64()/16)))
		}
		out = append(out, t)
	}
	plain("model.embed_tokens.weight", 128, Hidden)
	plain("lm_head.weight", 128, Hidden)
	plain("model.norm.weight", Hidden)
	for l := range Layers {
		at := fmt.Sprintf("model.layers.%d.", l)
		for _, n := range []string{"input_layernorm", "post_attention_layernorm"} {
			plain(at+n+".weight", Hidden)
		}
		for _, p := range []string{"q", "k", "v", "o"} {
			plain(at+"self_attn."+p+"_proj.weight", Hidden, Hidden)
		}
		router := "mlp.gate"
		if form == GPTOSS {
			router = "mlp.router"
		}
		plain(at+router+".weight", Experts, Hidden)
		if form == GPTOSS || form == StackedNV {
			for _, m := range []struct {
				name       string
				rows, cols int64
			}{{"gate_up_proj", 2 * Inner, Hidden}, {"down_proj", Hidden, Inner}} {
				out = append(out, stacked(rng, form, at+"mlp.experts."+m.name, m.rows, m.cols)...)
			}
			continue
		}
		for e := range Experts {
			for _, p := range []string{"gate_proj", "up_proj", "down_proj"} {
				rows, cols := int64(Inner), int64(Hidden)
				if p == "down_proj" {
					rows, cols = cols, rows
				}
				out = append(out, single(rng, form, fmt.Sprintf("%smlp.experts.%d.%s", at, e, p), rows, cols)...)
			}
		}
	}
	return out
}

// codes are random E2M1 codes whose magnitudes fall off as weights' do, with a lean to
// one side, two a byte.
func codes(rng *rand.Rand, n int64) []byte {
	out := make([]byte, n/2)
	for i := range out {
		for half := range 2 {
			v := float32(rng.NormFloat64()*2 + 0.3)
			out[i] |= kernels.F32ToE2M1(v) << (4 * half)
		}
	}
	return out
}

// powers are bytes of E8M0 around 2⁻⁶.
func powers(rng *rand.Rand, n int64) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(119 + rng.IntN(5))
	}
	return out
}

// fractions are bytes of E4M3 between 1 and 448.
func fractions(rng *rand.Rand, n int64) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(0x38 + rng.IntN(0x7e-0x38))
	}
	return out
}

func float(v float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)) }

func single(rng *rand.Rand, form, name string, rows, cols int64) []Tensor {
	c, scale := codes(rng, rows*cols), 1/float32(4096+rng.IntN(4096))
	switch form {
	case ModelOpt:
		return []Tensor{
			{name + ".weight", checkpoint.U8, []int64{rows, cols / 2}, c},
			{name + ".weight_scale", checkpoint.F8E4M3, []int64{rows, cols / 16}, fractions(rng, rows*cols/16)},
			{name + ".weight_scale_2", checkpoint.F32, []int64{}, float(scale)},
		}
	case CTNVFP4:
		return []Tensor{
			{name + ".weight_packed", checkpoint.U8, []int64{rows, cols / 2}, c},
			{name + ".weight_scale", checkpoint.F8E4M3, []int64{rows, cols / 16}, fractions(rng, rows*cols/16)},
			{name + ".weight_global_scale", checkpoint.F32, []int64{1}, float(1 / scale)},
		}
	case CTMXFP4:
		return []Tensor{
			{name + ".weight_packed", checkpoint.U8, []int64{rows, cols / 2}, c},
			{name + ".weight_scale", checkpoint.U8, []int64{rows, cols / 32}, powers(rng, rows*cols/32)},
		}
	}
	return []Tensor{
		{name + ".weight", checkpoint.I8, []int64{rows, cols / 2}, c},
		{name + ".scale", checkpoint.F8E8M0, []int64{rows, cols / 32}, powers(rng, rows*cols/32)},
	}
}

func stacked(rng *rand.Rand, form, name string, rows, cols int64) []Tensor {
	n := Experts * rows * cols
	if form == GPTOSS {
		return []Tensor{
			{name + "_blocks", checkpoint.U8, []int64{Experts, rows, cols / 32, 16}, codes(rng, n)},
			{name + "_scales", checkpoint.U8, []int64{Experts, rows, cols / 32}, powers(rng, n/32)},
			{name + "_bias", checkpoint.BF16, []int64{Experts, rows}, make([]byte, 2*Experts*rows)},
		}
	}
	var globals []byte
	for range Experts {
		globals = append(globals, float(1/float32(4096+rng.IntN(4096)))...)
	}
	return []Tensor{
		{name + ".weight", checkpoint.U8, []int64{Experts, rows, cols / 2}, codes(rng, n)},
		{name + ".weight_scale", checkpoint.F8E4M3, []int64{Experts, rows, cols / 16}, fractions(rng, n/16)},
		{name + ".weight_scale_2", checkpoint.F32, []int64{Experts}, globals},
	}
}

// quantization is what config.json says of each form.
var quantization = map[string]string{
	ModelOpt:  `{"quant_method":"modelopt","quant_algo":"NVFP4","ignore":["lm_head","*self_attn*","*mlp.gate"]}`,
	StackedNV: `{"quant_method":"modelopt","quant_algo":"NVFP4","ignore":["lm_head","*self_attn*","*mlp.gate"]}`,
	CTNVFP4:   `{"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized","ignore":["lm_head","re:.*self_attn.*","re:.*mlp.gate"],"config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16,"symmetric":true}}}}`,
	CTMXFP4:   `{"quant_method":"compressed-tensors","format":"mxfp4-pack-quantized","ignore":["lm_head","re:.*self_attn.*","re:.*mlp.gate"],"config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":4,"type":"float","strategy":"group","group_size":32,"symmetric":true}}}}`,
	DeepSeek:  `{"quant_method":"fp8","weight_block_size":[128,128],"scale_fmt":"ue8m0"}`,
	GPTOSS:    `{"quant_method":"mxfp4"}`,
}

// Config is config.json of a form.
func Config(form string) []byte {
	family := "glm4_moe"
	if form == GPTOSS {
		family = "gpt_oss"
	}
	return []byte(fmt.Sprintf(`{
  "model_type": %q,
  "hidden_size": %d,  "moe_intermediate_size": %d, "intermediate_size": %[3]d,
  "num_hidden_layers": %d, "n_routed_experts": %d, "num_local_experts": %[5]d, "num_experts_per_tok": 2, "vocab_size": 128,
  "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16, "first_k_dense_replace": 0, "tie_word_embeddings": false,
  "quantization_config": %s
}
`, family, Hidden, Inner, Layers, Experts, quantization[form]))
}

// Write writes tensors in two files, the second layer's in the other, with an index, a
// config and files beside them. The headers are padded and have metadata.
func Write(t testing.TB, form string, tensors []Tensor) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "fp4")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	weights, total := map[string]string{}, 0
	for shard := range 2 {
		file := fmt.Sprintf("model-0000%d-of-00002.safetensors", shard+1)
		var mine []Tensor
		var specs []checkpoint.Spec
		for _, x := range tensors {
			if strings.Contains(x.Name, "layers.1.") == (shard == 1) {
				mine, specs = append(mine, x), append(specs, checkpoint.Spec{Name: x.Name, DType: x.DType, Shape: x.Shape})
				weights[x.Name], total = file, total+len(x.Data)
			}
		}
		w, err := checkpoint.NewWriter(filepath.Join(dir, file), specs, map[string]string{"format": "pt", "of": form})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range mine {
			if _, err := w.Write(x.Data); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	index, err := json.Marshal(map[string]any{"metadata": map[string]int{"total_size": total}, "weight_map": weights})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"model.safetensors.index.json": index, "config.json": Config(form), "LICENSE": []byte("as you like\n"), "generation_config.json": []byte("{}"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
