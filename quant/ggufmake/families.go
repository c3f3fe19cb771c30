package ggufmake

import (
	"encoding/json"
	"fmt"
	"math"

	"quantscope/quant/gguf"
	"quantscope/quant/topology"
)

// rotary writes how many channels of a head rotate.
func (c *converter) rotary(k *keys) {
	if n := c.cfg.RotaryDim(); n > 0 {
		k.count("rope.dimension_count", n)
	}
}

// silu wants the activation that the architecture has.
func (c *converter) silu(k *keys) {
	if a := c.text("hidden_act", "silu"); a != "silu" && a != "swish" {
		k.refuse("hidden_act is %s", a)
	}
}

// llamaKeys are llama, mistral and mixtral, which llama.cpp calls the same.
func llamaKeys(c *converter, k *keys) {
	c.silu(k)
	k.count("rope.dimension_count", c.cfg.HeadDim)
	if c.cfg.Rope.Partial != 1 && c.cfg.Rope.Partial != 0 {
		k.refuse("partial_rotary_factor is %g", c.cfg.Rope.Partial)
	}
	if w := c.integer("sliding_window", 0); w > 0 {
		c.note("the sliding window of %d tokens is not in the file: files of architecture llama have none", w)
	}
}

func qwenKeys(c *converter, k *keys) {
	c.silu(k)
	if c.flag("use_sliding_window", false) {
		k.refuse("use_sliding_window is true")
	}
}

func qwen3MoEKeys(c *converter, k *keys) {
	qwenKeys(c, k)
	k.count("expert_feed_forward_length", c.cfg.MoEIntermediate)
	if s := c.integer("decoder_sparse_step", 1); s != 1 {
		k.refuse("decoder_sparse_step is %d", s)
	}
	if l, ok := c.cfg.Text["mlp_only_layers"].([]any); ok && len(l) > 0 {
		k.refuse("mlp_only_layers names %d layers", len(l))
	}
	if !c.flag("norm_topk_prob", false) {
		k.refuse("norm_topk_prob is false")
	}
}

// sigmoidKeys are the experts of GLM-4 and DeepSeek-V3.
func (c *converter) sigmoidKeys(k *keys) {
	c.silu(k)
	k.count("expert_feed_forward_length", c.cfg.MoEIntermediate)
	k.count("expert_shared_count", c.cfg.SharedExperts)
	k.count("leading_dense_block_count", c.integer("first_k_dense_replace", 0))
	k.count("expert_gating_func", 2) // sigmoid
	if s := c.text("scoring_func", "sigmoid"); s != "sigmoid" {
		k.refuse("scoring_func is %s", s)
	}
	k.real("expert_weights_scale", c.real("routed_scaling_factor", 1))
	k.flag("expert_weights_norm", c.flag("norm_topk_prob", true))
	if f := c.integer("moe_layer_freq", 1); f != 1 {
		k.refuse("moe_layer_freq is %d", f)
	}
}

func glm4MoEKeys(c *converter, k *keys) {
	c.rotary(k)
	c.sigmoidKeys(k)
	if c.top.MTPLayers > 0 {
		k.count("nextn_predict_layers", c.top.MTPLayers)
	}
}

// deepSeekKeys: the file says sizes of heads twice, as they are over the latent and
// as they are.
func deepSeekKeys(c *converter, k *keys) {
	cfg := c.cfg
	if cfg.KVLoRA == 0 || cfg.QKRope == 0 || cfg.QKNope == 0 || cfg.VHeadDim == 0 {
		k.refuse("kv_lora_rank, qk_rope_head_dim, qk_nope_head_dim and v_head_dim are needed")
	}
	k.count("attention.key_length", cfg.KVLoRA+cfg.QKRope)
	k.count("attention.value_length", cfg.KVLoRA)
	if cfg.QLoRA > 0 {
		k.count("attention.q_lora_rank", cfg.QLoRA)
	}
	k.count("attention.kv_lora_rank", cfg.KVLoRA)
	k.count("attention.key_length_mla", cfg.QKNope+cfg.QKRope)
	k.count("attention.value_length_mla", cfg.VHeadDim)
	k.count("rope.dimension_count", cfg.QKRope)
	if !c.flag("rope_interleave", true) {
		k.refuse("rope_interleave is false")
	}
	if cfg.TextModelType == "deepseek_v2" {
		c.deepSeekV2Keys(k)
		return
	}
	c.sigmoidKeys(k)
	if m := c.text("topk_method", "noaux_tc"); m != "noaux_tc" {
		k.refuse("topk_method is %s", m)
	}
}

