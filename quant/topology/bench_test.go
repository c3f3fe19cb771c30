package topology

import (
	"fmt"
	"testing"
)

// bigModel is the header of a large mixture of experts: layers × (9 tensors and
// a router, and three per expert).
func bigModel(layers, experts int) []Named {
	tensors := []Named{{"model.embed_tokens.weight", "BF16", []int64{1000, 64}}, {"lm_head.weight", "BF16", []int64{1000, 64}}, {"model.norm.weight", "BF16", []int64{64}}}
	add := func(name string, shape ...int64) {
		tensors = append(tensors, Named{Name: name, DType: "BF16", Shape: shape})
	}
	for l := range layers {
		p := fmt.Sprintf("model.layers.%d.", l)
		for _, n := range []string{"q", "k", "v", "o"} {
			add(p+"self_attn."+n+"_proj.weight", 64, 64)
		}
		for _, n := range []string{"q_norm", "k_norm"} {
			add(p+"self_attn."+n+".weight", 16)
		}
		add(p+"input_layernorm.weight", 64)
		add(p+"post_attention_layernorm.weight", 64)
		add(p+"mlp.gate.weight", int64(experts), 64)
		for x := range experts {
			for _, n := range []string{"gate", "up"} {
				add(fmt.Sprintf("%smlp.experts.%d.%s_proj.weight", p, x, n), 32, 64)
			}
			add(fmt.Sprintf("%smlp.experts.%d.down_proj.weight", p, x), 64, 32)
		}
	}
	return tensors
}

func BenchmarkResolve(b *testing.B) {
	tensors := bigModel(174, 384)
	cfg, err := ParseConfig([]byte(`{"model_type":"qwen3_moe","hidden_size":64,"num_hidden_layers":174,"num_experts":384,"num_experts_per_tok":8,"moe_intermediate_size":32,"num_attention_heads":4,"num_key_value_heads":4,"head_dim":16,"decoder_sparse_step":1}`))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		m, err := Resolve(cfg, tensors)
		if err != nil || len(m.Unknown) > 0 || m.ExpertMatrices != 174*384*3 {
			b.Fatal(err, m.Summary)
		}
	}
	b.ReportMetric(float64(len(tensors)), "tensors/op")
}
