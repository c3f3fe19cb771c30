package gguf

import "encoding/json"

// deepSeek4Names are the tensors of a layer of DeepSeek-V4, by the names of its
// release.
var deepSeek4Names = map[string]string{
	"attn_norm": "attn_norm", "ffn_norm": "ffn_norm", "attn_sinks": "attn.attn_sink",
	"attn_q_a": "attn.wq_a", "attn_q_b": "attn.wq_b", "attn_q_a_norm": "attn.q_norm", "attn_kv": "attn.wkv", "attn_kv_a_norm": "attn.kv_norm",
	"attn_output_a": "attn.wo_a", "attn_output_b": "attn.wo_b",
	"attn_compressor_ape": "attn.compressor.ape", "attn_compressor_kv": "attn.compressor.wkv", "attn_compressor_gate": "attn.compressor.wgate", "attn_compressor_norm": "attn.compressor.norm",
	"indexer.attn_q_b": "attn.indexer.wq_b", "indexer.proj": "attn.indexer.weights_proj", "indexer_compressor_ape": "attn.indexer.compressor.ape",
	"indexer_compressor_kv": "attn.indexer.compressor.wkv", "indexer_compressor_gate": "attn.indexer.compressor.wgate", "indexer_compressor_norm": "attn.indexer.compressor.norm",
	"ffn_gate_tid2eid": "ffn.gate.tid2eid",
	"ffn_gate_shexp":   "ffn.shared_experts.w1", "ffn_up_shexp": "ffn.shared_experts.w3", "ffn_down_shexp": "ffn.shared_experts.w2",
	"hc_attn_fn": "hc_attn_fn", "hc_attn_base": "hc_attn_base", "hc_attn_scale": "hc_attn_scale", "hc_ffn_fn": "hc_ffn_fn", "hc_ffn_base": "hc_ffn_base", "hc_ffn_scale": "hc_ffn_scale",
}

// deepSeek4Outer are those of none.
var deepSeek4Outer = map[string]string{
	"token_embd": "embed", "output": "head", "output_norm": "norm", "output_hc_fn": "hc_head_fn", "output_hc_base": "hc_head_base", "output_hc_scale": "hc_head_scale",
}

// sparseRate is the rate of compression that llama.cpp takes for that with an indexer.
const sparseRate = 4

// deepSeek4Config: the rate of compression says what attention a layer has.
func deepSeek4Config(m *metadata, c config) {
	layers := m.blocks()
	if n := m.count("nextn_predict_layers", 0); n > 0 {
		m.refuse("deepseek4.nextn_predict_layers is %d: a file of MTP layers alone", n)
	}
	dim := m.need("attention.key_length")
	rope := m.need("rope.dimension_count")
	if v := m.count("attention.value_length", dim); v != dim || rope > dim {
		m.refuse("deepseek4.attention.key_length is %d, value_length %d, and %d channels rotate", dim, v, rope)
	}
	if n := m.count("attention.head_count_kv", 1); n != 1 {
		m.refuse("deepseek4.attention.head_count_kv is %d", n)
	}
	c["model_type"], c["hidden_act"], c["attention_bias"] = "deepseek_v4", "silu", false
	c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"], c["qk_rope_head_dim"] = m.need("attention.head_count"), 1, dim, rope
	partial := json.Number(ratio(rope, dim))
	c["partial_rotary_factor"] = partial
	c["q_lora_rank"], c["o_groups"], c["o_lora_rank"] = m.need("attention.q_lora_rank"), m.need("attention.output_group_count"), m.need("attention.output_lora_rank")
	c["sliding_window"] = m.need("attention.sliding_window")
	c["index_n_heads"], c["index_head_dim"], c["index_topk"] = m.need("attention.indexer.head_count"), m.need("attention.indexer.key_length"), m.need("attention.indexer.top_k")
	c["hc_mult"], c["hc_sinkhorn_iters"], c["hc_eps"] = m.need("hyper_connection.count"), m.need("hyper_connection.sinkhorn_iterations"), number(m.needReal("hyper_connection.epsilon"))
	if n, want := m.count("embedding_length_out", 0), c["hc_mult"].(int)*c["hidden_size"].(int); n != 0 && n != want {
		m.broken("deepseek4.embedding_length_out is %d, want %d", n, want)
	}

	c["n_routed_experts"], c["num_experts_per_tok"] = m.need("expert_count"), m.need("expert_used_count")
	c["n_shared_experts"], c["moe_intermediate_size"] = m.need("expert_shared_count"), m.need("expert_feed_forward_length")
	c["routed_scaling_factor"], c["norm_topk_prob"], c["scoring_func"] = number(m.needReal("expert_weights_scale")), m.flag("expert_weights_norm", false), "sqrtsoftplus"
	if g := m.count("expert_gating_func", 0); g != sqrtSoftplus {
		m.refuse("deepseek4.expert_gating_func is %d, which this architecture has no forward pass for", g)
	}
	_ = m.count("feed_forward_length", 0)
	limits := m.reals("swiglu_clamp_exp", layers)
	shared := limits
	if _, ok := m.value("swiglu_clamp_shexp"); ok {
		shared = m.reals("swiglu_clamp_shexp", layers)
	}
	for i := range limits {
		if limits[i] != limits[0] || shared[i] != limits[0] {
			m.refuse("deepseek4.swiglu_clamp_exp: layer %d has %g and %g, layer 0 %g", i, limits[i], shared[i], limits[0])
			break
		}
	}
	c["swiglu_limit"] = number(limits[0])

	ratios, hashed := m.counts("attention.compress_ratios", layers, make([]int, layers)), m.count("hash_layer_count", 0)
	types, mlps, heavy := make([]string, layers), make([]string, layers), 0
	for i, r := range ratios {
		switch {
		case r == 0:
			types[i] = "sliding_attention"
		case r == sparseRate:
			types[i] = "compressed_sparse_attention"
		default:
			types[i] = "heavily_compressed_attention"
			if heavy != 0 && heavy != r {
				m.refuse("deepseek4.attention.compress_ratios are %d and %d", heavy, r)
			}
			heavy = r
		}
		if mlps[i] = "moe"; i < hashed {
			mlps[i] = "hash_moe"
		}
	}
	if heavy == 0 {
		heavy = 128
	}
	c["layer_types"], c["mlp_layer_types"], c["num_hash_layers"] = types, mlps, hashed
	c["compress_rates"] = map[string]any{"compressed_sparse_attention": sparseRate, "heavily_compressed_attention": heavy}

	theta, compress := number(m.real("rope.freq_base", 10000)), number(m.needReal("attention.compress_rope_freq_base"))
	c["rope_theta"], c["compress_rope_theta"] = theta, compress
	stretched := map[string]any{"rope_type": "default"}
	if s := m.rope(); s != nil {
		if s["rope_type"] != "yarn" {
			m.refuse("deepseek4.rope.scaling.type %q is not known", s["rope_type"])
		}
		stretched = s
		stretched["attention_factor"] = 1
	}
	stretched["rope_theta"], stretched["partial_rotary_factor"] = compress, partial
	c["rope_parameters"] = map[string]any{
		"compress": stretched,
		"main":     map[string]any{"rope_type": "default", "rope_theta": theta, "partial_rotary_factor": partial},
	}
}
