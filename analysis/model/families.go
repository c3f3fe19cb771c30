package model

import (
	"maps"
	"math"

	"quantscope/quant/topology"
)

// The names of norms as topology's roles spell them.
const (
	inputNorm    = "input_layernorm"
	postAttnNorm = "post_attention_layernorm"
	preMLPNorm   = "pre_feedforward_layernorm"
	postMLPNorm  = "post_feedforward_layernorm"
)

// Layer types as configs spell them.
const (
	slidingAttention = "sliding_attention"
	fullAttention    = "full_attention"
)

// plain is a layer with a norm before attention and one before the MLP.
func (b *builder) plain(a Attention) Layer {
	return Layer{
		In: inputNorm, PreMLP: postAttnNorm, Norm: b.spec.Norm, Attn: a,
		MLP: FeedForward{Inner: b.cfg.Intermediate, Act: b.act()},
	}
}

// llama, mistral, qwen2: biases are taken where they are stored.
func buildLlama(b *builder) error {
	b.spec.Norm = b.norm(1e-6, false)
	sliding := int(b.real("sliding_window", 0))
	if b.cfg.TextModelType == "qwen2" && !b.flag("use_sliding_window", false) {
		sliding = 0
	}
	from := int(b.real("max_window_layers", 0)) // of qwen2: layers from here on slide
	b.layers(func(i int) Layer {
		l := b.plain(b.grouped(i))
		switch {
		case b.layerType(i) != "":
			l.Attn.Window = b.window(i)
		case sliding > 0 && (b.cfg.TextModelType != "qwen2" || i >= from):
			l.Attn.Window = sliding
		}
		return l
	})
	return nil
}

// qwen3 and qwen3_moe: a norm over each head's query and key.
func buildQwen3(b *builder) error {
	b.spec.Norm = b.norm(1e-6, false)
	if b.flag("use_sliding_window", false) && b.layerType(0) == "" {
		b.refuse("use_sliding_window without layer_types")
	}
	b.layers(func(i int) Layer {
		l := b.plain(b.grouped(i))
		l.Attn.QKNorm = true
		l.Attn.Window = b.window(i)
		if moe, known := b.cfg.MoELayer(i); moe || !known && b.cfg.Experts > 0 {
			l.MoE = &MoE{
				FeedForward: FeedForward{Inner: b.cfg.MoEIntermediate, Act: b.act()}, Experts: b.cfg.Experts, TopK: b.cfg.TopK,
				Groups: 1, TopGroups: 1, Normalize: b.flag("norm_topk_prob", false), Scaling: 1,
			}
		}
		return l
	})
	return nil
}

// mixtral: every layer is an MoE layer.
func buildMixtral(b *builder) error {
	b.spec.Norm = b.norm(1e-5, false)
	b.layers(func(i int) Layer {
		l := b.plain(b.grouped(i))
		l.Attn.Window = int(b.real("sliding_window", 0))
		l.MoE = &MoE{
			FeedForward: FeedForward{Inner: b.cfg.MoEIntermediate, Act: b.act()}, Experts: b.cfg.Experts, TopK: b.cfg.TopK,
			Groups: 1, TopGroups: 1, Normalize: true, Scaling: 1,
		}
		return l
	})
	return nil
}

// sigmoidMoE is the router of DeepSeek-V3 and GLM-4: sigmoid scores, a bias that
// takes part in the choice only, groups.
func (b *builder) sigmoidMoE() *MoE {
	c := b.cfg
	return &MoE{
		FeedForward: FeedForward{Inner: c.MoEIntermediate, Act: b.act()}, Experts: c.Experts, TopK: c.TopK,
		Scores: SigmoidScores, Correction: "e_score_correction_bias",
		Groups: int(b.real("n_group", 1)), TopGroups: int(b.real("topk_group", 1)),
		Normalize: b.flag("norm_topk_prob", true), Scaling: float32(b.real("routed_scaling_factor", 1)),
		Shared: c.SharedExperts * c.MoEIntermediate,
	}
}