// deepSeekV2Keys: no function is stated, which is a softmax.
func (c *converter) deepSeekV2Keys(k *keys) {
	c.silu(k)
	if s := c.text("scoring_func", "softmax"); s != "softmax" {
		k.refuse("scoring_func is %s", s)
	}
	groups := c.integer("n_group", 1)
	switch m := c.text("topk_method", "greedy"); {
	case m == "greedy" && groups > 1:
		k.refuse("topk_method is greedy with %d groups, which llama.cpp would choose among", groups)
	case m == "group_limited_greedy" && groups > 1:
		c.note("topk_method is group_limited_greedy: llama.cpp ranks groups by their two best experts, and the model by its best")
	case m != "greedy" && m != "group_limited_greedy":
		k.refuse("topk_method is %s", m)
	}
	if f := c.integer("moe_layer_freq", 1); f != 1 {
		k.refuse("moe_layer_freq is %d", f)
	}
	k.count("expert_feed_forward_length", c.cfg.MoEIntermediate)
	k.count("expert_shared_count", c.cfg.SharedExperts)
	k.count("leading_dense_block_count", c.integer("first_k_dense_replace", 0))
	k.real("expert_weights_scale", c.real("routed_scaling_factor", 1))
	if c.flag("norm_topk_prob", false) {
		k.flag("expert_weights_norm", true)
	}
}

// gemma3Keys: which layers have a window is said where it is not the usual pattern.
func gemma3Keys(c *converter, k *keys) {
	cfg := c.cfg
	if a := c.text("hidden_activation", "gelu_pytorch_tanh"); a != "gelu_pytorch_tanh" {
		k.refuse("hidden_activation is %s", a)
	}
	scalar := float64(cfg.HeadDim)
	if cfg.Layers == 62 { // the one that scales scores otherwise, as llama.cpp knows it
		scalar = float64(cfg.Hidden / max(cfg.Heads, 1))
	}
	if q := c.real("query_pre_attn_scalar", 256); q != scalar {
		k.refuse("query_pre_attn_scalar is %g, and files of %d layers have %g", q, cfg.Layers, scalar)
	}
	if s := c.real("final_logit_softcapping", 0); s > 0 {
		k.real("final_logit_softcapping", s)
	}
	if w := c.integer("sliding_window", 0); w > 0 {
		k.count("attention.sliding_window", w)
		if flags, usual := c.windows(6); !usual {
			k.add(k.arch+".attention.sliding_window_pattern", gguf.Value{Type: gguf.Array, Elem: gguf.Bool, List: flags})
		}
	}
	if !cfg.HeadDimStated {
		k.refuse("head_dim is missing")
	}
}

// windows are the layers with a sliding window, and whether that is all but every
// period-th.
func (c *converter) windows(period int) (flags []bool, usual bool) {
	usual = true
	list, _ := c.cfg.Text["layer_types"].([]any)
	for i := range c.cfg.Layers {
		w := i%period < period-1
		if i < len(list) {
			w = list[i] == "sliding_attention"
		}
		flags = append(flags, w)
		usual = usual && w == (i%period < period-1)
	}
	return flags, usual
}

func gptOSSKeys(c *converter, k *keys) {
	k.count("expert_feed_forward_length", c.cfg.MoEIntermediate)
	if w := c.integer("sliding_window", 0); w > 0 {
		k.count("attention.sliding_window", w)
	}
	if _, usual := c.windows(2); !usual {
		k.refuse("layer_types are not sliding_attention and full_attention by turns")
	}
	if l := c.real("swiglu_limit", 7); l != 7 {
		k.refuse("swiglu_limit is %g", l)
	}
	if a := c.real("swiglu_alpha", 1.702); a != 1.702 {
		k.refuse("swiglu_alpha is %g", a)
	}
}

