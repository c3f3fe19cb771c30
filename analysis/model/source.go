package model

import (
	"context"
	"errors"

	"quantscope/kernels"
)

// ErrAbsent is wrapped by a Source's error about a tensor that it does not have.
var ErrAbsent = errors.New("is not there")

// Weight is one linear map, outputs by inputs, as a factor of a product that is
// expanded in panels.
type Weight struct {
	Rows, Cols int
	Operand    kernels.Operand
	Codebook   uint16 // of one in four values times scales, as kernels.Codebook reads it; 0: it is none, or nobody knows
}

// Source gives the weights of one candidate. A Source is used by one pass at a
// time, from one goroutine; the operands it gives are used by many.
type Source interface {
	// Weight reads a matrix. What it returns is valid until Release.
	Weight(ctx context.Context, p Place) (Weight, error)
	// Vector reads a norm, a bias or another small tensor as f32; param is the
	// role's: weight, bias, e_score_correction_bias. ErrAbsent where there is none.
	Vector(ctx context.Context, p Place, param string) ([]float32, error)
	// Rows reads rows of a matrix (of embeddings) into dst, row after row.
	Rows(ctx context.Context, p Place, rows []int32, dst []float32) error
	// Has says whether a matrix or vector is there, without reading it.
	Has(p Place, param string) bool
	// Release gives back what Weight returned since the last one.
	Release()
}

// Origins is a Source that knows where its weights come from, so that what
// several candidates have in common is read and computed once. An origin is
// comparable; equal origins, even of two Sources, stand for the same bits. nil is
// an origin that is not known and equals no other.
type Origins interface {
	// LayerOrigin is that of all tensors of a layer together, norms and biases too;
	// -1 is all that stands before them: the embedding, and what goes with it, see
	// Embeds.
	LayerOrigin(layer int) any
	// WeightOrigin is that of one matrix, which Weight gives.
	WeightOrigin(p Place) any
}

// Forker is a Source that can be read ahead: while one handle's weights are at
// work, another's are read.
type Forker interface {
	// Fork is another handle on the same weights, with memory of its own: what it
	// returns is valid until its own Release, and it is used from one goroutine, not
	// always the same, beside the others. It is closed with the source. It is nil
	// where there can be no other. Whoever embeds a Forker has its Fork, and must
	// give its own.
	Fork() Source
}
