package model

import "math"

// latentEps is the ε of the norms of DeepSeek's latents, whatever rms_norm_eps says: the
// releases' code and transformers leave it at what it is without a word.
const latentEps = 1e-6

// latent is DeepSeek's latent attention. Scores are scaled by the square of the
// factor of a stretched rope for all dimensions.
func (b *builder) latent(interleaved bool) Attention {
	c := b.cfg
	for _, s := range []struct {
		key string
		n   int
	}{{"kv_lora_rank", c.KVLoRA}, {"qk_nope_head_dim", c.QKNope}, {"qk_rope_head_dim", c.QKRope}, {"v_head_dim", c.VHeadDim}} {
		if s.n <= 0 {
			b.refuse("config.json gives no %s", s.key)
		}
	}
	dim := c.QKNope + c.QKRope
	rope := b.rope(c.QKRope, c.Rope, "")
	rope.Interleaved = interleaved
	scale := 1 / math.Sqrt(float64(max(dim, 1)))
	if rope.Kind != RopePlain {
		if all := b.ropeNumber("mscale_all_dim"); all > 0 {
			m := yarnScale(rope.Factor, all)
			scale *= m * m
		}
	}
	return Attention{
		Heads: c.Heads, KVHeads: c.Heads, Dim: dim, VDim: c.VHeadDim, Scale: float32(scale), Rope: rope,
		LowRank: &LowRank{Q: c.QLoRA, KV: c.KVLoRA, Nope: c.QKNope, Rope: c.QKRope, Norm: Norm{Eps: latentEps}},
	}
}

// deepseek_v3: sigmoid scores and a bias for the choice.
func buildDeepSeekV3(b *builder) error {
	b.spec.Norm = b.norm(1e-6, false)
	dense := int(b.real("first_k_dense_replace", 0))
	if freq := int(b.real("moe_layer_freq", 1)); freq != 1 {
		b.refuse("moe_layer_freq is %d", freq)
	}
	b.only("topk_method", "noaux_tc")
	b.only("scoring_func", "sigmoid")
	layer := func(i int) Layer {
		l := b.plain(b.latent(b.flag("rope_interleave", true)))
		if i >= dense {
			l.MoE = b.sigmoidMoE()
		}
		return l
	}
	b.layers(layer)
	b.mtp(layer)
	return nil
}

// deepseek_v2: a softmax over all experts, whose probabilities are the weights as
// they are. Keys of losses (seq_aux, aux_loss_alpha) say nothing of what is computed.
func buildDeepSeekV2(b *builder) error {
	c := b.cfg
	b.spec.Norm = b.norm(1e-6, false)
	b.only("scoring_func", "softmax")
	b.only("topk_method", "greedy", "group_limited_greedy")
	if b.flag("norm_topk_prob", false) { // the release's code divides then and does not scale, transformers neither
		b.refuse("norm_topk_prob is true, of which DeepSeek-V2's code and transformers make different weights")
	}
	groups, best := 1, 1
	if b.word("topk_method") == "group_limited_greedy" {
		groups, best = int(b.real("n_group", 1)), int(b.real("topk_group", 1))
	}
	scaling := float32(b.real("routed_scaling_factor", 1))
	b.layers(func(i int) Layer {
		l := b.plain(b.latent(true))
		if moe, known := c.MoELayer(i); moe || !known && c.Experts > 0 {
			l.MoE = &MoE{
				FeedForward: FeedForward{Inner: c.MoEIntermediate, Act: b.act()}, Experts: c.Experts, TopK: c.TopK,
				Groups: groups, TopGroups: best, BestOfGroup: 1, Scaling: scaling, Shared: c.SharedExperts * c.MoEIntermediate,
			}
		}
		return l
	})
	return nil
}
