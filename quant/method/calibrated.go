package method

// Calibrated says whether the variant reads what goes into the matrix: second
// moments (imatrix) or a Hessian (gptq).
func (v Variant) Calibrated() bool { return v.Importance || v.GPTQ }
