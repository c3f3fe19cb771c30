package export

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// shape is one tensor of a synthetic checkpoint.
type shape struct {
	name  string
	sides []int64
}

// synthetic is a checkpoint of random bf16 weights.
type synthetic struct {
	config string
	shards [][]shape
	side   map[string]string
}

// write writes it to a new folder.
func (s synthetic) write(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	weights := map[string]string{}
	for i, tensors := range s.shards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(s.shards))
		if len(s.shards) == 1 {
			name = singleName
		}
		specs := make([]checkpoint.Spec, len(tensors))
		for k, x := range tensors {
			specs[k] = checkpoint.Spec{Name: x.name, DType: checkpoint.BF16, Shape: x.sides}
			weights[x.name] = name
		}
		w, err := checkpoint.NewWriter(filepath.Join(dir, name), specs, map[string]string{"format": "pt"})
		if err != nil {
			t.Fatal(err)
		}
		for _, sp := range specs {
			size, _ := sp.Size()
			if _, err := w.Write(randomBF16(sp.Name, size)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.shards) > 1 {
		text, err := json.Marshal(map[string]any{"metadata": map[string]int{"total_size": 1}, "weight_map": weights})
		if err != nil {
			t.Fatal(err)
		}
		put(indexName, string(text))
	}
	if s.config != "" {
		put(configName, s.config)
	}
	for name, text := range s.side {
		put(name, text)
	}
	return dir
}

// randomBF16 is what a tensor of this name and size holds: Gaussian, some rows
// larger than others.
func randomBF16(name string, size int64) []byte {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	rng := rand.New(rand.NewPCG(h.Sum64(), 1))
	out := make([]byte, 0, size)
	scale := 0.02
	for i := int64(0); i < size; i += 2 {
		if i%512 == 0 {
			scale = 0.02 * math.Exp(rng.NormFloat64()/2)
		}
		out = binary.LittleEndian.AppendUint16(out, kernels.F32ToBF16(float32(rng.NormFloat64()*scale)))
	}
	return out
}

// block is the attention and the norms of a layer.
func block(layer string, hidden int64) []shape {
	return []shape{
		{layer + "input_layernorm.weight", []int64{hidden}},
		{layer + "self_attn.q_proj.weight", []int64{hidden, hidden}},
		{layer + "self_attn.k_proj.weight", []int64{hidden / 2, hidden}},
		{layer + "self_attn.v_proj.weight", []int64{hidden / 2, hidden}},
		{layer + "self_attn.o_proj.weight", []int64{hidden, hidden}},
		{layer + "post_attention_layernorm.weight", []int64{hidden}},
	}
}

func mlp(prefix string, inner, hidden int64) []shape {
	return []shape{
		{prefix + "gate_proj.weight", []int64{inner, hidden}},
		{prefix + "up_proj.weight", []int64{inner, hidden}},
		{prefix + "down_proj.weight", []int64{hidden, inner}},
	}
}

func join(lists ...[]shape) []shape {
	var all []shape
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// sideFiles are what a server reads beside the weights, and a file that none
// does.
var sideFiles = map[string]string{
	"tokenizer.json": `{"model": {}}`, "tokenizer_config.json": "{}", "generation_config.json": "{}",
	"chat_template.jinja": "{{ messages }}", "preprocessor_config.json": "{}", "LICENSE": "as you like",
}

// dense has a tied head and one file.
func dense() synthetic {
	const hidden = 128
	return synthetic{
		config: `{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 128, "num_hidden_layers": 1, "tie_word_embeddings": true, "rope_theta": 1e4, "odd": NaN}`,
		shards: [][]shape{join([]shape{{"model.embed_tokens.weight", []int64{32, hidden}}}, block("model.layers.0.", hidden), mlp("model.layers.0.mlp.", 256, hidden), []shape{{"model.norm.weight", []int64{hidden}}})},
		side:   sideFiles,
	}
}

// mixture has a dense layer, a layer of experts with tensors of their own, an
// MTP layer, three files.
func mixture() synthetic {
	const hidden = 64
	experts := func(layer string) []shape {
		return join(
			[]shape{{layer + "mlp.gate.weight", []int64{4, hidden}}, {layer + "mlp.gate.e_score_correction_bias", []int64{4}}},
			mlp(layer+"mlp.experts.0.", 32, hidden), mlp(layer+"mlp.experts.1.", 32, hidden), mlp(layer+"mlp.shared_experts.", 32, hidden))
	}
	return synthetic{
		config: "{\n    \"model_type\": \"glm4_moe\",\n    \"hidden_size\": 64,\n    \"moe_intermediate_size\": 32,\n    \"num_hidden_layers\": 2,\n    \"n_routed_experts\": 2,\n    \"num_experts_per_tok\": 1,\n    \"n_shared_experts\": 1,\n    \"first_k_dense_replace\": 1,\n    \"num_nextn_predict_layers\": 1,\n    \"tie_word_embeddings\": false\n}\n",
		shards: [][]shape{
			join([]shape{{"model.embed_tokens.weight", []int64{16, hidden}}}, block("model.layers.0.", hidden), mlp("model.layers.0.mlp.", 96, hidden)),
			join(block("model.layers.1.", hidden), experts("model.layers.1.")),
			join([]shape{{"model.layers.2.eh_proj.weight", []int64{hidden, 2 * hidden}}, {"model.layers.2.enorm.weight", []int64{hidden}}},
				block("model.layers.2.", hidden), experts("model.layers.2."), []shape{{"model.norm.weight", []int64{hidden}}, {"lm_head.weight", []int64{16, hidden}}}),
		},
		side: sideFiles,
	}
}

// fused keeps the experts of a layer in one tensor, with a vision tower beside.
func fused(modelType, down string, gateUp, downSides []int64) synthetic {
	const hidden = 32
	layer := "model.language_model.layers.0."
	return synthetic{
		config: `{"model_type": "` + modelType + `", "text_config": {"model_type": "` + modelType + `_text", "hidden_size": 32, "moe_intermediate_size": 16, "num_hidden_layers": 1, "num_experts": 3, "num_local_experts": 3, "intermediate_size": 16}}`,
		shards: [][]shape{join(
			[]shape{{"model.language_model.embed_tokens.weight", []int64{16, hidden}}, {"lm_head.weight", []int64{16, hidden}},
				{"model.visual.blocks.0.attn.qkv.weight", []int64{48, 16}}, {"model.visual.patch_embed.proj.weight", []int64{16, 3, 2, 2}}},
			block(layer, hidden),
			[]shape{{layer + "mlp.gate.weight", []int64{3, hidden}}, {layer + "mlp.experts.gate_up_proj", gateUp}, {layer + "mlp.experts." + down, downSides}})},
		side: sideFiles,
	}
}

// fusedOutIn is [experts, out, in], fusedInOut its transpose.
func fusedOutIn() synthetic {
	return fused("qwen3_5_moe", "down_proj", []int64{3, 32, 32}, []int64{3, 32, 16})
}

func fusedInOut() synthetic {
	return fused("qwen3_vl_moe", "down_proj", []int64{3, 32, 32}, []int64{3, 16, 32})
}

// fusedInterleaved has the outputs of gate and up in turn.
func fusedInterleaved() synthetic {
	return fused("gpt_oss", "down_proj", []int64{3, 32, 32}, []int64{3, 16, 32})
}
