package gguf

import "fmt"

// llamaConfig: with experts it is Mixtral.
func llamaConfig(m *metadata, c config) {
	c["model_type"], c["hidden_act"], c["intermediate_size"] = "llama", "silu", m.need("feed_forward_length")
	experts := m.count("expert_count", 0)
	used := m.count("expert_used_count", 0)
	inner := m.count("expert_feed_forward_length", 0)
	if experts == 0 {
		return
	}
	c["model_type"], c["num_local_experts"], c["num_experts_per_tok"] = "mixtral", experts, used
	if inner > 0 {
		c["intermediate_size"] = inner
	}
	m.gating(softmax)
	m.weights(true, 1)
}

// qwen2Config: windows are not used by any file of it.
func qwen2Config(m *metadata, c config) {
	c["model_type"], c["hidden_act"], c["intermediate_size"] = "qwen2", "silu", m.need("feed_forward_length")
	c["use_sliding_window"] = false
}

func qwen3Config(m *metadata, c config) {
	c["model_type"], c["hidden_act"], c["intermediate_size"] = "qwen3", "silu", m.need("feed_forward_length")
	c["use_sliding_window"] = false
}

// qwen3MoEConfig: every layer has experts, whose weights are normalized.
func qwen3MoEConfig(m *metadata, c config) {
	used := m.need("expert_used_count")
	inner := m.count("feed_forward_length", 0)
	c["model_type"], c["hidden_act"], c["intermediate_size"] = "qwen3_moe", "silu", inner
	c["num_experts"], c["num_experts_per_tok"], c["norm_topk_prob"] = m.need("expert_count"), used, true
	c["moe_intermediate_size"] = m.count("expert_feed_forward_length", inner/used)
	c["decoder_sparse_step"], c["mlp_only_layers"], c["use_sliding_window"] = 1, []any{}, false
	m.gating(softmax)
	m.weights(true, 1)
}

// sigmoidConfig are the experts of GLM-4 and DeepSeek-V3, and their MTP layers,
// which the file counts among its blocks.
func sigmoidConfig(m *metadata, c config) {
	c["hidden_act"], c["intermediate_size"] = "silu", m.need("feed_forward_length")
	c["n_routed_experts"], c["num_experts_per_tok"] = m.need("expert_count"), m.need("expert_used_count")
	c["n_shared_experts"], c["moe_intermediate_size"] = m.count("expert_shared_count", 0), m.need("expert_feed_forward_length")
	c["first_k_dense_replace"] = m.count("leading_dense_block_count", 0)
	c["n_group"], c["topk_group"] = max(m.count("expert_group_count", 1), 1), max(m.count("expert_group_used_count", 1), 1)
	c["norm_topk_prob"] = m.flag("expert_weights_norm", false)
	if s := m.real("expert_weights_scale", 0); s > 0 {
		c["routed_scaling_factor"] = number(s)
	} else {
		c["routed_scaling_factor"] = 1
	}
	next, blocks := m.count("nextn_predict_layers", 0), m.need("block_count")
	if next >= blocks {
		m.broken("%s.nextn_predict_layers is %d of %d blocks", m.arch, next, blocks)
	}
	c["num_nextn_predict_layers"], c["num_hidden_layers"] = next, blocks-next
}

func glm4MoEConfig(m *metadata, c config) {
	sigmoidConfig(m, c)
	m.gating(sigmoid)
	_, qk := m.f.Lookup("blk.0.attn_q_norm.weight")
	c["model_type"], c["use_qk_norm"] = "glm4_moe", qk
}

// deepSeekConfig: DeepSeek-V2 and V3. Files of before the split of kv_b give the sizes
// of heads as they are, later ones those of attention over the latent beside them.
func deepSeekConfig(m *metadata, c config) {
	sigmoidConfig(m, c)
	heads := m.need("attention.head_count")
	key := m.count("attention.key_length_mla", m.count("attention.key_length", 0))
	rope := m.need("rope.dimension_count")
	if key <= rope {
		m.broken("deepseek2.attention.key_length is %d with %d rotary channels", key, rope)
	}
	delete(c, "head_dim")
	c["model_type"], c["num_key_value_heads"] = "deepseek_v3", heads
	c["qk_rope_head_dim"], c["qk_nope_head_dim"] = rope, key-rope
	c["v_head_dim"] = m.count("attention.value_length_mla", m.count("attention.value_length", 0))
	c["kv_lora_rank"] = m.need("attention.kv_lora_rank")
	if q := m.count("attention.q_lora_rank", 0); q > 0 {
		c["q_lora_rank"] = q
	}
	if m.isV2(c) {
		m.gating(softmax)
		c["model_type"], c["scoring_func"], c["topk_method"] = "deepseek_v2", "softmax", "greedy"
		if g, _ := c["n_group"].(int); g > 1 {
			c["topk_method"] = "group_limited_greedy"
		}
		return
	}
	m.gating(sigmoid)
	c["rope_interleave"], c["topk_method"], c["scoring_func"] = true, "noaux_tc", "sigmoid"
}

