package ggufmake

import (
	"encoding/json"

	"quantscope/quant/gguf"
	"quantscope/quant/topology"
)

// bools, ints and reals write lists, one entry a block.
func (k *keys) bools(key string, list []bool) {
	k.add(k.arch+"."+key, gguf.Value{Type: gguf.Array, Elem: gguf.Bool, List: list})
}

func (k *keys) ints(key string, list []int64) {
	k.add(k.arch+"."+key, gguf.Value{Type: gguf.Array, Elem: gguf.Int32, List: list})
}

func (k *keys) reals(key string, list []float64) {
	for i := range list {
		list[i] = float64(float32(list[i]))
	}
	k.add(k.arch+"."+key, gguf.Value{Type: gguf.Array, Elem: gguf.Float32, List: list})
}

// perBlock is something of every block.
func perBlock[T any](blocks int, of func(i int) T) []T {
	list := make([]T, blocks)
	for i := range list {
		list[i] = of(i)
	}
	return list
}

// floats is a list of numbers of the config, one a layer, null for 0.
func (c *converter) floats(key string) []float64 {
	list, _ := c.cfg.Text[key].([]any)
	out := make([]float64, len(list))
	for i, x := range list {
		if n, ok := x.(json.Number); ok {
			out[i], _ = n.Float64()
		}
	}
	return out
}

// deltaKeys are Qwen3-Next and Qwen3.5: layers with linear attention and plain ones.
func deltaKeys(c *converter, k *keys) {
	l := c.cfg.Linear
	c.silu(k)
	switch {
	case !l.Known():
		k.refuse("the sizes of linear attention (linear_num_key_heads and the like) are missing")
		return
	case l.ValueDim != l.KeyDim:
		k.refuse("linear_value_head_dim is %d and linear_key_head_dim %d, and llama.cpp has one width for both", l.ValueDim, l.KeyDim)
	case l.ValueHeads%l.KeyHeads != 0:
		k.refuse("linear_num_value_heads is %d, and no multiple of %d key heads", l.ValueHeads, l.KeyHeads)
	}
	if !c.flag("attn_output_gate", true) {
		k.refuse("attn_output_gate is false")
	}
	if _, section := c.ropeSection(); k.arch != "qwen3next" {
		sections := []int64{11, 11, 10, 0} // what transformers takes
		if list, ok := section["mrope_section"].([]any); ok {
			clear(sections)
			for i, x := range list {
				n, isNumber := x.(json.Number)
				v, err := n.Int64()
				if i >= 3 || !isNumber || err != nil || v < 0 || v > 1<<20 {
					k.refuse("mrope_section is %v", list)
					break
				}
				sections[i] = v
			}
		}
		k.ints("rope.dimension_sections", sections)
	}
	if k.arch != "qwen35" {
		k.count("expert_feed_forward_length", c.cfg.MoEIntermediate)
		k.count("expert_shared_feed_forward_length", c.integer("shared_expert_intermediate_size", 0))
		if !c.flag("norm_topk_prob", k.arch == "qwen35moe") {
			k.refuse("norm_topk_prob is false")
		}
		for i := range c.cfg.Layers {
			if moe, known := c.cfg.MoELayer(i); known && !moe {
				k.refuse("layer %d has no experts (decoder_sparse_step or mlp_only_layers)", i)
				break
			}
		}
	}
	if n := c.nextn(); n > 0 {
		k.count("nextn_predict_layers", n)
	}
	k.count("ssm.conv_kernel", l.Taps)
	k.count("ssm.state_size", l.KeyDim)
	k.count("ssm.group_count", l.KeyHeads)
	k.count("ssm.time_step_rank", l.ValueHeads)
	k.count("ssm.inner_size", l.Values())
	k.bools("attention.recurrent_layers", perBlock(c.cfg.Layers+c.nextn(), func(i int) bool { return i < c.cfg.Layers && c.cfg.LayerType(i) == topology.LinearAttention }))
	for i := range c.cfg.Layers {
		if t := c.cfg.LayerType(i); t != topology.LinearAttention && t != topology.FullAttention {
			k.refuse("layer_types: layer %d is %s", i, t)
		}
	}
	k.count("full_attention_interval", c.integer("full_attention_interval", 4))
	k.count("rope.dimension_count", c.cfg.RotaryDim())
}

