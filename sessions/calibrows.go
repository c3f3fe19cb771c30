package sessions

import (
	"context"
	"fmt"
	"math"
	"path/filepath"

	"quantscope/kernels"
	"quantscope/quant/codes"
)

// codes reads what a calibrated variant chose for a tensor: from the folder beside
// the session, or from where the session says.
func (j *jobCalibrator) codes(session, variant, folder, tensor string) (kernels.Spec, codes.Matrix, error) {
	v, err := j.o.variant(variant)
	if err != nil {
		return kernels.Spec{}, codes.Matrix{}, err
	}
	dir := folder
	if beside := codesOf(session, variant); codes.IsStore(beside) {
		dir = beside
	}
	if !codes.IsStore(dir) {
		return kernels.Spec{}, codes.Matrix{}, &CodesError{filepath.Clean(dir), "they are not there any more, and without them the errors of rows cannot be told"}
	}
	s, err := codes.Open(dir)
	if err != nil {
		return kernels.Spec{}, codes.Matrix{}, err
	}
	defer s.Close()
	m, err := s.Matrix(tensor)
	spec := v.Baseline().Spec
	spec.Codebook = m.Codebook
	if was := s.Manifest().Convention; err == nil && was != spec.Convention.String() {
		err = &CodesError{dir, fmt.Sprintf("they are by %s, not %v", was, spec.Convention)}
	}
	return spec, m, err
}

// calibratedRows are the relative l2 errors of a tensor's rows under a calibrated
// variant, from its codes. weights is the digest of what was measured.
func calibratedRows(ctx context.Context, job *Job, session, folder string, q Quantizer, tensor int, weights digest) ([]float64, error) {
	where := fmt.Sprintf("%s: tensor %q", job.Tensors[tensor].File, job.Tensors[tensor].Name)
	from, ok := job.calibrator.(codesReader)
	if !ok {
		return nil, fmt.Errorf("sessions: variant %s does not tell the errors of rows", q.Variant.Name)
	}
	spec, kept, err := from.codes(session, q.Variant.Name, folder, job.Tensors[tensor].Name)
	if err != nil {
		return nil, err
	}
	m, err := job.Source.Read(ctx, tensor, make([]byte, job.Source.Need(tensor)))
	if err != nil {
		return nil, err
	}
	if weights.differs(digestOf(m.Data, weights.sha != 0)) {
		return nil, fmt.Errorf("%s: %w", where, errWeightsChanged)
	}
	if len(kept.Codes) == 0 { // it stays as the checkpoint has it
		return make([]float64, m.Rows), nil
	}
	out := kernels.Output{Codes: kept.Codes, Scales: kept.Scales, Mins: kept.Mins, RowE2: make([]float64, m.Rows), RowW2: make([]float64, m.Rows)}
	if len(out.Mins) == 0 {
		out.Mins = nil
	}
	if _, err := kernels.Best().TapOf(spec, kernels.StoredOperand(m), &out, kept.Global, 1); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	errs := out.RowE2
	for r, e2 := range errs {
		if e2 != 0 {
			errs[r] = math.Sqrt(e2 / out.RowW2[r])
		}
	}
	return errs, ctx.Err()
}