// ropeFactors are the divisors of frequencies that stand for Llama 3.1's rule, or for
// a rope that leaves some of the channels as they are; nil where there is none.
func (c *converter) ropeFactors() []float32 {
	r, section := c.ropeSection()
	dim, used := c.cfg.HeadDim, c.cfg.HeadDim/2
	theta := r.Theta
	switch c.Arch {
	case "gemma4":
		for i := range c.cfg.Layers {
			if c.cfg.LayerType(i) == topology.FullAttention {
				_, _, dim = c.cfg.AttentionSizes(i)
			}
		}
		out := make([]float32, dim/2)
		for i := range out {
			if out[i] = 1; i >= int(float64(dim)*c.cfg.RopeByType[topology.FullAttention].Partial/2) {
				out[i] = 1e30
			}
		}
		return out
	case "step35":
		full, _ := c.stepRopes()
		theta, section, used = full.theta, full.section, dim/4
	case "deepseek4":
		return nil
	}
	if kind, _ := section["rope_type"].(string); kind != "llama3" && r.Type != "llama3" {
		return nil
	}
	number := func(key string, otherwise float64) float64 {
		if n, ok := section[key].(json.Number); ok {
			if f, err := n.Float64(); err == nil {
				return f
			}
		}
		return otherwise
	}
	factor, low, high, original := number("factor", 8), number("low_freq_factor", 1), number("high_freq_factor", 4), number("original_max_position_embeddings", 8192)
	if theta == 0 {
		theta = 10000
	}
	out := make([]float32, dim/2)
	for i := range out {
		wave := 2 * math.Pi * math.Pow(theta, float64(i)/float64(used))
		switch {
		case i >= used || wave < original/high:
			out[i] = 1
		case wave > original/low:
			out[i] = float32(factor)
		default:
			s := (original/wave - low) / (high - low)
			out[i] = float32(1 / ((1-s)/factor + s))
		}
	}
	return out
}

// same reads the header back and wants the model that it was made of: its sizes, its
// rope, and every linear map in its place and of its shape.
func (c *converter) same(pairs []gguf.Pair, tensors []gguf.Tensor) error {
	head, placed, _, err := gguf.Header(pairs, tensors)
	if err != nil {
		return err
	}
	f, err := gguf.OpenReader(c.Path, &image{head: head, placed: placed, factors: c.ropeFactors()})
	if err != nil {
		return fmt.Errorf("what would be written cannot be read: %w", err)
	}
	m, err := gguf.NewModel(f)
	if err != nil {
		return fmt.Errorf("what would be written cannot be read: %w", err)
	}
	a, b := c.cfg, &m.Topology.Config
	for _, n := range []struct {
		name      string
		want, got any
	}{
		{"hidden_size", a.Hidden, b.Hidden}, {"num_hidden_layers", a.Layers, b.Layers}, {"num_attention_heads", a.Heads, b.Heads}, {"num_key_value_heads", a.KVHeads, b.KVHeads},
		{"head_dim", c.headDim(a.HeadDim), c.headDim(b.HeadDim)}, {"vocab_size", a.Vocab, b.Vocab}, {"experts", a.Experts, b.Experts}, {"experts of a token", a.TopK, b.TopK},
		{"rotary channels", a.RotaryDim(), b.RotaryDim()}, {"rope", c.ropeText(a, b), b.RopeScaling()}, {"tied head", c.top.Tied, m.Topology.Tied},
	} {
		if n.want != n.got {
			return c.fail("%s is %v in the checkpoint, and would be %v in the file", n.name, n.want, n.got)
		}
	}
	for i := range a.Layers {
		moeA, knownA := a.MoELayer(i)
		moeB, knownB := b.MoELayer(i)
		q, kv, dim := a.AttentionSizes(i)
		q2, kv2, dim2 := b.AttentionSizes(i)
		switch {
		case knownA && knownB && moeA != moeB:
			return c.fail("layer %d has experts: %t in the checkpoint, and %t in the file", i, moeA, moeB)
		case c.Arch != "deepseek2" && c.Arch != "llama" && (q != q2 || kv != kv2 || dim != dim2):
			return c.fail("layer %d has %d heads, %d of keys, of %d channels in the checkpoint, and would have %d, %d and %d in the file", i, q, kv, dim, q2, kv2, dim2)
		case families[a.TextModelType].own && a.LayerType(i) != b.LayerType(i):
			return c.fail("layer %d has %s in the checkpoint, and would have %s in the file", i, a.LayerType(i), b.LayerType(i))
		}
	}
	for _, r := range c.wanted {
		if _, ok := m.Find(r); !ok {
			return c.fail("%+v has no place in the file", r)
		}
	}
	return nil
}

// ropeText is what stretches the positions, in the words for configs with a rope for
// each kind of layer where the file has those and the checkpoint's config does not.
func (c *converter) ropeText(a, b *topology.Config) string {
	if len(a.RopeByType) > 0 || len(b.RopeByType) == 0 {
		return a.RopeScaling()
	}
	other := map[string]string{"step35": "full_attention %s, sliding_attention none", "deepseek4": "compress %s, main none"}[c.Arch]
	if other == "" {
		return a.RopeScaling()
	}
	return fmt.Sprintf(other, a.RopeScaling())
}

// headDim does not count where attention is over a latent.
func (c *converter) headDim(n int) int {
	if c.Arch == "deepseek2" {
		return 0
	}
	return n
}
