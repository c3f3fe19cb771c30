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

// newBiasSums begins the sums of a record of a format with a codebook.
func newBiasSums(spec Spec) *biasSums {
	b := &biasSums{total: Bias{Codebook: spec.Codebook, L2: math.NaN(), Sym: math.NaN()}}
	if spec.Books.Known {
		b.total.L2, b.total.Sym = spec.Books.L2, spec.Books.Sym
	}
	return b
}

// biasSums are the running sums of a row, in the lanes that Σw² has in its format's
// record, which are added in the same order; q−w is rounded to f64. Rows are added in
// their order, so that it makes no difference how they come.
type biasSums struct {
	err, abs [8]float64
	total    Bias
}

func (b *biasSums) add(lane int, w, q float64) {
	b.err[lane] += q - w
	b.abs[lane] += math.Abs(w)
}

// addRun takes elements of a row from a column on that is a multiple of eight, and
// leaves out those that are not finite.
func (b *biasSums) addRun(w, q []float32) {
	for i, x := range w {
		if x-x == 0 {
			b.add(i&7, float64(x), float64(q[i]))
		}
	}
}

func (b *biasSums) endRow() {
	b.total.addRow(addLanes(&b.err), addLanes(&b.abs))
	b.err, b.abs = [8]float64{}, [8]float64{}
}

// addRow takes a row's Σ(q−w) and Σ|w| in.
func (b *Bias) addRow(err, abs float64) {
	b.SumErr += err
	b.SumAbsW += abs
	if abs == 0 {
		return
	}
	b.Rows++
	if err > 0 {
		b.Positive++
	}
	r := err / abs
	b.SumRow2 += float64(r * r)
	b.RowMax = max(b.RowMax, math.Abs(r))
}

// record puts what was summed into a record.
func (b *biasSums) record(t *Tap) {
	if b != nil {
		t.HasBias, t.Bias = true, b.total
	}
}
