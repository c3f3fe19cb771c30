package topology

import (
	"fmt"
	"strings"
	"testing"
)

// sketch builds the header of a published model from its layers.
type sketch struct{ tensors []Named }

func (s *sketch) add(dtype, name string, shape ...int64) {
	s.tensors = append(s.tensors, Named{name, dtype, shape})
}

func (s *sketch) mlp(prefix string, hidden, inner int64) {
	s.add("BF16", prefix+".gate_proj.weight", inner, hidden)
	s.add("BF16", prefix+".up_proj.weight", inner, hidden)
	s.add("BF16", prefix+".down_proj.weight", hidden, inner)
}

func (s *sketch) attention(prefix string, hidden, q, kv int64) {
	s.add("BF16", prefix+".q_proj.weight", q, hidden)
	s.add("BF16", prefix+".k_proj.weight", kv, hidden)
	s.add("BF16", prefix+".v_proj.weight", kv, hidden)
	s.add("BF16", prefix+".o_proj.weight", hidden, q)
}

func (s *sketch) ends(vocab, hidden int64) {
	s.add("BF16", "model.embed_tokens.weight", vocab, hidden)
	s.add("BF16", "model.norm.weight", hidden)
	s.add("BF16", "lm_head.weight", vocab, hidden)
}

func (s *sketch) norms(prefix string, hidden int64) {
	s.add("BF16", prefix+"input_layernorm.weight", hidden)
	s.add("BF16", prefix+"post_attention_layernorm.weight", hidden)
}

func llama8B() ([]Named, string) {
	s := &sketch{}
	s.ends(128256, 4096)
	for l := range 32 {
		p := fmt.Sprintf("model.layers.%d.", l)
		s.norms(p, 4096)
		s.attention(p+"self_attn", 4096, 4096, 1024)
		s.mlp(p+"mlp", 4096, 14336)
	}
	return s.tensors, `{"model_type":"llama","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,"tie_word_embeddings":false}`
}

func qwen30B() ([]Named, string) {
	s := &sketch{}
	s.ends(151936, 2048)
	for l := range 48 {
		p := fmt.Sprintf("model.layers.%d.", l)
		s.norms(p, 2048)
		s.attention(p+"self_attn", 2048, 4096, 512)
		s.add("BF16", p+"self_attn.q_norm.weight", 128)
		s.add("BF16", p+"self_attn.k_norm.weight", 128)
		s.add("BF16", p+"mlp.gate.weight", 128, 2048)
		for x := range 128 {
			s.mlp(fmt.Sprintf("%smlp.experts.%d", p, x), 2048, 768)
		}
	}
	return s.tensors, `{"model_type":"qwen3_moe","num_hidden_layers":48,"hidden_size":2048,"num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,"num_experts":128,"num_experts_per_tok":8,"moe_intermediate_size":768,"decoder_sparse_step":1,"tie_word_embeddings":false}`
}

func deepseekV3() ([]Named, string) {
	s := &sketch{}
	s.ends(129280, 7168)
	for l := range 62 {
		p := fmt.Sprintf("model.layers.%d.", l)
		s.norms(p, 7168)
		s.add("BF16", p+"self_attn.q_a_proj.weight", 1536, 7168)
		s.add("BF16", p+"self_attn.q_a_layernorm.weight", 1536)
		s.add("BF16", p+"self_attn.q_b_proj.weight", 128*192, 1536)
		s.add("BF16", p+"self_attn.kv_a_proj_with_mqa.weight", 512+64, 7168)
		s.add("BF16", p+"self_attn.kv_a_layernorm.weight", 512)
		s.add("BF16", p+"self_attn.kv_b_proj.weight", 128*256, 512)
		s.add("BF16", p+"self_attn.o_proj.weight", 7168, 128*128)
		if l < 3 {
			s.mlp(p+"mlp", 7168, 18432)
			continue
		}
		s.add("BF16", p+"mlp.gate.weight", 256, 7168)
		s.add("F32", p+"mlp.gate.e_score_correction_bias", 256)
		s.mlp(p+"mlp.shared_experts", 7168, 2048)
		for x := range 256 {
			s.mlp(fmt.Sprintf("%smlp.experts.%d", p, x), 7168, 2048)
		}
	}
	const p = "model.layers.61."
	s.add("BF16", p+"eh_proj.weight", 7168, 2*7168)
	s.add("BF16", p+"enorm.weight", 7168)
	s.add("BF16", p+"hnorm.weight", 7168)
	s.add("BF16", p+"embed_tokens.weight", 129280, 7168)
	s.add("BF16", p+"shared_head.head.weight", 129280, 7168)
	s.add("BF16", p+"shared_head.norm.weight", 7168)
	return s.tensors, `{"model_type":"deepseek_v3","num_hidden_layers":61,"num_nextn_predict_layers":1,"hidden_size":7168,"num_attention_heads":128,"q_lora_rank":1536,"kv_lora_rank":512,"n_routed_experts":256,"num_experts_per_tok":8,"n_shared_experts":1,"moe_intermediate_size":2048,"first_k_dense_replace":3,"moe_layer_freq":1,"tie_word_embeddings":false}`
}

