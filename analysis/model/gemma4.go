package model

import (
	"encoding/json"
	"maps"
	"math"
	"slices"

	"quantscope/quant/topology"
)

// gemma4: norms by w before and after, scores as they are, values with a norm of their
// own; layers that see all have their own heads and a proportional rope. Some models
// have experts beside the MLP, some have embeddings for every layer and last layers
// that use the keys and values of earlier ones. There are no MTP layers: drafts are
// made by a model of its own (gemma4_assistant).
func buildGemma4(b *builder) error {
	c, s := b.cfg, b.spec
	b.computes("final_logit_softcapping")
	switch v := b.cfg.Text["use_bidirectional_attention"]; v {
	case nil, "vision": // of images only
		b.computes("use_bidirectional_attention")
	}
	b.states("head_dim", "num_key_value_heads", "intermediate_size")
	s.Norm = b.norm(1e-6, false)
	s.EmbedScale = float32(math.Sqrt(float64(c.Hidden)))
	s.Softcap = float32(b.real("final_logit_softcapping", 0))
	act := b.act()
	if b.cfg.Text["hidden_activation"] == nil && b.cfg.Text["hidden_act"] == nil {
		act = GELUTanh
	}
	if d := b.whole("hidden_size_per_layer_input", 256); d > 0 {
		s.PerLayer = &PerLayer{Dim: d, Vocab: b.whole("vocab_size_per_layer_input", 262144), Act: act}
	}
	ropes := b.gemma4Ropes()
	experts := b.flag("enable_moe_block", false)
	b.layers(func(i int) Layer {
		l := Layer{
			In: inputNorm, PostAttn: postAttnNorm, PreMLP: preMLPNorm, PostMLP: postMLPNorm, Norm: s.Norm, Scalar: true,
			Attn: b.gemma4Attention(i, ropes), MLP: FeedForward{Inner: c.Intermediate, Act: act},
		}
		if l.Attn.Borrows && b.flag("use_double_wide_mlp", false) {
			l.MLP.Inner *= 2
		}
		if experts {
			l.Beside = &Beside{PostMLP: "post_feedforward_layernorm_1", Pre: "pre_feedforward_layernorm_2", Post: "post_feedforward_layernorm_2"}
			l.MoE = &MoE{
				FeedForward: FeedForward{Inner: c.MoEIntermediate, Act: act}, Experts: c.Experts, TopK: c.TopK,
				Groups: 1, TopGroups: 1, Normalize: true, Scaling: 1, OwnNorm: true, ExpertScale: true,
			}
		}
		return l
	})
	return nil
}

// states wants a config to say something, where what a library takes otherwise is that
// of one size of the model.
func (b *builder) states(keys ...string) {
	for _, key := range keys {
		if b.cfg.Text[key] == nil {
			b.refuse("config.json gives no %s", key)
		}
	}
}

// whole is a number of the text config without a fraction.
func (b *builder) whole(key string, otherwise int) int {
	x := b.real(key, float64(otherwise))
	if x != math.Trunc(x) || x < 0 || x > math.MaxInt32 {
		b.refuse("%s is %g", key, x)
		return 0
	}
	return int(x)
}

// gemma4Ropes are the ropes of the types of layers, which transformers knows where the
// config does not give them.
func (b *builder) gemma4Ropes() map[string]topology.Rope {
	if b.cfg.Text["rope_parameters"] == nil && b.cfg.Text["rope_scaling"] == nil {
		cfg := *b.cfg
		cfg.Text = maps.Clone(cfg.Text)
		cfg.Text["rope_parameters"] = map[string]any{fullAttention: map[string]any{"partial_rotary_factor": json.Number("0.25")}}
		b.cfg = &cfg
		return map[string]topology.Rope{
			slidingAttention: {Theta: 10000}, fullAttention: {Type: "proportional", Theta: 1e6},
		}
	}
	return b.cfg.RopeByType
}

// gemma4Attention is that of a layer.
func (b *builder) gemma4Attention(i int, ropes map[string]topology.Rope) Attention {
	c, kind := b.cfg, b.cfg.LayerType(i)
	heads, kvHeads, dim := c.AttentionSizes(i)
	if heads != c.Heads {
		b.refuse("per_layer_config gives layer %d %d heads", i, heads)
	}
	if own, ok := c.Text["per_layer_config"].(map[string]any); ok {
		b.onlySizes(own)
	}
	a := Attention{
		Heads: heads, KVHeads: kvHeads, Dim: dim, VDim: dim, Scale: 1, QKNorm: true, ValueNorm: true,
		KeyIsValue: kind == fullAttention && b.flag("attention_k_eq_v", false),
	}
	switch kind {
	case slidingAttention:
		a.Window = b.slides(i, 512)
	case fullAttention:
	default:
		b.refuse("layer type %q is not known; known are %s and %s", kind, fullAttention, slidingAttention)
	}
	rope, ok := ropes[kind]
	switch {
	case !ok:
		b.refuse("no rope for layer type %q", kind)
	case rope.Type == "proportional":
	case rope.Type != "" && rope.Type != "default":
		b.refuse("rope type %q of %s is not known; known are default and proportional", rope.Type, kind)
	case rope.Partial != 0 && rope.Partial != 1:
		b.refuse("partial_rotary_factor of %s is %g, and its rope type turns all of a head", kind, rope.Partial)
	}
	a.Rope = b.rope(dim, rope, kind)
	b.sharing(i, kind, &a)
	return a
}

// onlySizes refuses what a layer has of its own beside sizes of attention.
func (b *builder) onlySizes(own map[string]any) {
	for _, layer := range slices.Sorted(maps.Keys(own)) {
		of, ok := own[layer].(map[string]any)
		if !ok {
			b.refuse("per_layer_config %q is no object", layer)
		}
		for _, key := range slices.Sorted(maps.Keys(of)) {
			if key != "head_dim" && key != "num_key_value_heads" && key != "num_attention_heads" {
				b.refuse("per_layer_config gives layer %s a %s of its own", layer, key)
			}
		}
	}
}

// sharing says whose keys and values a layer uses: of the last layers, those of the
// last one before them that is of the same type.
func (b *builder) sharing(i int, kind string, a *Attention) {
	c, n := b.cfg, b.whole("num_kv_shared_layers", 0)
	first := c.Layers - n
	last := func(kind string, before int) int {
		k := before - 1
		for k >= 0 && c.LayerType(k) != kind {
			k--
		}
		return k
	}
	if i >= first {
		a.Borrows, a.KeyIsValue, a.ValueNorm, a.Lender = true, false, false, last(kind, first)
		if a.Lender < 0 {
			b.refuse("num_kv_shared_layers is %d of %d, and no layer of type %s before them has keys of its own", n, c.Layers, kind)
			return
		}
		if _, kv, dim := c.AttentionSizes(a.Lender); kv != a.KVHeads || dim != a.Dim {
			b.refuse("layer %d uses keys and values of layer %d, which has %d heads of %d channels in place of %d of %d", i, a.Lender, kv, dim, a.KVHeads, a.Dim)
		}
		return
	}
	if at := last(kind, c.Layers); at >= first && last(kind, first) == i {
		a.LendsTo = at
	}
}
