package kernels

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrNeedsImportance is the answer to a method that weighs errors where nothing
// says how much each column counts.
var ErrNeedsImportance = errors.New("needs the importance of columns")

// imatrix is the method that weighs the error of each element by the importance
// of its column: parameters of a block are those with the least
// Σ importance·(w−q)².
const imatrix = "imatrix"

// Weighted lists the methods of a format that weigh errors, which BeginWeighted
// begins; none for a format that leaves nothing to weigh.
func Weighted(format string) []string {
	if q, ok := quantizers[format]; ok {
		return slices.Clone(q.weighted)
	}
	return nil
}

// BeginWeighted is Begin for a method that weighs errors: importance has a
// number for each column, its mean square over the calibration text, which is
// neither negative nor infinite. It is kept, not copied. Only ratios within a
// block matter; a block without any importance is taken as if all of its columns
// had the same.
func (s Set) BeginWeighted(spec Spec, e Element, rows, cols int, amax float32, importance []float32) (*Pass, error) {
	if err := checkImportance(importance, cols); err != nil {
		return nil, fmt.Errorf("%s: %w", spec.Format, err)
	}
	return s.begin(spec, e, rows, cols, amax, importance, true)
}

// ImportanceError names the first column whose importance is negative, infinite
// or no number.
type ImportanceError struct {
	Col   int
	Value float32
}

func (e *ImportanceError) Error() string {
	return fmt.Sprintf("the importance of column %d is %v, which is no mean square", e.Col, e.Value)
}

// checkImportance refuses what cannot weigh the columns of a matrix.
func checkImportance(importance []float32, cols int) error {
	if len(importance) != cols {
		return fmt.Errorf("the importance of %d columns for %d: %w", len(importance), cols, ErrShape)
	}
	for i, v := range importance {
		if !(v >= 0 && v <= math.MaxFloat32) {
			return &ImportanceError{i, v}
		}
	}
	return nil
}

// exponentLabels name the bins of Tap.Multipliers under imatrix of mxfp4: how
// many powers of two the scale is off the convention's own.
var exponentLabels = []string{"≤-14", "-13", "-12", "-11", "-10", "-9", "-8", "-7", "-6", "-5", "-4", "-3", "-2", "-1", "0", "+1"}

// stepRatioLabels name those of int4: the scale as a multiple of the one under
// rtn, to the nearest twentieth.
var stepRatioLabels = []string{"≤0.3", "0.35", "0.4", "0.45", "0.5", "0.55", "0.6", "0.65", "0.7", "0.75", "0.8", "0.85", "0.9", "0.95", "1.0", "≥1.05"}
