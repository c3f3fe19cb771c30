package gguf

import (
	"context"
	"encoding/json"
	"strconv"
)

// gemma4Names are the tensors of a layer of Gemma 4.
var gemma4Names = map[string]string{
	"post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm",
	"pre_ffw_norm_2": "pre_feedforward_layernorm_2", "post_ffw_norm_1": "post_feedforward_layernorm_1", "post_ffw_norm_2": "post_feedforward_layernorm_2",
	"layer_output_scale": "layer_scalar", "inp_gate": "per_layer_input_gate", "proj": "per_layer_projection", "post_norm": "post_per_layer_input_norm",
}

// gemma4Outer are those of none.
var gemma4Outer = map[string]string{
	"per_layer_token_embd": "model.embed_tokens_per_layer", "per_layer_model_proj": "model.per_layer_model_projection", "per_layer_proj_norm": "model.per_layer_projection_norm",
}

// gemma4Scales are tensors of the router that files keep beside weights.
var gemma4Scales = map[string]string{"ffn_gate_inp": "router.scale", "ffn_down_exps": "router.per_expert_scale"}

func itoa(n int) string { return strconv.Itoa(n) }

// gemma4Config: layers that see all have heads of their own width, and keys that are
// values too where the file has no attn_v.
func gemma4Config(m *metadata, c config) {
	layers := m.blocks()
	full, swa := m.need("attention.key_length"), m.need("attention.key_length_swa")
	m.wants("of a head of", []wanted{{"rope.dimension_count", full}, {"rope.dimension_count_swa", swa}, {"attention.value_length", full}, {"attention.value_length_swa", swa}})
	heads := m.need("attention.head_count")
	c["model_type"], c["hidden_activation"], c["attention_bias"] = "gemma4_text", "gelu_pytorch_tanh", false
	c["head_dim"], c["global_head_dim"], c["num_attention_heads"] = swa, full, heads

	sliding := m.flags("attention.sliding_window_pattern", layers, func(int) bool { return false })
	kv := m.counts("attention.head_count_kv", layers, nil)
	if kv == nil {
		kv = make([]int, layers)
		for i := range kv {
			kv[i] = heads
		}
	}
	types := make([]string, layers)
	var kvOf [2]int // of layers that see all, and of those with a window
	equal := false  // a layer has keys for values
	for i := range types {
		types[i] = layerType(sliding[i])
		of := &kvOf[0]
		if sliding[i] {
			of = &kvOf[1]
		}
		if kv[i] == 0 || *of != 0 && *of != kv[i] {
			m.refuse("gemma4.attention.head_count_kv: %s layers have %d heads and %d", types[i], *of, kv[i])
		}
		*of = kv[i]
		_, k := m.f.Lookup("blk." + itoa(i) + ".attn_k.weight")
		_, v := m.f.Lookup("blk." + itoa(i) + ".attn_v.weight")
		if k && !v && sliding[i] {
			m.refuse("layer %d has a window and no attn_v", i)
		}
		equal = equal || k && !v
	}
	if equal {
		for i := range types {
			if _, v := m.f.Lookup("blk." + itoa(i) + ".attn_v.weight"); v && !sliding[i] {
				m.refuse("layer %d has attn_v, and another layer that sees all has none", i)
			}
		}
	}
	if kvOf[1] == 0 {
		kvOf[1] = kvOf[0]
	}
	c["layer_types"], c["attention_k_eq_v"], c["num_key_value_heads"] = types, equal, kvOf[1]
	if kvOf[0] != 0 {
		c["num_global_key_value_heads"] = kvOf[0]
	}
	if w := m.count("attention.sliding_window", 0); w > 0 {
		c["sliding_window"] = w
	}
	m.geo.qkv = func(layer int) [3]int {
		switch {
		case layer >= layers:
			return [3]int{}
		case sliding[layer]:
			return [3]int{heads * swa, kv[layer] * swa, kv[layer] * swa}
		}
		return [3]int{heads * full, kv[layer] * full, kv[layer] * full}
	}

	shared := m.count("attention.shared_kv_layers", 0)
	if shared >= layers {
		m.broken("gemma4.attention.shared_kv_layers is %d of %d", shared, layers)
		shared = 0
	}
	c["num_kv_shared_layers"] = shared
	inner := m.counts("feed_forward_length", layers, make([]int, layers))
	wide := shared > 0 && inner[layers-1] == 2*inner[0]
	for i, n := range inner {
		want := inner[0]
		if wide && i >= layers-shared {
			want *= 2
		}
		if n != want || n == 0 {
			m.refuse("gemma4.feed_forward_length of layer %d is %d, and of layer 0 %d", i, n, inner[0])
			break
		}
	}
	c["intermediate_size"], c["use_double_wide_mlp"] = inner[0], wide
	c["hidden_size_per_layer_input"] = m.count("embedding_length_per_layer_input", 0)
	if t, ok := m.f.Lookup("per_layer_token_embd.weight"); ok && len(t.Shape) == 2 {
		c["vocab_size_per_layer_input"] = t.Shape[0]
	}
	if s := m.real("final_logit_softcapping", 0); s != 0 {
		c["final_logit_softcapping"] = number(s)
	}
	experts := m.count("expert_count", 0)
	c["enable_moe_block"] = experts > 0
	if experts > 0 {
		c["num_experts"], c["top_k_experts"], c["moe_intermediate_size"] = experts, m.need("expert_used_count"), m.need("expert_feed_forward_length")
		m.gating(softmax)
		m.weights(true, 1)
	} else {
		_, _ = m.count("expert_used_count", 0), m.count("expert_feed_forward_length", 0)
	}
	if s := m.rope(); s != nil {
		m.refuse("gemma4.rope.scaling.type %q is not known", s["rope_type"])
	}
	theta := m.real("rope.freq_base", 1e6)
	c["rope_parameters"] = map[string]any{
		"full_attention":    map[string]any{"rope_type": "proportional", "rope_theta": number(theta), "partial_rotary_factor": m.proportional(full)},
		"sliding_attention": map[string]any{"rope_type": "default", "rope_theta": number(m.real("rope.freq_base_swa", 10000))},
	}
}

// infinite is the divisor that llama.cpp's converter gives frequencies which do not
// rotate.
const infinite = 1e30

// proportional is the share of a head's channels that rotate by the divisors of the
// file: those that are 1, before those that make a frequency nothing.
func (m *metadata) proportional(dim int) json.Number {
	t, ok := m.f.Lookup("rope_freqs.weight")
	if !ok {
		return "1"
	}
	refuse := func(format string, args ...any) json.Number {
		m.refuse("rope_freqs.weight: "+format, args...)
		return "1"
	}
	n := t.Elements()
	if n > maxRotary || 2*n != int64(dim) {
		return refuse("%d divisors for heads of %d channels", n, dim)
	}
	divisors := make([]float32, n)
	if err := m.f.Decode(context.Background(), t, 0, divisors); err != nil {
		return refuse("%v", err)
	}
	turn := 0
	for i, d := range divisors {
		switch {
		case d == 1 && turn == i:
			turn++
		case d != infinite:
			return refuse("divisor %d is %g, want 1, and from some place on %g", i, d, float32(infinite))
		}
	}
	return json.Number(strconv.FormatFloat(float64(turn)/float64(max(n, 1)), 'g', -1, 64))
}