// stepRope is a rope of layers of one kind.
type stepRope struct {
	theta, partial float64
	section        map[string]any
}

// stepRopes are those of layers that see all and of those with a window. The released
// spelling lists them a layer, transformers' by kind.
func (c *converter) stepRopes() (full, slide stepRope) {
	full, slide = stepRope{10000, 0.5, nil}, stepRope{10000, 1, nil}
	if len(c.cfg.RopeByType) > 0 {
		sections, _ := c.cfg.Text["rope_parameters"].(map[string]any)
		for name, r := range map[string]*stepRope{topology.FullAttention: &full, topology.SlidingAttention: &slide} {
			of := c.cfg.RopeByType[name]
			r.section, _ = sections[name].(map[string]any)
			r.theta, r.partial = of.Theta, of.Partial
		}
		return full, slide
	}
	full.section, _ = c.cfg.Text["rope_scaling"].(map[string]any)
	thetas, partials := c.floats("rope_theta"), c.floats("partial_rotary_factors")
	for i := range c.cfg.Layers {
		r := &full
		if c.cfg.LayerType(i) == topology.SlidingAttention {
			r = &slide
		}
		if i < len(thetas) {
			r.theta = thetas[i]
		} else {
			r.theta = c.real("rope_theta", r.theta)
		}
		if i < len(partials) {
			r.partial = partials[i]
		}
	}
	return full, slide
}

// stepKeys: heads and windows are written for each block.
func stepKeys(c *converter, k *keys) {
	cfg := c.cfg
	c.silu(k)
	blocks := cfg.Layers + c.nextn()
	k.ints("attention.head_count", perBlock(blocks, func(i int) int64 { q, _, _ := cfg.AttentionSizes(i); return int64(q) }))
	full, slide := c.stepRopes()
	k.real("rope.freq_base", full.theta)
	k.real("rope.freq_base_swa", slide.theta)
	if full.partial != 0.5 || slide.partial != 1 {
		k.refuse("%g of the channels rotate in full and %g in sliding layers, and llama.cpp has 0.5 and 1", full.partial, slide.partial)
	}
	if t, _ := full.section["rope_type"].(string); t != "" && t != "default" && t != "llama3" {
		k.refuse("rope of type %s", t)
	}
	k.ints("attention.head_count_kv", perBlock(blocks, func(i int) int64 { _, kv, _ := cfg.AttentionSizes(i); return int64(kv) }))
	k.count("attention.sliding_window", c.integer("sliding_window", 0))
	k.bools("attention.sliding_window_pattern", perBlock(blocks, func(i int) bool { return cfg.LayerType(i) == topology.SlidingAttention }))
	k.count("expert_feed_forward_length", cfg.MoEIntermediate)
	k.count("expert_shared_feed_forward_length", c.integer("share_expert_dim", 0))
	k.real("expert_weights_scale", c.real("moe_router_scaling_factor", 1))
	k.flag("expert_weights_norm", true)
	if !c.flag("norm_expert_weight", true) {
		k.refuse("norm_expert_weight is false")
	}
	if q := c.real("query_pre_attn_scalar", float64(cfg.HeadDim)); q != float64(cfg.HeadDim) {
		k.refuse("query_pre_attn_scalar is %g of heads of %d channels", q, cfg.HeadDim)
	}
	dense := cfg.Layers
	for i := range cfg.Layers {
		moe, known := cfg.MoELayer(i)
		switch {
		case !known:
			k.refuse("the config does not say which layers have experts")
		case moe:
			dense = min(dense, i)
		case i > dense:
			k.refuse("layer %d has no experts, and layer %d has some", i, dense)
		}
	}
	k.count("leading_dense_block_count", dense)
	k.count("moe_every_n_layers", 1)
	for _, l := range []struct{ key, name string }{{"swiglu_limits", "swiglu_clamp_exp"}, {"swiglu_limits_shared", "swiglu_clamp_shexp"}} {
		if list := c.floats(l.key); len(list) > 0 {
			k.reals(l.name, perBlock(blocks, func(i int) float64 { return append(list, make([]float64, blocks)...)[i] }))
		}
	}
	if n := c.nextn(); n > 0 {
		k.count("nextn_predict_layers", n)
	}
}

