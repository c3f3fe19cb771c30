package model

import (
	"encoding/json"
	"math"

	"quantscope/quant/topology"
)

// What transformers takes where a config of deepseek_v4 does not say.
const (
	v4Streams, v4Rounds, v4HashLayers    = 4, 20, 3
	v4HeadDim, v4QRank, v4Rotary         = 512, 1024, 64
	v4Window, v4Groups, v4Rank           = 128, 8, 1024
	v4IndexHeads, v4IndexDim, v4IndexTop = 64, 128, 512
	v4Limit, v4Scaling, v4CompressTheta  = 10, 1.5, 160000
)

// deepseek_v4: residual streams that are mixed, attention over a window and compressed
// entries, experts by the root of softplus or by a table of tokens.
func buildDeepSeekV4(b *builder) error {
	s, c := b.spec, b.cfg
	s.Norm = b.norm(1e-6, false)
	s.RawMTP = true
	s.Streams = b.whole("hc_mult", v4Streams)
	s.Hyper = &Hyper{Rounds: b.whole("hc_sinkhorn_iters", v4Rounds), Eps: b.real("hc_eps", 1e-6)}
	b.refuseOthers("scoring_func", "sqrtsoftplus")
	b.refuseOthers("topk_method", "noaux_tc")
	if !b.flag("norm_topk_prob", true) {
		b.refuse("norm_topk_prob is false, and every peer divides by the sum")
	}
	if c.KVHeads != 1 {
		b.refuse("num_key_value_heads is %d; the family has one head of keys", c.KVHeads)
	}
	if b.act() != SiLU {
		b.refuse("hidden_act is not silu")
	}
	if n := b.whole("n_shared_experts", 1); n != 1 {
		b.refuse("n_shared_experts is %d; peers compute one", n)
	}
	limit := b.real("swiglu_limit", v4Limit)
	if !(limit > 0) {
		b.refuse("swiglu_limit is %g", limit)
	}
	correction := b.correction()
	layer := func(i int) Layer {
		l := Layer{In: "attn_norm", PreMLP: "ffn_norm", Norm: s.Norm, Compressed: b.compressed(i)}
		l.MoE = &MoE{
			FeedForward: FeedForward{Inner: c.MoEIntermediate, Act: ClampThenSiLU, Limit: float32(limit)},
			Experts:     c.Experts, TopK: c.TopK, Scores: SqrtSoftplusScores, Groups: 1, TopGroups: 1,
			Normalize: true, Scaling: float32(b.real("routed_scaling_factor", v4Scaling)),
			Shared: c.MoEIntermediate, SharedLimit: float32(limit),
		}
		if l.MoE.ByToken = b.byToken(i); !l.MoE.ByToken {
			l.MoE.Correction = correction
		}
		return l
	}
	b.layers(layer)
	b.mtp(func(i int) Layer {
		l := layer(i)
		l.Module = StreamsModule
		return l
	})
	return nil
}

// refuseOthers refuses a word that is given and is not the one that is known.
func (b *builder) refuseOthers(key, known string) {
	if w := b.word(key); w != "" && w != known {
		b.refuse("%s %q is not known; known is %s", key, w, known)
	}
}

// correction is what a checkpoint calls the router's parameter that has a part in the
// choice: bias in the releases, another name in what transformers saves.
func (b *builder) correction() string {
	for _, r := range b.model.Roles {
		if r.Kind == topology.Router && r.Param == "bias" {
			return "bias"
		}
	}
	return "e_score_correction_bias"
}

// byToken says whether a table of tokens chooses a layer's experts.
func (b *builder) byToken(i int) bool {
	types, given := b.cfg.Text["mlp_layer_types"].([]any)
	if !given || i >= len(types) {
		return !given && i < min(b.whole("num_hash_layers", v4HashLayers), b.cfg.Layers)
	}
	switch types[i] {
	case "hash_moe":
		return true
	case "moe":
	default:
		b.refuse("mlp_layer_types: %v is not known; known are hash_moe and moe", types[i])
	}
	return false
}

// compressed is the attention of a layer, an MTP layer's too.
func (b *builder) compressed(i int) *Compressed {
	c := b.cfg
	a := &Compressed{
		Heads: c.Heads, Dim: b.whole("head_dim", v4HeadDim), QRank: b.whole("q_lora_rank", v4QRank),
		Window: b.whole("sliding_window", v4Window), Groups: b.whole("o_groups", v4Groups), Rank: b.whole("o_lora_rank", v4Rank),
	}
	a.Scale = float32(1 / math.Sqrt(float64(max(a.Dim, 1))))
	kind := "compress"
	switch t := c.LayerType(i); {
	case t == topology.HeavilyCompressed:
		a.Rate = c.CompressRate(i)
	case t == topology.CompressedSparse:
		a.Rate = c.CompressRate(i)
		a.Indexer = &Indexer{Heads: b.whole("index_n_heads", v4IndexHeads), Dim: b.whole("index_head_dim", v4IndexDim), TopK: b.whole("index_topk", v4IndexTop)}
	case t == topology.SlidingAttention, t == "" && i >= c.Layers:
		kind = "main"
	default:
		b.refuse("layer type %q of layer %d is not known", t, i)
	}
	a.Rope = b.ropeOf(kind, a.Dim)
	return a
}

// ropeOf is one of the two ropes: of layers with a window alone, and of those with
// compressed entries, whose base is another and which alone are stretched. Cosine and
// sine have no factor unless one is given.
func (b *builder) ropeOf(kind string, dim int) Rope {
	from, nested := b.cfg.RopeByType[kind]
	section := b.ropeSection(kind)
	if !nested {
		from = b.cfg.Rope
		if kind == "main" {
			from = topology.Rope{Theta: b.real("rope_theta", 10000)}
		} else {
			from.Theta = b.real("compress_rope_theta", v4CompressTheta)
		}
	}
	rotary := b.whole("qk_rope_head_dim", 0)
	if rotary == 0 {
		partial := b.real("partial_rotary_factor", float64(v4Rotary)/v4HeadDim)
		if n, ok := section["partial_rotary_factor"].(json.Number); ok && nested {
			partial = number(n)
		}
		rotary = int(partial * float64(dim))
	}
	layerType := ""
	if nested {
		layerType = kind
	}
	r := b.rope(rotary, from, layerType)
	r.Interleaved = true
	if r.Attention = 1; r.Kind == RopeYarn {
		if f := number(section["attention_factor"]); f > 0 {
			r.Attention = f
		}
	}
	if kind == "main" && !nested {
		r.LowFreq, r.HighFreq, r.BetaFast, r.BetaSlow = 1, 4, 32, 1
	}
	return r
}
