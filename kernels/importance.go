package kernels

// BeginWeighted is Begin for a method that weighs errors: importance has a
// number for each column, its mean square over the calibration text, which is
// neither negative nor infinite. It is kept, not copied.
func (s Set) BeginWeighted(spec Spec, e Element, rows, cols int, amax float32, importance []float32) (*Pass, error) {
	return nil, errNotYet
}
