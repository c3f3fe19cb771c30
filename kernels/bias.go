package kernels

import "math"

// Bias is whether the errors of a matrix have a sign: what a codebook that leans to
// one side does, whatever its squared error. Sums are f64 over finite source elements
// w and their dequantized values q.
type Bias struct {
	SumErr, SumAbsW float64 // Σ(q−w), Σ|w|
	Rows            int64   // rows with a w that is not 0
	Positive        int64   // of these, rows with Σ(q−w) > 0
	SumRow2         float64 // Σ over these rows of (Σ(q−w)/Σ|w|)²
	RowMax          float64 // the largest |Σ(q−w)/Σ|w|| of a row

	Codebook uint16 // mask of codes, see Spec.Codebook
	// Least possible Σ(w−q)²/Σw² of each kind, weighed as the choice was: of all
	// codebooks, and of those that are ±a, ±b, whichever was chosen; NaN where it is
	// not known.
	L2, Sym float64
}

// Value is the sign bias: mean of q−w over mean |w|; 0 of a matrix of zeros.
func (b *Bias) Value() float64 {
	if b.SumAbsW == 0 {
		return 0
	}
	return b.SumErr / b.SumAbsW
}

// RowRMS is the root mean square of the rows' sign biases; 0 without rows.
func (b *Bias) RowRMS() float64 {
	if b.Rows == 0 {
		return 0
	}
	return math.Sqrt(b.SumRow2 / float64(b.Rows))
}