// glm4_moe: partial rotation by halves, a norm of q and k where use_qk_norm.
func buildGLM4MoE(b *builder) error {
	b.spec.Norm = b.norm(1e-5, false)
	dense := int(b.real("first_k_dense_replace", 0))
	layer := func(i int) Layer {
		l := b.plain(b.grouped(i))
		l.Attn.QKNorm = b.flag("use_qk_norm", false)
		if i >= dense {
			l.MoE = b.sigmoidMoE()
		}
		return l
	}
	b.layers(layer)
	b.mtp(layer)
	return nil
}

// gemma3: norms by 1+w before and after, embeddings times √hidden, sliding and
// full layers with ropes of their own.
func buildGemma3(b *builder) error {
	b.spec.Norm = b.norm(1e-6, true)
	b.spec.EmbedScale = float32(math.Sqrt(float64(b.cfg.Hidden)))
	b.byTurns(6)
	if len(b.cfg.RopeByType) == 0 { // the first configs: rope_theta is that of full layers
		full := b.cfg.Rope
		if full.Theta == 0 {
			full.Theta = 1e6
		}
		cfg := *b.cfg
		cfg.RopeByType = map[string]topology.Rope{
			fullAttention: full, slidingAttention: {Theta: b.real("rope_local_base_freq", 10000), Partial: full.Partial},
		}
		b.cfg = &cfg
	}
	scalar := b.real("query_pre_attn_scalar", float64(b.cfg.HeadDim))
	b.layers(func(i int) Layer {
		l := b.plain(b.grouped(i))
		l.PostAttn, l.PreMLP, l.PostMLP = postAttnNorm, preMLPNorm, postMLPNorm
		l.Attn.QKNorm, l.Attn.Window = true, b.window(i)
		l.Attn.Scale = float32(1 / math.Sqrt(scalar))
		return l
	})
	return nil
}

// gpt_oss: sinks, biases everywhere, experts with a clamped activation.
func buildGPTOSS(b *builder) error {
	b.spec.Norm = b.norm(1e-5, false)
	if l := b.real("swiglu_limit", 7); l != 7 {
		b.refuse("swiglu_limit is %g", l)
	}
	b.byTurns(2)
	b.layers(func(i int) Layer {
		l := b.plain(b.grouped(i))
		l.Attn.Sinks, l.Attn.Window = true, b.window(i)
		// The softmax over the chosen experts alone is that over all, divided by its
		// sum over the chosen.
		l.MoE = &MoE{
			FeedForward: FeedForward{Inner: b.cfg.MoEIntermediate, Act: SwiGLUOAI}, Experts: b.cfg.Experts, TopK: b.cfg.TopK,
			Groups: 1, TopGroups: 1, Normalize: true, Scaling: 1,
		}
		return l
	})
	return nil
}

// byTurns gives a config without layer_types those that transformers takes then: of
// every so many layers the last one sees all.
func (b *builder) byTurns(period int) {
	if b.cfg.Text["layer_types"] != nil {
		return
	}
	if p := b.real("sliding_window_pattern", float64(period)); p >= 1 && p == math.Trunc(p) && p <= math.MaxInt32 {
		period = int(p)
	} else {
		b.refuse("sliding_window_pattern is %g", p)
	}
	types := make([]any, b.cfg.Layers)
	for i := range types {
		if types[i] = slidingAttention; (i+1)%period == 0 {
			types[i] = fullAttention
		}
	}
	cfg := *b.cfg
	cfg.Text = maps.Clone(cfg.Text)
	cfg.Text["layer_types"] = types
	b.cfg = &cfg
}

// ropeNumber is a number of the rope section; 0 where there is none.
func (b *builder) ropeNumber(key string) float64 {
	return number(b.ropeSection("")[key])
}
