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
	Streams       int     // residual streams side by side; 0 is one
	RawMTP        bool    // MTP layers are fed hidden states as they leave the last layer, before the final norm
	Hyper         *Hyper  // how streams are mixed; nil where there is one, which parts are added to
	Softcap       float32 // c of logits c·tanh(logits/c); 0: none
	PerLayer      *PerLayer
}

// Width is how many values a row of hidden states has: Hidden in each stream.
func (s *Spec) Width() int { return s.Hidden * max(s.Streams, 1) }

// Layer is one decoder layer:
//
//	x += [PostAttn](mixer(In(x)));  x += [PostMLP](mlp(PreMLP(x)))
//
// where a norm whose name is empty is left out. The mixer, which carries something
// from token to token, is Attn, or another where a field says so.
type Layer struct {
	Index                         int
	MTP                           bool
	In, PostAttn, PreMLP, PostMLP string // projections of the norms' roles
	Norm                          Norm
	Attn                          Attention
	Delta                         *Delta      // the mixer where there is one
	Compressed                    *Compressed // in place of Attn
	MLP                           FeedForward // of a dense layer
	MoE                           *MoE        // nil in a dense layer
	Beside                        *Beside     // in a layer of experts that has an MLP too
	Scalar                        bool        // in the end the hidden states are multiplied by layer_scalar
	Module                        Module      // of an MTP layer: what stands round it
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
	Gate           Gate     // what a head's output is multiplied by
	KeyIsValue     bool     // there is no v: it is k, before its norm and rotation
	ValueNorm      bool     // values are divided by their root mean square
	Borrows        bool     // there is no k and no v: those of layer Lender are used, as they are after norm and rotation
	Lender         int
	LendsTo        int // the last layer that uses those of this one; 0: none does
}

// Gate is what the outputs of heads are multiplied by before they are projected: σ
// of a map of the normed input.
type Gate uint8

// Gates.
const (
	NoGate      Gate = iota
	ChannelGate      // a factor a channel: q has Dim more rows a head, behind its query's
	HeadGate         // a factor a head: a projection g of its own
)

// LowRank is DeepSeek's multi-head latent attention: of a key's Dim channels
// the first Nope come from the latent of KV channels, the last Rope are shared by
// all heads and rotated.
type LowRank struct {
	Q          int // rank of the query; 0: one projection
	KV         int
	Nope, Rope int
	Norm       Norm // of the latents
}

// Activation is a gated activation: act(gate)·up in some form.
type Activation uint8

// Activations.
const (
	SiLU          Activation = iota // silu(gate)·up
	GELUTanh                        // gelu(gate)·up, by the tanh formula
	SwiGLUOAI                       // gate ≤ 7, |up| ≤ 7: gate·σ(1.702·gate)·(up+1)
	SiLUThenClamp                   // min(silu(gate), Limit)·clip(up, ±Limit)
	ClampThenSiLU                   // silu(min(gate, Limit))·clip(up, ±Limit)
)

// FeedForward is a gated MLP.
type FeedForward struct {
	Inner int
	Act   Activation
	Limit float32 // of the activations that clamp; 0: none
}

// MoE is a layer of routed experts.
type MoE struct {
	FeedForward
	Experts, TopK int
	Scores        Scores // what logits become
	Correction    string // the choice is by score plus this parameter of the router: e_score_correction_bias; "": it is by score
	ByToken       bool   // a table says which experts a token has; scores only weigh them
	Groups        int    // experts are chosen from the best TopGroups of so many groups; 1 is no groups
	TopGroups     int
	BestOfGroup   int     // a group is as good as so many of its experts together; 0 is two
	Normalize     bool    // weights are divided by their sum
	Scaling       float32 // what they are multiplied by then
	Shared        int     // inner width of the shared expert; 0: none
	SharedLimit   float32 // Limit of its activation
	SharedGate    bool    // its output is multiplied by σ of a map of the normed input to one value
	OwnNorm       bool    // the router reads x/RMS(x)·scale/√hidden of the hidden states x, scale being a parameter of it
	ExpertScale   bool    // weights are multiplied by per_expert_scale in the end
}

// Scores are what a router's logits become.
type Scores uint8

// Scores of routers.
const (
	SoftmaxScores Scores = iota // over all experts
	SigmoidScores
	SqrtSoftplusScores // √ln(1+eˣ)
)

// shared is the MLP that the shared expert is.
func (m *MoE) shared() FeedForward { return FeedForward{m.Shared, m.Act, m.SharedLimit} }

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
