package gguf

import "encoding/json"

// stepNames are the tensors of Step-3.5 and 3.7.
var stepNames = map[string]string{
	"ffn_norm": "post_attention_layernorm", "attn_gate": "self_attn.g_proj",
	"ffn_gate_shexp": "share_expert.gate_proj", "ffn_up_shexp": "share_expert.up_proj", "ffn_down_shexp": "share_expert.down_proj",
}

// step35Config: layers that see all and layers with a window differ in their heads and
// ropes. llama.cpp lets half of the channels rotate where a layer sees all.
func step35Config(m *metadata, c config) {
	blocks := m.blocks()
	next := m.count("nextn_predict_layers", 0)
	if next >= blocks {
		m.broken("step35.nextn_predict_layers is %d of %d blocks", next, blocks)
		next = 0
	}
	layers := blocks - next
	dim := m.need("attention.key_length")
	m.wants("of a head of", []wanted{{"attention.value_length", dim}, {"rope.dimension_count", dim}, {"rope.dimension_count_swa", dim}})
	m.wants("where llama.cpp's architecture has", []wanted{{"moe_every_n_layers", 1}})
	c["model_type"], c["hidden_act"], c["attention_bias"] = "step3p5", "silu", false
	c["num_hidden_layers"], c["num_nextn_predict_layers"] = layers, next
	c["head_dim"], c["query_pre_attn_scalar"] = dim, dim
	c["intermediate_size"], c["moe_intermediate_size"] = m.need("feed_forward_length"), m.need("expert_feed_forward_length")
	c["share_expert_dim"] = m.need("expert_shared_feed_forward_length")
	c["n_routed_experts"], c["num_experts_per_tok"] = m.need("expert_count"), m.need("expert_used_count")
	scale := m.real("expert_weights_scale", 1)
	if scale == 0 {
		scale = 1
	}
	c["moe_router_scaling_factor"] = number(scale)
	m.gating(sigmoid)
	if !m.flag("expert_weights_norm", false) { // absent, llama.cpp divides no weights by their sum
		m.refuse("step35.expert_weights_norm is false or absent")
	}

	sliding := m.flags("attention.sliding_window_pattern", blocks, func(int) bool { return false })
	heads, kv := m.counts("attention.head_count", blocks, make([]int, blocks)), m.counts("attention.head_count_kv", blocks, make([]int, blocks))
	types, mlps := make([]string, layers), make([]string, layers)
	dense := m.count("leading_dense_block_count", 0)
	for i := range types {
		types[i], mlps[i] = layerType(sliding[i]), "sparse"
		if i < dense {
			mlps[i] = "dense"
		}
	}
	c["layer_types"], c["mlp_layer_types"], c["sliding_window"] = types, mlps, m.need("attention.sliding_window")
	if next > 0 {
		mtp, plain := make([]string, next), make([]string, next)
		for i := range mtp {
			mtp[i], plain[i] = layerType(sliding[layers+i]), "dense"
		}
		c["mtp_layer_types"], c["mtp_mlp_layer_types"] = mtp, plain
	}
	full, slide := 0, 0 // heads of the two
	for i := range blocks {
		if heads[i] == 0 || kv[i] == 0 || kv[i] != kv[0] {
			m.refuse("step35.attention: block %d has %d heads and %d of keys, block 0 %d of keys", i, heads[i], kv[i], kv[0])
		}
		of := &full
		if sliding[i] {
			of = &slide
		}
		if *of != 0 && *of != heads[i] {
			m.refuse("step35.attention.head_count: %s layers have %d heads and %d", layerType(sliding[i]), *of, heads[i])
		}
		*of = heads[i]
	}
	if full == 0 {
		full = slide
	}
	c["num_attention_heads"], c["num_key_value_heads"] = full, kv[0]
	if slide != 0 {
		c["num_sliding_attention_heads"] = slide
	}
	m.geo.qkv = func(layer int) [3]int {
		if layer >= blocks {
			return [3]int{}
		}
		return [3]int{heads[layer] * dim, kv[layer] * dim, kv[layer] * dim}
	}
	for _, l := range []struct{ key, name string }{{"swiglu_clamp_exp", "swiglu_limits"}, {"swiglu_clamp_shexp", "swiglu_limits_shared"}} {
		limits := make([]json.Number, blocks)
		for i, x := range m.reals(l.key, blocks) {
			limits[i] = number(x)
		}
		c[l.name] = limits
	}
	theta := m.real("rope.freq_base", 10000)
	rope := map[string]any{"rope_type": "default"}
	if s := m.rope(); s != nil {
		m.refuse("step35.rope.scaling.type %q is not known", s["rope_type"])
	}
	if t, ok := m.f.Lookup("rope_freqs.weight"); ok {
		llama3, err := llama3Section(m.f, t, dim/2, dim/4, float64(theta))
		if err != nil && m.err == nil {
			m.err = err
		}
		if llama3 != nil {
			rope = llama3
		}
	}
	rope["rope_theta"], rope["partial_rotary_factor"] = number(theta), json.Number("0.5")
	c["rope_parameters"] = map[string]any{
		"full_attention":    rope,
		"sliding_attention": map[string]any{"rope_type": "default", "rope_theta": number(m.real("rope.freq_base_swa", theta)), "partial_rotary_factor": 1},
	}
}

func layerType(sliding bool) string {
	if sliding {
		return "sliding_attention"
	}
	return "full_attention"
}
