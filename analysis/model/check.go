package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
)

// arithmetic are keys of configs that ask for another computation than this
// package does, in families that it knows otherwise, with the value that does not;
// nil where every value does.
var arithmetic = map[string]any{
	"attn_logit_softcapping": 0.0, "final_logit_softcapping": 0.0, "use_bidirectional_attention": false,
	"attention_chunk_size": nil, "no_rope_layers": nil, "clip_qkv": nil, "use_parallel_residual": false, "parallel_attn": false,
	"embedding_multiplier": 1.0, "residual_multiplier": 1.0, "attention_multiplier": nil, "logits_scaling": 1.0, "logit_scale": 1.0,
	"attn_output_gate": false, "use_alibi": false, "alibi": false,
}

// computes says that the family does what keys of arithmetic ask for.
func (b *builder) computes(keys ...string) {
	if b.done == nil {
		b.done = map[string]bool{}
	}
	for _, key := range keys {
		b.done[key] = true
	}
}

// unsupported refuses keys that change what is computed. null is as if the key
// was not there.
func (b *builder) unsupported() {
	if _, list := b.cfg.Text["rope_theta"].([]any); list && !b.done["rope_theta"] {
		b.refuse("rope_theta is a list, which is not computed here")
	}
	for _, key := range slices.Sorted(maps.Keys(arithmetic)) {
		if b.done[key] {
			continue
		}
		v, neutral := b.cfg.Text[key], arithmetic[key]
		if n, ok := v.(json.Number); ok && neutral != nil {
			v = number(n)
		}
		if list, ok := v.([]any); v != nil && (ok || v != neutral) {
			if ok {
				v = fmt.Sprintf("a list of %d", len(list))
			}
			b.refuse("%s is %v, which is not computed here", key, v)
		}
	}
}

// maxWidth bounds every size of a layer, so that products of three of them fit.
const maxWidth = 1 << 20

// check refuses sizes that a pass cannot work with. Errors name layer and size.
func (s *Spec) check() error {
	c := &checker{}
	c.size("hidden_size", s.Hidden, 1)
	c.size("vocab_size", s.Vocab, 1)
	c.norm(s.Norm)
	if p := s.PerLayer; p != nil {
		c.size("hidden_size_per_layer_input", p.Dim, 1)
		c.size("num_hidden_layers·hidden_size_per_layer_input", len(s.Layers)*p.Dim, 1)
		c.size("vocab_size_per_layer_input", p.Vocab, s.Vocab)
	}
	if !(s.Softcap >= 0) || math.IsInf(float64(s.Softcap), 0) {
		c.refuse("final_logit_softcapping is %g", s.Softcap)
	}
	if s.Hyper != nil {
		s.Hyper.check(c, s.Streams)
	}
	for _, layers := range [][]Layer{s.Layers, s.MTP} {
		for i := range layers {
			l := &layers[i]
			c.where = fmt.Sprintf("layer %d: ", l.Index)
			c.norm(l.Norm)
			l.mixer().check(c)
			if l.MoE != nil && l.MoE.ByToken {
				c.size("vocab_size·num_experts_per_tok", s.Vocab*l.MoE.TopK, 1)
			}
			if l.MoE == nil || l.Beside != nil {
				c.size("intermediate_size", l.MLP.Inner, 1)
			}
			if l.MoE == nil {
				continue
			}
			c.moe(l.MoE)
		}
	}
	return c.err
}

// checker keeps the first error.
type checker struct {
	where string
	err   error
}

func (c *checker) refuse(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s%s", ErrArchitecture, c.where, fmt.Sprintf(format, args...))
	}
}

func (c *checker) size(name string, n, least int) {
	if n < least || n > maxWidth {
		c.refuse("%s is %d, want %d to %d", name, n, least, maxWidth)
	}
}

func (c *checker) norm(n Norm) {
	if !(n.Eps >= 0) || math.IsInf(n.Eps, 0) {
		c.refuse("rms_norm_eps is %g", n.Eps)
	}
}

func (a *Attention) check(c *checker) {
	c.size("num_attention_heads", a.Heads, 1)
	c.size("num_key_value_heads", a.KVHeads, 1)
	c.size("head_dim", a.Dim, 1)
	c.size("v_head_dim", a.VDim, 1)
	if c.err != nil {
		return
	}
	c.size("num_attention_heads·head_dim", a.Heads*a.Dim, 1)
	c.size("num_attention_heads·v_head_dim", a.Heads*a.VDim, 1)
	if a.Heads%a.KVHeads != 0 {
		c.refuse("%d heads are no multiple of %d key and value heads", a.Heads, a.KVHeads)
	}
	within := a.Dim
	if r := a.LowRank; r != nil {
		c.size("kv_lora_rank", r.KV, 1)
		c.size("q_lora_rank", r.Q, 0)
		if r.Nope < 0 || r.Rope < 0 || r.Nope+r.Rope != a.Dim {
			c.refuse("qk_nope_head_dim %d and qk_rope_head_dim %d do not make up %d channels", r.Nope, r.Rope, a.Dim)
		}
		c.norm(r.Norm)
		within = r.Rope
	}
	if a.Rope.Dim < 2 || a.Rope.Dim%2 != 0 || a.Rope.Dim > within {
		c.refuse("%d rotary channels of %d", a.Rope.Dim, within)
	}
	if !(a.Rope.Theta > 0) || math.IsInf(a.Rope.Theta, 0) {
		c.refuse("rope_theta is %g", a.Rope.Theta)
	}
	if a.Window < 0 {
		c.refuse("sliding_window is %d", a.Window)
	}
	if a.Gate != NoGate && a.LowRank != nil || a.Gate > HeadGate {
		c.refuse("a gate of kind %d", a.Gate)
	}
	if a.Borrows && (a.LowRank != nil || a.LendsTo > 0) {
		c.refuse("keys and values of layer %d that cannot be its own", a.Lender)
	}
	if a.KeyIsValue && (a.LowRank != nil || a.Dim != a.VDim) {
		c.refuse("values of %d channels that are keys of %d", a.VDim, a.Dim)
	}
}

func (c *checker) moe(m *MoE) {
	c.size("moe_intermediate_size", m.Inner, 1)
	c.size("width of the shared expert", m.Shared, 0)
	if m.SharedGate && m.Shared == 0 {
		c.refuse("a gate of a shared expert that is not there")
	}
	c.size("number of experts", m.Experts, 1)
	if m.TopK < 1 || m.TopK > m.Experts {
		c.refuse("num_experts_per_tok is %d of %d experts", m.TopK, m.Experts)
	}
	switch {
	case m.Groups < 1 || m.Experts%m.Groups != 0:
		c.refuse("%d experts in %d groups", m.Experts, m.Groups)
	case m.BestOfGroup < 0:
		c.refuse("groups as good as their best %d experts", m.BestOfGroup)
	case m.TopGroups < 1 || m.TopGroups > m.Groups:
		c.refuse("topk_group is %d of %d groups", m.TopGroups, m.Groups)
	case m.TopK > m.TopGroups*(m.Experts/m.Groups):
		c.refuse("num_experts_per_tok is %d, and %d groups of %d experts have fewer", m.TopK, m.TopGroups, m.Experts/m.Groups)
	}
}