// isV2 says whether a router is that of DeepSeek-V2: a softmax without a bias for the
// choice. Its files state no function, which is what llama.cpp takes then.
func (m *metadata) isV2(c config) bool {
	if _, stated := m.one("expert_gating_func"); stated {
		if g := m.count("expert_gating_func", 0); g != 0 {
			return g == softmax
		}
	}
	dense, _ := c["first_k_dense_replace"].(int)
	_, corrected := m.f.Lookup(fmt.Sprintf("blk.%d.exp_probs_b.bias", dense))
	return !corrected
}

// gemma3Config: the file does not say how scores are scaled; the one model that
// does it otherwise has 62 layers.
func gemma3Config(m *metadata, c config) {
	c["model_type"], c["hidden_activation"], c["intermediate_size"] = "gemma3_text", "gelu_pytorch_tanh", m.need("feed_forward_length")
	c["query_pre_attn_scalar"] = c["head_dim"]
	if layers := m.need("block_count"); layers == 62 {
		c["query_pre_attn_scalar"] = m.need("embedding_length") / m.need("attention.head_count")
	}
	if s := m.real("final_logit_softcapping", 0); s != 0 {
		c["final_logit_softcapping"] = number(s)
	}
	c.windows(m, 6)
	full := map[string]any{"rope_type": "default", "rope_theta": c["rope_theta"]}
	if s, ok := c["rope_scaling"].(map[string]any); ok {
		s["rope_theta"] = c["rope_theta"]
		full = s
	}
	delete(c, "rope_scaling")
	delete(c, "rope_theta")
	c["rope_parameters"] = map[string]any{
		"full_attention":    full,
		"sliding_attention": map[string]any{"rope_type": "default", "rope_theta": number(m.real("rope.freq_base_swa", 10000))},
	}
}

// gptOSSConfig: yarn's bounds are not rounded in this model.
func gptOSSConfig(m *metadata, c config) {
	inner := m.need("expert_feed_forward_length")
	_ = m.count("feed_forward_length", 0) // the same, and not used
	c["model_type"], c["intermediate_size"], c["swiglu_limit"] = "gpt_oss", inner, 7
	c["num_local_experts"], c["num_experts_per_tok"] = m.need("expert_count"), m.need("expert_used_count")
	m.gating(softmax, softmaxOfChosen)
	m.weights(true, 1)
	c.windows(m, 2)
	if s, ok := c["rope_scaling"].(map[string]any); ok {
		s["truncate"] = false
	}
}

// windows are the layers with a sliding window: all but every period-th, or what
// a key says, the period or one flag a layer.
func (c config) windows(m *metadata, period int) {
	window := m.count("attention.sliding_window", 0)
	var flags []bool
	if v, ok := m.value("attention.sliding_window_pattern"); ok {
		if flags, ok = v.List.([]bool); !ok {
			period = m.count("attention.sliding_window_pattern", period)
		}
	}
	layers := m.need("block_count")
	if flags != nil && len(flags) < layers {
		m.broken("%s.attention.sliding_window_pattern has %d flags for %d layers", m.arch, len(flags), layers)
		return
	}
	if layers > maxBlocks {
		m.broken("%s.block_count is %d", m.arch, layers)
		return
	}
	types := make([]string, layers)
	for i := range types {
		types[i] = "full_attention"
		switch {
		case window == 0:
		case flags != nil && flags[i], flags == nil && period > 0 && i%period < period-1:
			types[i] = "sliding_attention"
		}
	}
	c["layer_types"] = types
	if window > 0 {
		c["sliding_window"] = window
	}
}

// How a router makes weights of logits, by the format's numbers.
const (
	softmax         = 1
	sigmoid         = 2
	softmaxOfChosen = 3
	sqrtSoftplus    = 4
)

// gating refuses a router that works otherwise than the architecture's; a file
// that does not say has the architecture's.
func (m *metadata) gating(want ...int) {
	got := m.count("expert_gating_func", want[0])
	for _, w := range want {
		if got == w || got == 0 {
			return
		}
	}
	m.refuse("%s.expert_gating_func is %d, which this architecture has no forward pass for", m.arch, got)
}

// weights refuses experts that are weighed otherwise than the architecture does
// it; files that do not say do the same.
func (m *metadata) weights(normalized bool, scale float32) {
	if n := m.flag("expert_weights_norm", normalized); n != normalized {
		m.refuse("%s.expert_weights_norm is %t", m.arch, n)
	}
	if s := m.real("expert_weights_scale", scale); s != scale && s != 0 {
		m.refuse("%s.expert_weights_scale is %g", m.arch, s)
	}
}
