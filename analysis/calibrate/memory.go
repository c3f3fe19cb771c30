package calibrate

import (
	"quantscope/analysis/model"
)

// Load is what a run's memory is predicted for.
type Load struct {
	Rows    int64   // tokens of all chunks
	Chunk   int     // of the longest
	Threads int     // 0: all processors
	Bits    float64 // that a stored weight takes at most, scales included; 0: 16
	// Wants are the inputs of a layer that are measured; nil measures none. A nil
	// layer is the head.
	Wants func(l *model.Layer) []Want
	// Beside is what the caller takes for an input of n columns beside its moments,
	// for as long as it has them: factors, weights, codes; of all that a wave has it
	// is taken once. nil: nothing.
	Beside func(n int) int64
}

// Part is one of the things that take memory.
type Part struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Budget is how a run stays within its memory.
type Budget struct {
	Need    int64  // that the run takes, as it is shared out; not more than it may
	Parts   []Part // of Need, the largest first
	Moments int64  // for CollectOptions.Mem
	Wave    int64  // for model.WalkOptions
	Tile    int    // for model.WalkOptions
}

// MemoryError says that a run does not fit, and what takes most. It unwraps to a
// *model.MemoryError.
type MemoryError struct {
	Need, Have int64
	Parts      []Part // of Need, the largest first
}

func (e *MemoryError) Error() string { return "memory" }

// Unwrap gives the figures alone.
func (e *MemoryError) Unwrap() error { return &model.MemoryError{Need: e.Need, Have: e.Have} }

// Predict shares mem bytes out among hidden states, a layer's weights, what a look
// computes in, and moments, as many at a time as then fit: *MemoryError where not
// even the largest Hessian does alone.
func Predict(s *model.Spec, l Load, mem int64) (Budget, error) { return Budget{}, errNotYet }
