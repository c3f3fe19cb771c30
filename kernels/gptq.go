package kernels

import "errors"

// FactorOptions are how a Hessian is factored.
type FactorOptions struct {
	Damp    float64 // of the mean of the diagonal, which is added to it; 0 stands for 0.01
	Order   []int   // of the columns; nil: as they are
	Threads int     // 0 is GOMAXPROCS
}

// Factor is a damped Hessian, H + λI, taken apart for GPTQ.
type Factor struct {
	n      int
	lambda float64
}

// Diagnosis is what a Hessian can say, and how much of a solution is its damping.
type Diagnosis struct {
	N         int     // columns
	Rank      int     // of the Hessian itself, to the rounding of its entries
	Dead      int     // columns whose diagonal is 0
	Cond      float64 // of the damped one, in the 2-norm, estimated
	Lambda    float64 // what was added to the diagonal
	DampShare float64 // λ·tr((H+λI)⁻¹)/n: 0 where the data decide alone, 1 where they say nothing
}

// HessianError names the first entry of a Hessian that is not finite, or a
// diagonal that is negative.
type HessianError struct {
	Row, Col int
	Value    float32
}

func (e *HessianError) Error() string { return "hessian" }

var errNotYet = errors.New("is not there yet")

// Factorize factors H + λI. H is n×n and symmetric; only its lower triangle is
// read. A column whose diagonal is 0 has no influence and takes none.
func (s Set) Factorize(h Dense, o FactorOptions) (*Factor, error) { return nil, errNotYet }

// Lambda is what was added to the diagonal.
func (f *Factor) Lambda() float64 { return f.lambda }

// Diagnose says how far a Hessian decides anything, under the damping of o.
func (s Set) Diagnose(h Dense, o FactorOptions) (Diagnosis, error) { return Diagnosis{}, errNotYet }

// GPTQOptions are how codes are chosen.
type GPTQOptions struct {
	Spec Spec // its Method chooses the parameters of a group
	// Importance are the second moments of the columns, for the method imatrix.
	Importance []float32
	Amax       float32 // of the whole matrix, or of those that share a global scale, where Spec.NeedsAmax
	// Static groups take their parameters from the weights as they are, all before
	// the first column; else from the weights that earlier errors moved. A factor
	// with an order needs them.
	Static  bool
	Threads int
}

// GPTQResult is what became of a matrix.
type GPTQResult struct {
	Global float32 // as Pass.Global
	Tap    Tap     // of the weights against what the codes decode to
	OutE2  float64 // tr((W−Q)·H·(W−Q)ᵀ), without the damping
}

// GPTQ chooses the codes of w, rows×n, so that the output error under the
// Hessian is small; out has the lengths of Pass.Sizes for all rows.
func (s Set) GPTQ(w Operand, f *Factor, o GPTQOptions, out *Output) (GPTQResult, error) {
	return GPTQResult{}, errNotYet
}

// OutputError is tr((W−Q)·H·(W−Q)ᵀ) and tr(W·H·Wᵀ) over the rows named; nil: all.
func (s Set) OutputError(h Dense, w, q Operand, rows []int, threads int) (e2, w2 float64, err error) {
	return 0, 0, errNotYet
}

// TapOf is the tap record of codes that are there already: what a Pass would
// have recorded had it chosen them.
func (s Set) TapOf(spec Spec, w Operand, out *Output, global float32, threads int) (Tap, error) {
	return Tap{}, errNotYet
}
