package plan

import (
	"fmt"
	"testing"

	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// wide has 37,152 routed-expert matrices: 43 layers of 288 experts.
func wide(t testing.TB) *topology.Model {
	t.Helper()
	var s shapes
	s.add("model.embed_tokens.weight", 1024, 64)
	for l := range 44 {
		p := fmt.Sprintf("model.layers.%d.", l)
		s.add(p+"input_layernorm.weight", 64)
		for _, n := range []string{"q", "k", "v", "o"} {
			s.add(p+"self_attn."+n+"_proj.weight", 64, 64)
		}
		if l == 0 {
			s.mlp(p+"mlp.", 192, 64)
			continue
		}
		s.add(p+"mlp.gate.weight", 288, 64)
		for x := range 288 {
			s.mlp(fmt.Sprintf("%smlp.experts.%d.", p, x), 64, 64)
		}
		s.mlp(p+"mlp.shared_experts.", 64, 64)
	}
	s.add("lm_head.weight", 1024, 64)
	return s.model(t, `{"architectures":["Glm4MoeForCausalLM"],"model_type":"glm4_moe","hidden_size":64,"num_hidden_layers":44,"num_attention_heads":2,"num_key_value_heads":2,"head_dim":32,
		"n_routed_experts":288,"n_shared_experts":1,"num_experts_per_tok":8,"moe_intermediate_size":64,"first_k_dense_replace":1,"vocab_size":1024,"tie_word_embeddings":false}`)
}

func BenchmarkPlan(b *testing.B) {
	m := wide(b)
	for _, name := range recipe.Builtins() {
		f := builtinOf(b, name, m)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if p, err := Resolve(m, f, Options{Layout: "compressed-tensors", Ranks: 2, KVTokens: 1000}); err != nil || p.Experts.Expected != 37152 {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/builtin", func(b *testing.B) {
			for b.Loop() {
				builtinOf(b, name, m)
			}
		})
	}
	broad := parse(b, "groups:\n  - {scheme: nvfp4, targets: ['re:.*\\.experts\\..*']}\n  - {scheme: fp8-channel, targets: ['*.self_attn.*']}\nignore: ['re:.*gate$', 'lm_head', 're:.*norm.*', 're:.*shared.*', 're:^mtp.*']\n")
	b.Run("broad", func(b *testing.B) {
		for b.Loop() {
			if _, err := Resolve(m, broad, Options{Layout: "modelopt"}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