// gemma4Keys: heads of layers that see all have a width of their own.
func gemma4Keys(c *converter, k *keys) {
	cfg := c.cfg
	if a := c.text("hidden_activation", "gelu_pytorch_tanh"); a != "gelu_pytorch_tanh" {
		k.refuse("hidden_activation is %s", a)
	}
	full, slide := -1, -1 // a layer of each kind
	for i := range cfg.Layers {
		of := &full
		switch t := cfg.LayerType(i); t {
		case topology.SlidingAttention:
			of = &slide
		case topology.FullAttention:
		default:
			k.refuse("layer_types: layer %d is %s", i, t)
		}
		if *of < 0 {
			*of = i
		}
		q, kv, dim := cfg.AttentionSizes(i)
		if q0, kv0, dim0 := cfg.AttentionSizes(*of); q != cfg.Heads || q0 != q || kv0 != kv || dim0 != dim {
			k.refuse("layer %d has %d heads, %d of keys, of %d channels, and layer %d of its type %d, %d and %d", i, q, kv, dim, *of, q0, kv0, dim0)
		}
	}
	if full < 0 || slide < 0 {
		k.refuse("layers of both kinds, full_attention and sliding_attention, are needed")
		return
	}
	_, kvFull, wide := cfg.AttentionSizes(full)
	_, kvSlide, narrow := cfg.AttentionSizes(slide)
	if kvFull == kvSlide {
		k.count("attention.head_count_kv", kvFull)
	} else {
		k.ints("attention.head_count_kv", perBlock(cfg.Layers, func(i int) int64 { _, kv, _ := cfg.AttentionSizes(i); return int64(kv) }))
	}
	ropeFull, ropeSlide := cfg.RopeByType[topology.FullAttention], cfg.RopeByType[topology.SlidingAttention]
	if ropeFull.Type != "proportional" || ropeSlide.Type != "" && ropeSlide.Type != "default" || ropeSlide.Partial != 1 && ropeSlide.Partial != 0 {
		k.refuse("ropes are %q in full and %q (%g of the channels) in sliding layers, and llama.cpp has proportional and default ones", ropeFull.Type, ropeSlide.Type, ropeSlide.Partial)
	}
	k.real("rope.freq_base", ropeFull.Theta)
	k.real("rope.freq_base_swa", ropeSlide.Theta)
	k.count("attention.key_length", wide)
	k.count("attention.value_length", wide)
	if s := c.real("final_logit_softcapping", 0); s > 0 {
		k.real("final_logit_softcapping", s)
	}
	k.count("attention.sliding_window", c.integer("sliding_window", 0))
	shared := c.integer("num_kv_shared_layers", 0)
	k.count("attention.shared_kv_layers", shared)
	k.count("embedding_length_per_layer_input", c.integer("hidden_size_per_layer_input", 0))
	k.bools("attention.sliding_window_pattern", perBlock(cfg.Layers, func(i int) bool { return cfg.LayerType(i) == topology.SlidingAttention }))
	k.count("attention.key_length_swa", narrow)
	k.count("attention.value_length_swa", narrow)
	if cfg.Experts > 0 {
		k.count("expert_feed_forward_length", cfg.MoEIntermediate)
	}
	if c.flag("use_double_wide_mlp", false) {
		k.ints("feed_forward_length", perBlock(cfg.Layers, func(i int) int64 {
			if i >= cfg.Layers-shared {
				return int64(2 * cfg.Intermediate)
			}
			return int64(cfg.Intermediate)
		}))
	} else {
		k.count("feed_forward_length", cfg.Intermediate)
	}
	k.count("rope.dimension_count", wide)
	k.count("rope.dimension_count_swa", narrow)
}

