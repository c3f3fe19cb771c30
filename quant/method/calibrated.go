package method

import "errors"

// ErrNeedsCalibration is the answer to a variant that reads inputs where only
// weights are: nothing else is made in its place.
var ErrNeedsCalibration = errors.New("needs calibration")

// Calibrated says whether the variant reads what goes into the matrix: second
// moments (imatrix) or a Hessian (gptq).
func (v Variant) Calibrated() bool { return v.Importance || v.GPTQ }

// NeedsHessian says whether second moments are not enough.
func (v Variant) NeedsHessian() bool { return v.GPTQ }

// Baseline is what the variant would be without inputs: the same scheme and the
// same chooser, or the scheme's plain one where imatrix chose. The convention
// stays, and so does a global scale. That of a variant without calibration is
// the variant itself.
func (v Variant) Baseline() Variant {
	if !v.Calibrated() {
		return v
	}
	b := v
	b.Importance, b.GPTQ, b.ActOrder = false, false, false
	if b.Spec.Method == imatrix {
		b.Spec.Method = ""
	}
	b.settle()
	return b
}
