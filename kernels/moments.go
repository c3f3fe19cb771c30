package kernels

import "math"

// Moments are power sums over the finite elements of a matrix in f64. Those of
// a matrix that comes in chunks of whole rows are the same bits however it is
// cut: see momentsRowRef for the order within a row; rows are added in order.
type Moments struct {
	SumW, SumW3, SumW4 float64 // Σw, Σw³, Σw⁴
}

// momentLanes is how many running sums a row has.
const momentLanes = 16

// rowMoments are Σw, Σw³ and Σw⁴ of a row.
type rowMoments [3]float64

// momentsRowRef is the definition of the sums of a row: element c enters lane
// c mod 16, and the lanes are added in halves (see laneTree). The square of an f32 is exact in
// f64; a product with it is added without being rounded by itself (math.FMA). An element that is
// not finite enters nothing. Nothing overflows: the fourth power of
// the largest f32 is 1.4e154, and none becomes subnormal.
func momentsRowRef(e Element, row []byte) (sums rowMoments) {
	var lanes [3][momentLanes]float64
	size := e.Size()
	for c := 0; len(row) >= size; c, row = (c+1)%momentLanes, row[size:] {
		x := float64(loadElement(e, row))
		if math.IsNaN(x) || math.IsInf(x, 0) {
			continue
		}
		x2 := x * x
		lanes[0][c] += x
		lanes[1][c] = math.FMA(x2, x, lanes[1][c])
		lanes[2][c] = math.FMA(x2, x2, lanes[2][c])
	}
	for i := range sums {
		sums[i] = laneTree(lanes[i])
	}
	return sums
}

// laneTree adds lanes i and i+8, of these i and i+4, then i and i+2, then the
// last two.
func laneTree(lanes [momentLanes]float64) float64 {
	for half := momentLanes / 2; half > 0; half /= 2 {
		for i := range half {
			lanes[i] += lanes[i+half]
		}
	}
	return lanes[0]
}

// momentsRef are the sums of len(rows) rows of cols elements, cols > 0.
func momentsRef(e Element, cols int, data []byte, rows []rowMoments) {
	n := cols * e.Size()
	for r := range rows {
		rows[r] = momentsRowRef(e, data[r*n:(r+1)*n])
	}
}

// momentRows is how many rows go through a kernel at a time.
const momentRows = 128

// Moments adds the rows of m, which follow on those that were added before.
func (s Set) Moments(m Matrix, sums *Moments) error {
	if err := m.check(); err != nil {
		return err
	}
	if m.Cols == 0 {
		return nil
	}
	s = s.orReference()
	var buf [momentRows]rowMoments
	rowBytes := m.Cols * m.Element.Size()
	for from := 0; from < m.Rows; from += momentRows {
		rows := buf[:min(momentRows, m.Rows-from)]
		s.moments(m.Element, m.Cols, m.Data[from*rowBytes:][:len(rows)*rowBytes], rows)
		for i := range rows {
			sums.SumW += rows[i][0]
			sums.SumW3 += rows[i][1]
			sums.SumW4 += rows[i][2]
		}
	}
	return nil
}

// SetMoments puts the power sums of the source into the record.
func (t *Tap) SetMoments(m Moments) {
	t.HasMoments = true
	t.SumW, t.SumW3, t.SumW4 = m.SumW, m.SumW3, m.SumW4
}

// finite is the number of finite elements.
func (t *Tap) finite() float64 { return float64(t.Elements - t.NaN - t.Inf) }

// Mean is that of the finite source weights; NaN where there are none or
// their sums are not known.
func (t *Tap) Mean() float64 {
	if !t.HasMoments || t.finite() <= 0 {
		return math.NaN()
	}
	return t.SumW / t.finite()
}

// Std is the standard deviation of the finite source weights about their mean,
// m₂ = Σ(w−μ)²/n under the root (numpy's default, no n−1); NaN where there are
// none or their sums are not known.
//
// It comes from power sums, m₂ = Σw²/n − μ². Each of the n terms of a sum is off
// by less than n·u of the sum of magnitudes, u = 2⁻⁵³, so m₂ is off by
// at most (n+4)·u·(Σw²/n + 3μ²): (n+4)·u of itself times 1 + 4·μ²/m₂. Where m₂ is
// not beyond that it cannot be told from 0, and Std is 0. Weights have |μ| far
// below their deviation, so that this takes no digits from them.
func (t *Tap) Std() float64 {
	m2, _ := t.secondMoment()
	return math.Sqrt(m2)
}

// secondMoment is m₂ and what it may be off by; 0 where it is not beyond that.
func (t *Tap) secondMoment() (m2, bound float64) {
	mean := t.Mean()
	if math.IsNaN(mean) {
		return mean, mean
	}
	n, square := t.finite(), mean*mean
	m2 = t.SumW2/n - square
	bound = (n + 4) * unitF64 * (t.SumW2/n + 3*square)
	if m2 <= bound {
		return 0, bound
	}
	return m2, bound
}

// unitF64 is the rounding unit of f64.
const unitF64 = 1.0 / (1 << 53)

// Kurtosis is m₄/m₂², the fourth over the squared second central moment of the
// finite source weights: 3 for a Gaussian, 1.8 for a uniform distribution, the larger the heavier the
// tails. It is NaN where their sums are not known, where the
// deviation is 0, and where cancellation leaves no digit of it.
//
// m₄ = Σw⁴/n − 4μΣw³/n + 6μ²Σw²/n − 3μ⁴ is off by at most (n+8)·u times the sum of
// the four magnitudes and what an error of μ adds to them, which
// twice that sum bounds; (|μ|/√m₂)⁴·n·u of m₄ in short.
func (t *Tap) Kurtosis() float64 {
	m2, _ := t.secondMoment()
	if math.IsNaN(m2) || m2 == 0 {
		return math.NaN()
	}
	n, mean := t.finite(), t.Mean()
	square := mean * mean
	a, b, c, d := t.SumW4/n, 4*mean*(t.SumW3/n), 6*square*(t.SumW2/n), 3*square*square
	m4 := a - b + c - d
	// Σ|w|³/n is at most the geometric mean of Σw² and Σw⁴ over n.
	magnitudes := a + 4*math.Abs(mean)*math.Sqrt(a*(t.SumW2/n)) + c + d
	if m4 <= 2*(n+8)*unitF64*magnitudes {
		return math.NaN()
	}
	return m4 / m2 / m2
}