// deepSeek4Keys: the kind of attention of a layer is said by its rate of compression.
func deepSeek4Keys(c *converter, k *keys) {
	cfg := c.cfg
	c.silu(k)
	if f := c.text("scoring_func", "sqrtsoftplus"); f != "sqrtsoftplus" {
		k.refuse("scoring_func is %s", f)
	}
	k.count("attention.head_count", cfg.Heads)
	k.count("attention.head_count_kv", 1)
	main, compress := c.deepSeek4Ropes()
	c.scaling(k, compress.rope, compress.section)
	k.real("rope.freq_base", main)
	k.count("expert_gating_func", 4) // √softplus
	k.count("attention.key_length", cfg.HeadDim)
	k.count("attention.value_length", cfg.HeadDim)
	k.count("rope.dimension_count", cfg.QKRope)
	k.count("attention.q_lora_rank", cfg.QLoRA)
	k.count("attention.sliding_window", c.integer("sliding_window", 0))
	k.count("expert_feed_forward_length", cfg.MoEIntermediate)
	k.count("expert_shared_count", cfg.SharedExperts)
	k.real("expert_weights_scale", c.real("routed_scaling_factor", 1))
	k.flag("expert_weights_norm", c.flag("norm_topk_prob", true))
	limit := c.real("swiglu_limit", 0)
	for _, key := range []string{"swiglu_clamp_exp", "swiglu_clamp_shexp"} {
		k.reals(key, perBlock(cfg.Layers, func(int) float64 { return limit }))
	}
	k.count("attention.indexer.head_count", cfg.IndexHeads)
	k.count("attention.indexer.key_length", cfg.IndexDim)
	k.count("attention.indexer.top_k", c.integer("index_topk", 0))
	k.count("attention.output_group_count", c.integer("o_groups", 0))
	k.count("attention.output_lora_rank", c.integer("o_lora_rank", 0))
	ratios := perBlock(cfg.Layers, func(i int) int64 { return int64(cfg.CompressRate(i)) })
	for i, r := range ratios {
		switch t := cfg.LayerType(i); {
		case t == "" || (r == 4) != (t == topology.CompressedSparse):
			k.refuse("layer %d is %q with a rate of %d, and llama.cpp has 4 for compressed sparse attention alone", i, t, r)
		case r != 0 && r != 4 && r != 128:
			c.note("layer %d compresses %d tokens to one: llama.cpp refuses any rate but 4 and 128", i, r)
		}
	}
	k.ints("attention.compress_ratios", ratios)
	k.real("attention.compress_rope_freq_base", compress.rope.Theta)
	k.count("hyper_connection.count", c.integer("hc_mult", 0))
	k.count("hyper_connection.sinkhorn_iterations", c.integer("hc_sinkhorn_iters", 0))
	k.real("hyper_connection.epsilon", c.real("hc_eps", 1e-6))
	k.count("hash_layer_count", c.hashLayers(k))
	k.count("embedding_length_out", cfg.Hidden*c.integer("hc_mult", 0))
}

// hashLayers is how many layers from the first on choose experts by a table.
func (c *converter) hashLayers(k *keys) int {
	list, ok := c.cfg.Text["mlp_layer_types"].([]any)
	if !ok {
		return c.integer("num_hash_layers", 0)
	}
	n := 0
	for i, t := range list {
		switch {
		case t == "hash_moe" && i == n:
			n++
		case t != "moe":
			k.refuse("mlp_layer_types: layer %d is %v", i, t)
		}
	}
	return n
}

// sectioned is a rope with all that the config says of it.
type sectioned struct {
	rope    topology.Rope
	section map[string]any
}

// deepSeek4Ropes are θ of layers with a window, and the rope of those that compress.
func (c *converter) deepSeek4Ropes() (main float64, compress sectioned) {
	if r, ok := c.cfg.RopeByType["compress"]; ok {
		sections, _ := c.cfg.Text["rope_parameters"].(map[string]any)
		section, _ := sections["compress"].(map[string]any)
		own := map[string]any{}
		for key, v := range section {
			if key != "attention_factor" { // 1, which is what the architecture has
				own[key] = v
			}
		}
		return c.cfg.RopeByType["main"].Theta, sectioned{r, own}
	}
	section, _ := c.cfg.Text["rope_scaling"].(map[string]any)
	r := c.cfg.Rope
	r.Theta = c.real("compress_rope_theta", 160000)
	return c.real("rope_theta", 10000), sectioned{r, section}
}

// nextn is the number of MTP layers that the file will have.
func (c *converter) nextn() int {
	if !mtpArchs[c.Arch] {
		return 0
	}
	return c.top.MTPLayers
}

// mtpArchs are the architectures whose files have MTP layers behind the others.
var mtpArchs = map[string]bool{"glm4moe": true, "qwen3next": true, "qwen35": true, "qwen35moe": true, "step35": true}
