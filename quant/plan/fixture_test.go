package plan

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// shapes gathers the tensors of a model.
type shapes []topology.Named

func (s *shapes) add(name string, sides ...int64) {
	*s = append(*s, topology.Named{Name: name, DType: "BF16", Shape: sides})
}

func (s *shapes) mlp(prefix string, inner, hidden int64) {
	s.add(prefix+"gate_proj.weight", inner, hidden)
	s.add(prefix+"up_proj.weight", inner, hidden)
	s.add(prefix+"down_proj.weight", hidden, inner)
}

func (s shapes) model(t testing.TB, config string) *topology.Model {
	t.Helper()
	m, err := topology.FromConfig([]byte(config), s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// qwen30 has the names and shapes of Qwen3-30B-A3B; without experts' numbers in the
// fused form of transformers 5.
func qwen30(t testing.TB, fused bool) *topology.Model {
	t.Helper()
	var s shapes
	s.add("model.embed_tokens.weight", 151936, 2048)
	for l := range 48 {
		p := fmt.Sprintf("model.layers.%d.", l)
		s.add(p+"input_layernorm.weight", 2048)
		s.add(p+"post_attention_layernorm.weight", 2048)
		s.add(p+"self_attn.q_proj.weight", 4096, 2048)
		s.add(p+"self_attn.k_proj.weight", 512, 2048)
		s.add(p+"self_attn.v_proj.weight", 512, 2048)
		s.add(p+"self_attn.o_proj.weight", 2048, 4096)
		s.add(p+"self_attn.q_norm.weight", 128)
		s.add(p+"self_attn.k_norm.weight", 128)
		s.add(p+"mlp.gate.weight", 128, 2048)
		if fused {
			s.add(p+"mlp.experts.gate_up_proj", 128, 1536, 2048)
			s.add(p+"mlp.experts.down_proj", 128, 2048, 768)
			continue
		}
		for x := range 128 {
			s.mlp(fmt.Sprintf("%smlp.experts.%d.", p, x), 768, 2048)
		}
	}
	s.add("model.norm.weight", 2048)
	s.add("lm_head.weight", 151936, 2048)
	return s.model(t, `{"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe","hidden_size":2048,"num_hidden_layers":48,"num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,
		"num_experts":128,"num_experts_per_tok":8,"moe_intermediate_size":768,"intermediate_size":6144,"decoder_sparse_step":1,"mlp_only_layers":[],"vocab_size":151936,"tie_word_embeddings":false,
		"sliding_window":null,"use_sliding_window":false,"max_window_layers":48}`)
}

// glmAir has the names and shapes of GLM-4.5-Air: dense layer 0, 45 MoE layers, MTP
// layer 46.
func glmAir(t testing.TB) *topology.Model {
	t.Helper()
	var s shapes
	s.add("model.embed_tokens.weight", 151552, 4096)
	for l := range 47 {
		p := fmt.Sprintf("model.layers.%d.", l)
		s.add(p+"input_layernorm.weight", 4096)
		s.add(p+"post_attention_layernorm.weight", 4096)
		s.add(p+"self_attn.q_proj.weight", 12288, 4096)
		s.add(p+"self_attn.q_proj.bias", 12288)
		for _, n := range []string{"k", "v"} {
			s.add(p+"self_attn."+n+"_proj.weight", 1024, 4096)
			s.add(p+"self_attn."+n+"_proj.bias", 1024)
		}
		s.add(p+"self_attn.o_proj.weight", 4096, 12288)
		if l == 0 {
			s.mlp(p+"mlp.", 10944, 4096)
			continue
		}
		s.add(p+"mlp.gate.weight", 128, 4096)
		s = append(s, topology.Named{Name: p + "mlp.gate.e_score_correction_bias", DType: "F32", Shape: []int64{128}})
		for x := range 128 {
			s.mlp(fmt.Sprintf("%smlp.experts.%d.", p, x), 1408, 4096)
		}
		s.mlp(p+"mlp.shared_experts.", 1408, 4096)
	}
	p := "model.layers.46."
	s.add(p+"embed_tokens.weight", 151552, 4096)
	s.add(p+"enorm.weight", 4096)
	s.add(p+"hnorm.weight", 4096)
	s.add(p+"eh_proj.weight", 4096, 8192)
	s.add(p+"shared_head.norm.weight", 4096)
	s.add(p+"shared_head.head.weight", 151552, 4096)
	s.add("model.norm.weight", 4096)
	s.add("lm_head.weight", 151552, 4096)
	return s.model(t, `{"architectures":["Glm4MoeForCausalLM"],"model_type":"glm4_moe","hidden_size":4096,"num_hidden_layers":46,"num_nextn_predict_layers":1,"num_attention_heads":96,"num_key_value_heads":8,
		"head_dim":128,"n_routed_experts":128,"n_shared_experts":1,"num_experts_per_tok":8,"moe_intermediate_size":1408,"intermediate_size":10944,"first_k_dense_replace":1,"vocab_size":151552,"tie_word_embeddings":false}`)
}

// deepSeekV3 has the names and shapes of DeepSeek-V3 in bf16, its MTP layer
// included.
func deepSeekV3(t testing.TB) *topology.Model {
	t.Helper()
	var s shapes
	s.add("model.embed_tokens.weight", 129280, 7168)
	for l := range 62 {
		p := fmt.Sprintf("model.layers.%d.", l)
		s.add(p+"input_layernorm.weight", 7168)
		s.add(p+"post_attention_layernorm.weight", 7168)
		s.add(p+"self_attn.q_a_proj.weight", 1536, 7168)
		s.add(p+"self_attn.q_a_layernorm.weight", 1536)
		s.add(p+"self_attn.q_b_proj.weight", 128*192, 1536)
		s.add(p+"self_attn.kv_a_proj_with_mqa.weight", 576, 7168)
		s.add(p+"self_attn.kv_a_layernorm.weight", 512)
		s.add(p+"self_attn.kv_b_proj.weight", 128*256, 512)
		s.add(p+"self_attn.o_proj.weight", 7168, 128*128)
		if l < 3 {
			s.mlp(p+"mlp.", 18432, 7168)
			continue
		}
		s.add(p+"mlp.gate.weight", 256, 7168)
		s = append(s, topology.Named{Name: p + "mlp.gate.e_score_correction_bias", DType: "F32", Shape: []int64{256}})
		for x := range 256 {
			s.mlp(fmt.Sprintf("%smlp.experts.%d.", p, x), 2048, 7168)
		}
		s.mlp(p+"mlp.shared_experts.", 2048, 7168)
	}
	p := "model.layers.61."
	s.add(p+"embed_tokens.weight", 129280, 7168)
	s.add(p+"enorm.weight", 7168)
	s.add(p+"hnorm.weight", 7168)
	s.add(p+"eh_proj.weight", 7168, 14336)
	s.add(p+"shared_head.norm.weight", 7168)
	s.add(p+"shared_head.head.weight", 129280, 7168)
	s.add("model.norm.weight", 7168)
	s.add("lm_head.weight", 129280, 7168)
	return s.model(t, `{"architectures":["DeepseekV3ForCausalLM"],"model_type":"deepseek_v3","hidden_size":7168,"num_hidden_layers":61,"num_nextn_predict_layers":1,"num_attention_heads":128,"num_key_value_heads":128,
		"q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"n_routed_experts":256,"n_shared_experts":1,"num_experts_per_tok":8,"moe_intermediate_size":2048,
		"intermediate_size":18432,"first_k_dense_replace":3,"moe_layer_freq":1,"vocab_size":129280,"tie_word_embeddings":false}`)
}

func topologyFixtures(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "topology", "testdata", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".json"))
	}
	return names
}

func parse(t testing.TB, text string) *recipe.File {
	t.Helper()
	f, err := recipe.ParseFile([]byte(text), "r.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func builtinOf(t testing.TB, name string, m *topology.Model) *recipe.File {
	t.Helper()
	f, err := recipe.Builtin(name, m)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func resolved(t testing.TB, m *topology.Model, f *recipe.File, o Options) *Plan {
	t.Helper()
	p, err := Resolve(m, f, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// found is the finding of an id, nil for none.
func (p *Plan) found(id string) *Finding {
	i := slices.IndexFunc(p.Findings, func(f Finding) bool { return f.ID == id })
	if i < 0 {
		return nil
	}
	return &p.Findings[i]
}
