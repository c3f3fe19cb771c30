package model

import (
	"encoding/json"
	"maps"
	"math"

	"quantscope/quant/topology"
)

// step3p5, the text decoder of Step-3.5 and Step-3.7: norms by 1+w, heads and ropes by
// layer type, a gate a head, activations that are clamped after silu in some layers,
// sigmoid scores with a bias for the choice and one shared expert. MTP layers are fed
// hidden states before the final norm, as StepFun's own code for vLLM and SGLang does it
// and llama.cpp; transformers' generic module feeds them after it.
func buildStep(b *builder) error {
	b.spec.Norm, b.spec.RawMTP = b.norm(1e-5, true), true
	b.stepStated()
	b.stepRopes()
	bias := b.stepBias()
	layer := func(i int) Layer {
		l := b.plain(b.stepAttention(i))
		shared := b.limit("swiglu_limits_shared", i)
		l.MLP.Act, l.MLP.Limit = SiLUThenClamp, shared
		if moe, _ := b.cfg.MoELayer(i); moe {
			l.MoE = &MoE{
				FeedForward: FeedForward{Inner: b.cfg.MoEIntermediate, Act: SiLUThenClamp, Limit: b.limit("swiglu_limits", i)},
				Experts:     b.cfg.Experts, TopK: b.cfg.TopK, Scores: SigmoidScores, Correction: bias, Groups: 1, TopGroups: 1, Normalize: true,
				Scaling: float32(b.real("moe_router_scaling_factor", 1)), Shared: b.whole("share_expert_dim", b.whole("share_expert_dims", 0)), SharedLimit: shared,
			}
		}
		return l
	}
	b.layers(layer)
	b.mtp(layer)
	return nil
}

// stepStated refuses what Step's configs have words for and this package does not
// compute, or of which its peers make different things.
func (b *builder) stepStated() {
	if b.cfg.Text["layer_types"] == nil { // vLLM lets every second layer slide then, transformers none
		b.refuse("config.json gives no layer_types")
	}
	if b.act() != SiLU {
		b.refuse("hidden_act is %s", b.word("hidden_act"))
	}
	b.only("moe_router_activation", "sigmoid")
	b.only("att_impl_type", "GQA")
	for _, key := range []string{"norm_expert_weight", "zero_centered", "use_qk_norm"} {
		if !b.flag(key, true) {
			b.refuse("%s is false, which is not computed here", key)
		}
	}
	if v, ok := b.cfg.Text["gating"]; ok && v != nil && v != true && v != "per-head" {
		b.refuse("gating is %v; known are true and per-head", v)
	}
	if v := b.cfg.Text["sparse_attention_config"]; v != nil {
		b.refuse("sparse_attention_config is not computed here")
	}
	for i, v := range b.list("use_rope_layers") {
		if v != true && number(v) != 1 {
			b.refuse("use_rope_layers: layer %d has no rope, which is not computed here", i)
		}
	}
	if b.cfg.Text["yarn_only_types"] != nil {
		if types := b.list("yarn_only_types"); len(types) != 1 || types[0] != fullAttention {
			b.refuse("yarn_only_types is %v; known is %s alone", types, fullAttention)
		}
	}
}

// stepBias is the name of the bias for the choice of experts: the release's, or
// transformers' where the checkpoint has that.
func (b *builder) stepBias() string {
	if !b.flag("use_moe_router_bias", true) {
		return ""
	}
	const ours = "e_score_correction_bias"
	for _, r := range b.model.Roles {
		if r.Kind == topology.Router && r.Param == ours {
			return ours
		}
	}
	return "router_bias"
}

// stepType is the type of a layer, an MTP layer's too, which must be known.
func (b *builder) stepType(i int) string {
	t := b.cfg.LayerType(i)
	switch t {
	case slidingAttention, fullAttention:
	case "":
		b.refuse("layer_types says nothing of layer %d", i)
	default:
		b.refuse("layer type %q is not known", t)
	}
	return t
}

func (b *builder) stepAttention(i int) Attention {
	t := b.stepType(i)
	heads, kv, dim := b.cfg.AttentionSizes(i)
	rope := b.cfg.RopeByType[t]
	scalar := b.real("query_pre_attn_scalar", float64(b.cfg.HeadDim))
	if !(scalar > 0) {
		b.refuse("query_pre_attn_scalar is %g", scalar)
	}
	a := Attention{
		Heads: heads, KVHeads: kv, Dim: dim, VDim: dim, Scale: float32(1 / math.Sqrt(scalar)), QKNorm: true,
		Rope: b.rope(int(float64(dim)*rope.Partial), rope, t),
	}
	if b.flag("use_head_wise_attn_gate", true) {
		a.Gate = HeadGate
	}
	if t == slidingAttention {
		a.Window = b.slides(i, 0)
	}
	return a
}

// stepRopes brings the release's spelling, rope_theta and partial_rotary_factors a layer
// and one rope_scaling, to a rope a layer type. Only layers with full attention are
// scaled.
func (b *builder) stepRopes() {
	c := b.cfg
	b.computes("rope_theta")
	if len(c.RopeByType) > 0 {
		return
	}
	own := map[string]topology.Rope{}
	sections := map[string]any{}
	for i := range c.Layers + b.model.MTPLayers {
		t := b.stepType(i)
		r := topology.Rope{Theta: b.at("rope_theta", i, 10000), Partial: b.at("partial_rotary_factors", i, 1)}
		if !(r.Theta > 0) || !(r.Partial > 0 && r.Partial <= 1) {
			b.refuse("layer %d: rope_theta is %g and partial_rotary_factors %g", i, r.Theta, r.Partial)
		}
		if t == fullAttention {
			r.Type, r.Factor, r.OriginalMax = c.Rope.Type, c.Rope.Factor, c.Rope.OriginalMax
		}
		if before, ok := own[t]; ok && before != r {
			b.refuse("rope_theta and partial_rotary_factors: %s layers differ, layer %d has %g and %g, one before it %g and %g", t, i, r.Theta, r.Partial, before.Theta, before.Partial)
		}
		own[t], sections[t] = r, map[string]any{}
	}
	if s := b.ropeSection(""); s != nil && sections[fullAttention] != nil {
		sections[fullAttention] = s
	}
	cfg := *c
	cfg.RopeByType, cfg.Text = own, maps.Clone(c.Text)
	cfg.Text["rope_parameters"] = sections
	b.cfg = &cfg
}

// list is a list of the text config; nil where there is none.
func (b *builder) list(key string) []any {
	switch v := b.cfg.Text[key].(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	b.refuse("%s is no list", key)
	return nil
}

// at is a layer's number in a list of one a layer, MTP layers numbered on, or the number
// of all layers.
func (b *builder) at(key string, layer int, otherwise float64) float64 {
	if _, ok := b.cfg.Text[key].([]any); !ok {
		return b.real(key, otherwise)
	}
	list := b.list(key)
	if layer < len(list) {
		if n, ok := list[layer].(json.Number); ok {
			return number(n)
		}
	}
	b.refuse("%s says nothing of layer %d", key, layer)
	return otherwise
}

// limit is what a layer's activation is clamped at; 0 where it is not. MTP layers may
// be left out.
func (b *builder) limit(key string, layer int) float32 {
	list := b.list(key)
	if list == nil || layer < len(list) && list[layer] == nil || layer >= len(list) && layer >= b.cfg.Layers {
		return 0
	}
	l := b.at(key, layer, 0)
	if !(l >= 0) || math.IsInf(l, 0) {
		b.refuse("%s: %g in layer %d", key, l, layer)
	}
	return float32(l)
}
