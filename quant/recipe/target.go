// Package recipe says which matrices of a checkpoint are to be quantized.
package recipe

import "quantscope/quant/topology"

// Matcher decides whether a name is a target.
type Matcher interface {
	Match(name string) bool
	String() string // as the user wrote it
}

// Excluded is a tensor or matrix that a pattern named and that is not quantized.
type Excluded struct {
	Name, Reason string
}

// Selection is what is to be quantized.
type Selection struct {
	Matrices    []topology.Matrix
	Description string // "default: routed experts", or the pattern
	Excluded    []Excluded
}

// ParseTarget reads one pattern.
func ParseTarget(pattern string) (Matcher, error) { return nil, nil }

// Select picks matrices of a model.
func Select(model *topology.Model, targets string) (Selection, error) { return Selection{}, nil }
