package model

import (
	"fmt"

	"quantscope/quant/topology"
)

// Spec is an architecture, in the numbers that a forward pass needs. It is not
// changed once made.
type Spec struct {
	Family        string
	Hidden, Vocab int
	MaxPositions  int
	Layers        []Layer
	MTP           []Layer // multi-token-prediction layers, in order
	Norm          Norm    // the final one
	EmbedScale    float32 // what embeddings are multiplied by
	Tied          bool    // the head is the embedding
}

// Layer is one decoder layer:
//
//	x += [PostAttn](attention(In(x)));  x += [PostMLP](mlp(PreMLP(x)))
//
// where a norm whose name is empty is left out.
type Layer struct {
	Index                         int
	MTP                           bool
	In, PostAttn, PreMLP, PostMLP string // projections of the norms' roles
	Norm                          Norm
	Attn                          Attention
	MLP                           FeedForward // of a dense layer
	MoE                           *MoE        // nil in a dense layer
}

// Norm is a root-mean-square norm: x/√(mean(x²)+Eps)·w, or ·(1+w).
type Norm struct {
	Eps     float64
	PlusOne bool
}

// Attention is causal self-attention with grouped keys and values, or DeepSeek's
// low-rank one.
type Attention struct {
	Heads, KVHeads int
	Dim            int     // of a query and a key
	VDim           int     // of a value
	Scale          float32 // of scores
	Window         int     // how many tokens a token sees, itself included; 0 is all before it
	QKNorm         bool    // a norm over each head's query and key, before the rotation
	Sinks          bool    // one logit more a head, which takes part in the softmax and has no value
	Rope           Rope
	LowRank        *LowRank // nil: q, k and v are projections of their own
}

// LowRank is DeepSeek's multi-head latent attention: of a key's Dim channels
// the first Nope come from the latent of KV channels, the last Rope are shared by
// all heads and rotated.
type LowRank struct {
	Q          int // rank of the query; 0: one projection
	KV         int
	Nope, Rope int
}

// Activation is a gated activation: act(gate)·up in some form.
type Activation uint8

// Activations.
const (
	SiLU      Activation = iota // silu(gate)·up
	GELUTanh                    // gelu(gate)·up, by the tanh formula
	SwiGLUOAI                   // gate ≤ 7, |up| ≤ 7: gate·σ(1.702·gate)·(up+1)
)

// FeedForward is a gated MLP.
type FeedForward struct {
	Inner int
	Act   Activation
}

// MoE is a layer of routed experts.
type MoE struct {
	FeedForward
	Experts, TopK int
	Sigmoid       bool // scores are σ(logits), else a softmax over all experts
	Correction    bool // the choice is by score plus e_score_correction_bias
	Groups        int  // experts are chosen from the best TopGroups of so many groups; 1 is no groups
	TopGroups     int
	Normalize     bool    // weights are divided by their sum
	Scaling       float32 // what they are multiplied by then
	Shared        int     // inner width of the shared expert; 0: none
}

// Place names a tensor by what it is in the model.
type Place struct {
	Kind       topology.Kind
	Layer      int // -1 outside layers
	Expert     int // -1 where there is none
	Projection string
}

// String is a place as people name it: layer 3 expert 7 up.
func (p Place) String() string {
	s := p.Kind.String()
	if p.Layer >= 0 {
		s = fmt.Sprintf("layer %d %s", p.Layer, s)
	}
	if p.Expert >= 0 {
		s = fmt.Sprintf("%s %d", s, p.Expert)
	}
	if p.Projection != "" {
		s += " " + p.Projection
	}
	return s
}