func gptOSS20B() ([]Named, string) {
	s := &sketch{}
	s.ends(201088, 2880)
	for l := range 24 {
		p := fmt.Sprintf("model.layers.%d.", l)
		s.norms(p, 2880)
		s.attention(p+"self_attn", 2880, 4096, 512)
		s.add("BF16", p+"self_attn.q_proj.bias", 4096)
		s.add("BF16", p+"self_attn.k_proj.bias", 512)
		s.add("BF16", p+"self_attn.v_proj.bias", 512)
		s.add("BF16", p+"self_attn.o_proj.bias", 2880)
		s.add("BF16", p+"self_attn.sinks", 64)
		s.add("BF16", p+"mlp.router.weight", 32, 2880)
		s.add("BF16", p+"mlp.router.bias", 32)
		s.add("U8", p+"mlp.experts.gate_up_proj_blocks", 32, 5760, 90, 16)
		s.add("U8", p+"mlp.experts.gate_up_proj_scales", 32, 5760, 90)
		s.add("BF16", p+"mlp.experts.gate_up_proj_bias", 32, 5760)
		s.add("U8", p+"mlp.experts.down_proj_blocks", 32, 2880, 90, 16)
		s.add("U8", p+"mlp.experts.down_proj_scales", 32, 2880, 90)
		s.add("BF16", p+"mlp.experts.down_proj_bias", 32, 2880)
	}
	return s.tensors, `{"model_type":"gpt_oss","num_hidden_layers":24,"hidden_size":2880,"intermediate_size":2880,"head_dim":64,"num_attention_heads":64,"num_key_value_heads":8,"num_local_experts":32,"experts_per_token":4,"quantization_config":{"quant_method":"mxfp4"},"tie_word_embeddings":false}`
}

// The counts of published models, as their cards and repositories state them.
func TestPublishedCounts(t *testing.T) {
	tests := []struct {
		name           string
		build          func() ([]Named, string)
		total          int64   // without MTP
		active         float64 // billions, as on the card; 0: the card counts otherwise
		expertMatrices int
		summary        string
	}{
		{"Llama-3.1-8B", llama8B, 8_030_261_248, 8.0, 0, "llama · 32 layers · 8.0 B params"},
		{"Qwen3-30B-A3B", qwen30B, 30_532_122_624, 3.3, 48 * 128 * 3, "qwen3_moe · 48 MoE layers · 18432 expert matrices · 30.5 B params"},
		{"DeepSeek-V3", deepseekV3, 671_026_419_200, 37, 59 * 256 * 3, "deepseek_v3 · 58+1 MoE layers · 45312 expert matrices · 684 B params"},
		{"gpt-oss-20b", gptOSS20B, 20_914_757_184, 0, 24 * 32 * 3, "gpt_oss · 24 MoE layers · 2304 expert matrices · 20.9 B params"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tensors, config := tt.build()
			m, err := FromConfig([]byte(config), tensors)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.TotalParams - m.MTPParams; got != tt.total {
				t.Errorf("%d parameters, the card says %d", got, tt.total)
			}
			if b := float64(m.ActiveParams) / 1e9; tt.active > 0 && (b < 0.98*tt.active || b > 1.02*tt.active) {
				t.Errorf("%.2f B active, the card says %.1f B", b, tt.active)
			}
			if m.ExpertMatrices != tt.expertMatrices || m.Summary != tt.summary {
				t.Errorf("%s, want %s", m.Summary, tt.summary)
			}
			if len(m.Findings)+len(m.Unknown)+len(m.Unresolved) > 0 {
				t.Errorf("findings %q, unknown %q, unresolved %q", m.Findings, m.Unknown, m.Unresolved)
			}
			var sum int64
			for _, n := range m.Params {
				sum += n
			}
			if sum != m.TotalParams {
				t.Errorf("kinds sum to %d, not %d", sum, m.TotalParams)
			}
		})
	}
}

