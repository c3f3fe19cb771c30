package model

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// edited is the Spec of a checkpoint of testdata with another config.
func edited(t *testing.T, name string, edit func(config map[string]any)) (*Spec, error) {
	t.Helper()
	from, dir := filepath.Join("testdata", name), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	config := map[string]any{}
	data, err := os.ReadFile(filepath.Join(from, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	edit(config)
	if data, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	top, err := topology.FromCheckpoint(ck)
	if err != nil {
		t.Fatal(err)
	}
	return NewSpec(top)
}

func set(key string, value any) func(map[string]any) {
	return func(c map[string]any) { c[key] = value }
}

// TestConfigRefused: what a config asks for and is not computed is refused by
// name, and so is what cannot be.
func TestConfigRefused(t *testing.T) {
	rope := func(values map[string]any) func(map[string]any) {
		return func(c map[string]any) {
			delete(c, "rope_scaling")
			all := map[string]any{"rope_theta": 10000.0}
			maps.Copy(all, values)
			c["rope_parameters"] = all
		}
	}
	for _, c := range []struct {
		model string
		edit  func(map[string]any)
		want  string
	}{
		{"qwen3", set("model_type", "qwen9"), `model_type "qwen9"`},
		{"qwen3", set("hidden_act", "gelu"), `activation "gelu"`},
		{"qwen3", set("hidden_size", nil), "hidden_size"},
		{"qwen3", set("num_key_value_heads", 3), "no multiple of 3"},
		{"qwen3", set("head_dim", 15), "rotary channels"},
		{"qwen3", set("head_dim", 0), "head_dim is 0"},
		{"qwen3", set("head_dim", 1<<30), "head_dim is 1073741824"},
		{"qwen3", set("head_dim", "24"), "head_dim is 24"},
		{"qwen3", set("rope_theta", 0), "rope_theta is 0"},
		{"qwen3", set("rope_theta", -5), "rope_theta is -5"},
		{"qwen3", set("rope_theta", "much"), "rope_theta is much"},
		{"qwen3", set("rope_scaling", "yarn"), "rope_scaling is no object"},
		{"qwen3", rope(map[string]any{"rope_theta": 0}), "rope_parameters.rope_theta is 0"},
		{"qwen3", set("rms_norm_eps", "small"), "rms_norm_eps is not a number"},
		{"qwen3", set("rms_norm_eps", -1), "rms_norm_eps is -1"},
		{"qwen3", set("layer_types", []string{"full_attention", "linear_attention"}), `"linear_attention"`},
		{"qwen3", set("layer_types", []string{"full_attention"}), "layer_types says nothing of layer 1"},
		{"qwen3", set("attn_logit_softcapping", 30), "attn_logit_softcapping is 30"},
		{"qwen3", set("no_rope_layers", []int{1, 0}), "no_rope_layers is a list of 2"},
		{"qwen3", set("intermediate_size", 0), "intermediate_size"},
		{"qwen3", set("intermediate_size", 1<<30), "intermediate_size"},
		{"qwen3", rope(map[string]any{"rope_type": "longrope", "factor": 4}), `rope type "longrope"`},
		{"qwen3", rope(map[string]any{"rope_type": "linear"}), "without a factor"},
		{"gemma3_text", set("use_bidirectional_attention", true), "use_bidirectional_attention is true"},
		{"qwen3_moe", set("num_experts_per_tok", 0), "num_experts_per_tok"},
		{"qwen3_moe", set("num_experts_per_tok", 99), "num_experts_per_tok is 99 of"},
		{"glm4_moe_group2", set("n_group", 3), "experts in 3 groups"},
		{"glm4_moe_group2", set("topk_group", 5), "topk_group is 5"},
		{"deepseek_v3", set("scoring_func", "softmax"), `scoring_func "softmax"`},
		{"deepseek_v3", set("topk_method", "greedy"), `topk_method "greedy"`},
		{"deepseek_v3", set("kv_lora_rank", 0), "kv_lora_rank"},
		{"gpt_oss", set("swiglu_limit", 9), "swiglu_limit is 9"},
		{"qwen3_next", set("layer_types", []string{"linear_attention", "linear_attention", "sliding_attention", "full_attention"}), `layer 2: layer type "sliding_attention"`},
		{"qwen3_next", set("layer_types", []string{"linear_attention"}), "layer 1: config.json gives neither"},
		{"qwen3_next", set("linear_num_value_heads", 5), "5 linear value heads are no multiple of 2"},
		{"qwen3_next", set("linear_num_key_heads", 0), "linear_num_key_heads is 0"},
		{"qwen3_next", set("linear_value_head_dim", 1<<30), "linear_value_head_dim: 1073741824 is outside"},
		{"qwen3_next", set("linear_conv_kernel_dim", nil), "linear_conv_kernel_dim is 0"},
		{"qwen3_next", set("attn_output_gate", false), "attn_output_gate is false"},
		{"qwen3_next", set("shared_expert_intermediate_size", -1), "shared_expert_intermediate_size: -1 is outside"},
		// What cannot be read is not what is usual in its place.
		{"qwen3_next", set("decoder_sparse_step", "x"), `decoder_sparse_step: "x" is not a number`},
		{"qwen3_next", set("decoder_sparse_step", 1.5), "decoder_sparse_step: 1.5 is not an integer"},
		{"qwen3_next", set("mlp_only_layers", 1), "mlp_only_layers: 1 is no list"},
		{"qwen3_next", set("mlp_only_layers", []any{"1"}), `mlp_only_layers: "1" is not a number`},
		{"qwen3_next", set("partial_rotary_factor", "0.5"), `partial_rotary_factor: "0.5" is not a number`},
		{"qwen3_next", rope(map[string]any{"partial_rotary_factor": true}), "partial_rotary_factor: true is not a number"},
		{"qwen3_next", rope(map[string]any{"partial_rotary_factor": 0}), "rope_parameters.partial_rotary_factor is 0"},
		{"qwen3_next", rope(map[string]any{"rope_type": 3}), "rope_parameters.rope_type: 3 is no word"},
		{"qwen3", rope(map[string]any{"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": "32"}), `original_max_position_embeddings: "32" is not a number`},
		{"qwen3", rope(map[string]any{"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 32, "beta_fast": "32"}), "rope parameter beta_fast is not a number"},
		{"qwen3", set("num_key_value_heads", "2"), `num_key_value_heads: "2" is not a number`},
		{"deepseek_v2", set("n_shared_experts", "2"), `n_shared_experts: "2" is not a number`},
		{"deepseek_v2", set("first_k_dense_replace", -1), "first_k_dense_replace: -1 is outside"},
		{"gemma4_moe", set("per_layer_config", []any{}), "per_layer_config: [] is no object"},
		{"gemma4_moe", set("sliding_window", 0), "layer 0 has a sliding window and config.json gives no sliding_window"},
		{"gemma3_text", set("sliding_window", 2.5), "sliding_window: 2.5 is not an integer"},
		{"gemma3_text", set("sliding_window", 0), "has a sliding window and config.json gives no sliding_window"},
	} {
		_, err := edited(t, c.model, c.edit)
		if !errors.Is(err, ErrArchitecture) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %s", c.model, err, c.want)
		}
	}
}

// TestConfigNeutral: keys that change nothing are not refused.
func TestConfigNeutral(t *testing.T) {
	for _, edit := range []func(map[string]any){
		set("attn_logit_softcapping", nil), set("final_logit_softcapping", 0), set("residual_multiplier", 1.0), set("use_alibi", false),
	} {
		if _, err := edited(t, "qwen3", edit); err != nil {
			t.Error(err)
		}
	}
}

// TestGeometry: sizes that stand in a nested config, heads that do not divide the
// hidden size, a rope of half of the channels; an old config that leaves out
// head_dim and yarn's length.
func TestGeometry(t *testing.T) {
	nested, err := edited(t, "geometry/nested", func(c map[string]any) {
		if _, err := edited(t, "geometry/nested", func(map[string]any) {}); !errors.Is(err, ErrArchitecture) || !strings.Contains(err.Error(), "neither layer_types nor") {
			t.Errorf("qwen3_5 without types of layers: %v", err)
		}
		c["text_config"].(map[string]any)["model_type"] = "llama"
	})
	if err != nil {
		t.Fatal(err)
	}
	a := nested.Layers[0].Attn
	if nested.Hidden != 56 || len(nested.Layers) != 1 || a.Heads*a.Dim != 192 || a.KVHeads*a.Dim != 32 || a.Dim != 8 || a.Rope.Dim != 4 || a.Rope.Kind != RopePlain {
		t.Errorf("nested: hidden %d, layers %d, attention %+v", nested.Hidden, len(nested.Layers), a)
	}
	old, err := edited(t, "geometry/old", func(c map[string]any) { c["intermediate_size"], c["vocab_size"] = 64, 40 })
	if err != nil {
		t.Fatal(err)
	}
	a = old.Layers[1].Attn
	if len(old.Layers) != 2 || a.Dim != 8 || a.Rope.Dim != 8 || a.Rope.Kind != RopeYarn || a.Rope.Factor != 4 || a.Rope.OriginalMax != 32768 {
		t.Errorf("old: layers %d, attention %+v", len(old.Layers), a)
	}
}

// TestFamilies: what a config leaves out or spells in another way.
func TestFamilies(t *testing.T) {
	spec := func(model string, edit func(map[string]any)) *Spec {
		t.Helper()
		s, err := edited(t, model, edit)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	both := func(edits ...func(map[string]any)) func(map[string]any) {
		return func(c map[string]any) {
			for _, e := range edits {
				e(c)
			}
		}
	}
	windows := func(s *Spec) (w []int) {
		for i := range s.Layers {
			w = append(w, s.Layers[i].Attn.Window)
		}
		return w
	}
	// Qwen2 slides from max_window_layers on, where it slides at all.
	slide := both(set("sliding_window", 7), set("max_window_layers", 1), set("layer_types", nil))
	if w := windows(spec("qwen2", slide)); w[0] != 0 || w[1] != 0 {
		t.Errorf("qwen2 that does not slide has windows %v", w)
	}
	if w := windows(spec("qwen2", both(slide, set("use_sliding_window", true)))); w[0] != 0 || w[1] != 7 {
		t.Errorf("qwen2 that slides from layer 1 on has windows %v", w)
	}
	// Mistral slides everywhere.
	if w := windows(spec("llama_tied", both(set("model_type", "mistral"), set("sliding_window", 9)))); w[0] != 9 || w[1] != 9 {
		t.Errorf("mistral has windows %v", w)
	}
	g := spec("gemma3_text", func(map[string]any) {})
	if l := g.Layers[0]; !l.Norm.PlusOne || l.PostAttn == "" || l.PostMLP == "" || g.EmbedScale != 8 || l.Attn.Window != 12 || g.Layers[2].Attn.Window != 0 ||
		l.Attn.Rope.Theta != 10000 || g.Layers[2].Attn.Rope.Theta != 1e6 || g.Layers[2].Attn.Rope.Kind != RopeLinear {
		t.Errorf("gemma3: %+v, %+v", l, g.Layers[2].Attn.Rope)
	}
	// Gemma 3's first configs have neither layer_types nor ropes by type.
	first := both(set("layer_types", nil), set("rope_parameters", nil), set("_sliding_window_pattern", nil), set("rope_theta", 1e6), set("rope_local_base_freq", 1e4),
		set("rope_scaling", map[string]any{"rope_type": "linear", "factor": 4}))
	if old := spec("gemma3_text", both(first, set("sliding_window_pattern", 3))); !reflect.DeepEqual(old, g) {
		t.Errorf("gemma3 of 2025: %+v, want %+v", old, g)
	}
	if w := windows(spec("gemma3_text", both(first, set("rope_theta", nil)))); w[0] != 12 || w[2] != 12 {
		t.Errorf("the first three layers of a gemma3 have windows %v", w)
	}
	if _, err := edited(t, "gemma3_text", both(first, set("sliding_window_pattern", 0))); err == nil || !strings.Contains(err.Error(), "sliding_window_pattern is 0") {
		t.Errorf("a pattern of no layers: %v", err)
	}
	if w := windows(spec("gpt_oss", set("layer_types", nil))); w[0] != 16 || w[1] != 0 {
		t.Errorf("gpt-oss without layer_types has windows %v", w)
	}
}
