package candidate

import (
	"fmt"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/codes"
)

// CodedWeight is a matrix of codes that calibration chose, as a factor that is
// decoded in panels by its format's own formula: the bits that an export of the
// codes decodes to. The codes are kept, not copied.
func CodedWeight(set kernels.Set, spec kernels.Spec, m *codes.Matrix) (model.Weight, error) {
	if m.Rows < 0 || m.Cols < 0 {
		return model.Weight{}, fmt.Errorf("candidate: %s: %d×%d: %w", m.Name, m.Rows, m.Cols, kernels.ErrShape)
	}
	spec.Codebook = m.Codebook
	c, err := newCoded(set, spec, m.Rows, m.Cols, 0, 0, m.Codes, m.Scales, m.Mins, m.Global)
	if err != nil {
		return model.Weight{}, fmt.Errorf("candidate: %s: %w", m.Name, err)
	}
	return c.weight(), nil
}