// Packed weights stand for more elements than they store.
func TestPackedCounts(t *testing.T) {
	for name, want := range map[string]int64{
		"case_gptq":       32 * 16,
		"case_awq":        32 * 16,
		"case_fp8":        200 * 136,
		"case_modelopt":   8 * 8 * 32,
		"case_wide_names": 8 * 4,
		// C26: matrices 2-D 1,024, 3-D 3,072, vectors 16
		"case_fused_experts": 1024 + 3072 + 16,
		// two packed of 8 × 32, embedding, head, router, three of mtp
		"case_ignore_list": 2*8*32 + 2*16*32 + 4*32 + 32*64 + 8*32 + 32,
	} {
		if m := resolveFixture(t, name); m.TotalParams != want {
			t.Errorf("%s: %d parameters, want %d", name, m.TotalParams, want)
		}
	}
	const p = "model.layers.0.mlp.up_proj."
	tests := []struct {
		name, config string
		tensors      []Named
		want         int64
		opaque       bool
	}{
		{"int4 of compressed-tensors", `{"quantization_config":{"config_groups":{"g":{"weights":{"num_bits":4,"group_size":128}}}}}`, []Named{{p + "weight_packed", "I32", []int64{64, 32}}, {p + "weight_scale", "BF16", []int64{64, 2}}}, 64 * 256, false},
		{"int3, dense over words", `{"quantization_config":{"config_groups":{"g":{"weights":{"num_bits":3,"group_size":32}}}}}`, []Named{{p + "weight_packed", "I32", []int64{4, 3}}, {p + "weight_scale", "BF16", []int64{4, 1}}}, 4 * 32, false},
		{"by bits alone", `{"quantization_config":{"bits":8}}`, []Named{{p + "weight_packed", "I32", []int64{4, 8}}}, 4 * 32, false},
		{"two bits of quantscope", `{"quantization_config":{"quant_method":"quantscope","bits":2}}`, []Named{{p + "weight_packed", "U8", []int64{4, 8}}, {p + "weight_scale", "F8_E4M3", []int64{4, 2}}, {p + "weight_codebook", "U8", []int64{4}}, {p + "weight_scale_2", "F32", []int64{}}}, 4 * 32, false},
		{"nothing says how many", ``, []Named{{p + "weight_packed", "I32", []int64{4, 8}}}, 0, true},
		{"mlx", `{"quantization":{"bits":4,"group_size":64}}`, []Named{{p + "weight", "U32", []int64{8, 16}}, {p + "scales", "BF16", []int64{8, 2}}, {p + "biases", "BF16", []int64{8, 2}}}, 8 * 128, false},
		{"fp4 in int8", ``, []Named{{p + "weight", "I8", []int64{8, 32}}, {p + "scale", "F8_E8M0", []int64{8, 2}}}, 8 * 64, false},
		{"int8", ``, []Named{{p + "weight", "I8", []int64{8, 32}}, {p + "weight_scale", "F32", []int64{8, 1}}}, 8 * 32, false},
		{"bitsandbytes nf4", `{"quantization_config":{"bnb_4bit_quant_type":"nf4"}}`, []Named{{p + "weight", "U8", []int64{100, 1}}, {p + "weight.absmax", "U8", []int64{4}}, {p + "weight.quant_map", "F32", []int64{16}}}, 200, false},
		{"exl3", ``, []Named{{p + "trellis", "I16", []int64{4, 4, 48}}, {p + "suh", "F16", []int64{64}}}, 0, true},
		{"gptq without g_idx", `{"quantization_config":{"bits":4}}`, []Named{{p + "qweight", "I32", []int64{4, 16}}, {p + "scales", "F16", []int64{2, 16}}}, 32 * 16, false},
	}
	for _, tt := range tests {
		m, err := FromConfig([]byte(tt.config), tt.tensors)
		if err != nil {
			t.Fatal(err)
		}
		opaque := false
		for _, f := range m.Findings {
			opaque = opaque || strings.Contains(f.Message, "not counted")
		}
		if m.TotalParams != tt.want || opaque != tt.opaque {
			t.Errorf("%s: %d parameters, finding %t; want %d, %t", tt.name, m.TotalParams, opaque, tt.want, tt.opaque)
		}
	}
}

func TestFormatCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1.0 K", 99_940: "99.9 K", 99_960: "100 K", 999_499: "999 K", 999_500: "1.0 M", 5_214_000: "5.2 M", 671_026_419_200: "671 B", 1_040_000_000_000: "1.0 T", 9_000_000_000_000_000: "9000 T"} {
		if got := FormatCount(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
