package model

import (
	"strings"

	"quantscope/quant/topology"
)

// buildQwen3Next is qwen3_next, qwen3_5 and qwen3_5_moe: layers of gated delta rule,
// every few layers one of full attention with a gate a channel; norms by 1+w, but for
// the one behind the delta rule; dense layers or softmax experts with a shared one,
// which has a gate. In text the three positions of a multimodal rope are one.
func buildQwen3Next(b *builder) error {
	b.spec.Norm = b.norm(1e-6, true)
	if b.computes("attn_output_gate"); !b.flag("attn_output_gate", true) {
		b.refuse("attn_output_gate is false, which is not computed here")
	}
	c := *b.cfg
	if b.cfg = &c; c.Text["partial_rotary_factor"] == nil && b.ropeSection("")["partial_rotary_factor"] == nil {
		c.Rope.Partial = 0.25 // as transformers has it
	}
	next := strings.HasPrefix(c.TextModelType, "qwen3_next")
	layer := func(i int) Layer {
		l := b.plain(b.grouped(i))
		l.Attn.QKNorm, l.Attn.Gate = true, ChannelGate
		moe, known := c.MoELayer(i)
		if moe = moe || !known && c.Experts > 0; i >= c.Layers {
			moe = b.routes(i) // of MTP layers configs say nothing
		} else {
			l.Delta = b.delta(i, next)
		}
		if moe {
			l.MoE = b.sharedMoE(next)
		}
		return l
	}
	b.layers(layer)
	if b.mtp(layer); len(b.spec.MTP) > 1 {
		b.refuse("%d MTP layers are stored, and one is known of %s", len(b.spec.MTP), c.TextModelType)
	}
	for i := range b.spec.MTP {
		b.spec.MTP[i].Module = SharedModule
	}
	return nil
}

// delta is a layer's delta rule; nil in one of full attention.
func (b *builder) delta(i int, grouped bool) *Delta {
	switch kind := b.cfg.LayerType(i); kind {
	case topology.FullAttention:
		return nil
	case topology.LinearAttention:
		d := &Delta{Taps: b.cfg.Linear.Taps, Grouped: grouped}
		s := b.cfg.Linear
		d.KeyHeads, d.ValueHeads, d.KeyDim, d.ValueDim = s.KeyHeads, s.ValueHeads, s.KeyDim, s.ValueDim
		return d
	case "":
		b.refuse("layer %d: config.json gives neither layer_types nor full_attention_interval", i)
		return nil
	default:
		b.refuse("layer %d: layer type %q is not known; known are %s and %s", i, kind, topology.FullAttention, topology.LinearAttention)
		return nil
	}
}

// routes says whether a layer has a router, by what is stored.
func (b *builder) routes(layer int) bool {
	for _, r := range b.model.Roles {
		if r.Kind == topology.Router && r.Layer == layer && r.Projection == "" {
			return true
		}
	}
	return false
}

// sharedMoE is softmax experts with a shared one behind a gate. qwen3_next's configs
// say whether weights are divided by their sum; its successors always do.
func (b *builder) sharedMoE(says bool) *MoE {
	c := b.cfg
	m := &MoE{
		FeedForward: FeedForward{Inner: c.MoEIntermediate, Act: b.act()}, Experts: c.Experts, TopK: c.TopK,
		Groups: 1, TopGroups: 1, Normalize: true, Scaling: 1, Shared: int(b.real("shared_expert_intermediate_size", 512)),
	}
	m.SharedGate = m.Shared > 0
	if says {
		m.Normalize = b.flag("norm_topk_prob", true)
	}
	return m
}
