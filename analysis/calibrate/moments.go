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
	Sum2 []float64     // Σx² of each column, in f64 and in the order of the tokens
	H    kernels.Dense // Σ x·xᵀ, N×N, by SYRK of all rows at once; empty where it was not asked for, and where no token was seen
}

// Counts are how many tokens each expert of a layer was given, of how many.
type Counts struct {
	Layer  int     `json:"layer"`
	MTP    bool    `json:"mtp,omitempty"`
	Tokens int64   `json:"tokens"`
	TopK   int     `json:"topK"`
	Expert []int64 `json:"expert"`
}
