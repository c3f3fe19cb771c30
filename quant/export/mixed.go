package export

import (
	"errors"

	"quantscope/quant/checkpoint"
	"quantscope/quant/method"
	"quantscope/quant/topology"
)

// NewMixedPlan is NewPlan of a selection in which matrices are stored in different
// ways: of[i] is the index in variants of selection[i]'s. Layouts that can declare but
// one scheme refuse more of them by name.
func NewMixedPlan(ck *checkpoint.Checkpoint, model *topology.Model, selection []topology.Matrix, variants []method.Variant, of []int, s Settings) (*Plan, error) {
	return nil, errors.New("export: not there")
}
