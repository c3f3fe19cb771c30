package kernels

import (
	"math"
	"math/rand/v2"
)

// Diagnosis is what a Hessian can say, and how much of a solution is its damping.
type Diagnosis struct {
	N         int     // columns
	Rank      int     // of the Hessian itself, to the rounding of its entries
	Dead      int     // columns whose diagonal is 0
	Cond      float64 // of the damped one, in the 2-norm, estimated
	Lambda    float64 // what was added to the diagonal
	DampShare float64 // λ·tr((H+λI)⁻¹)/n: 0 where the data decide alone, 1 where they say nothing
}

// rankTolerance is what an eigenvalue must be above, for each column, once the
// diagonal is 1: four times the rounding of f32.
const rankTolerance = 0x1p-22

// Of the trace of the inverse: exact up to so many columns, beyond them from so
// many random vectors.
const (
	exactTrace  = 512
	traceProbes = 2 * solveWidth
)

// Diagnose says how far a Hessian decides anything, under the damping of o; the
// order makes no difference to that. It costs about three factorizations;
// FactorizeDiagnosed gives the factor as well.
//
// Rank counts the eigenvalues above n·2⁻²² of H scaled to a diagonal of 1, which
// changes no rank and makes the roundings of all entries alike: they move
// eigenvalues by a few √n·2⁻²⁴. By Sylvester's law of inertia it is the number of
// positive pivots of the scaled H less that tolerance.
//
// Cond is the ratio of the extreme eigenvalues as Lanczos' method finds them
// from a fixed start, within some percent and from below. DampShare is exact up
// to 512 columns; beyond that it is Hutchinson's estimate from 32 fixed
// vectors of ±1, whose standard error is at most √(DampShare/(16·n)).
//
// Errors are those of Factorize.
func (s Set) Diagnose(h Dense, o FactorOptions) (Diagnosis, error) {
	_, d, err := s.FactorizeDiagnosed(h, o)
	return d, err
}

// FactorizeDiagnosed is Factorize and Diagnose at once, which saves one of the
// factorizations. The error is of both; a diagnosis of zeros says how many columns
// are dead.
func (s Set) FactorizeDiagnosed(h Dense, o FactorOptions) (*Factor, Diagnosis, error) {
	s = s.orReference()
	x, damp, err := o.checked(h)
	d := Diagnosis{N: h.Cols, Dead: h.Cols - x.live}
	if err != nil {
		return nil, d, err
	}
	threads := threadCount(o.Threads)
	t := newTriangle(d.N)
	d.Rank = s.rank(&x, t, threads)
	lambda, raised, err := s.damped(&x, t, o.Order, damp, threads)
	if err != nil {
		return nil, d, err
	}
	d.Lambda = lambda
	largest := lanczos(d.N, func(v []float64) { x.times(v, lambda, threads) })
	d.Cond = largest * lanczos(d.N, t.solve)
	d.DampShare = lambda * s.inverseTrace(t, threads) / float64(d.N)
	return newFactor(t, o.Order, lambda, raised, threads), d, nil
}

func (s Set) rank(x *hessian, t *triangle, threads int) (rank int) {
	scale := make([]float64, x.Cols)
	for i := range scale {
		scale[i] = math.Sqrt(x.at(i, i))
	}
	x.fill(t, nil, scale, -rankTolerance*float64(x.Cols), threads)
	if !s.factor.factor(t, math.Inf(-1), threads) {
		return 0
	}
	for _, d := range t.d {
		if d > 0 {
			rank++
		}
	}
	return rank
}

// times is v = (H+λI)·v.
func (h *hessian) times(v []float64, lambda float64, threads int) {
	const rows = 128
	tasks := ceilDiv(h.Cols, rows)
	// What the rows of a task give to their own elements and to those before.
	parts := make([][]float64, tasks)
	eachTask(threads, tasks, func(task int) {
		from, to := task*rows, min((task+1)*rows, h.Cols)
		part := make([]float64, to)
		for i := from; i < to; i++ {
			part[i] += lambda * v[i]
			if h.dead[i] {
				continue
			}
			row := h.Data[i*h.Stride:][:i+1]
			part[i] += h.rowTimes(row[:i], v, part, v[i]) + float64(row[i])*v[i]
		}
		parts[task] = part
	})
	clear(v)
	for _, part := range parts {
		for i, y := range part {
			v[i] += y
		}
	}
}

// rowTimes is ⟨row,v⟩, and adds x·row to sums. Dead columns count as 0.
func (h *hessian) rowTimes(row []float32, v, sums []float64, x float64) float64 {
	var s [2]float64
	if h.live < h.Cols {
		for c, y := range row {
			if !h.dead[c] {
				s[0] += float64(y) * v[c]
				sums[c] += float64(y) * x
			}
		}
		return s[0]
	}
	v, sums = v[:len(row)], sums[:len(row)]
	c := 0
	for ; c+1 < len(row); c += 2 {
		a, b := float64(row[c]), float64(row[c+1])
		s[0] += a * v[c]
		s[1] += b * v[c+1]
		sums[c] += a * x
		sums[c+1] += b * x
	}
	if c < len(row) {
		s[0] += float64(row[c]) * v[c]
		sums[c] += float64(row[c]) * x
	}
	return s[0] + s[1]
}

// inverseTrace is tr((M·D·Mᵀ)⁻¹) = Σ_k ‖row k of M⁻¹‖²/D_k.
func (s Set) inverseTrace(t *triangle, threads int) float64 {
	groups, exact := ceilDiv(t.n, solveWidth), true
	if t.n > exactTrace {
		groups, exact = traceProbes/solveWidth, false
	}
	sums := make([]float64, groups)
	eachTask(threads, groups, func(g int) {
		z, last := make([]float64, t.n*solveWidth), t.n
		if exact { // columns of the inverse
			last = min((g+1)*solveWidth, t.n)
			for i := g * solveWidth; i < last; i++ {
				z[i*solveWidth+i%solveWidth] = 1
			}
		} else {
			rng := rand.New(rand.NewPCG(uint64(g), 7))
			for i := range z {
				z[i] = float64(1 - 2*int(rng.Uint64()>>63))
			}
		}
		s.factor.solveUpper(t, z, last)
		for k, d := range t.d {
			for _, x := range z[k*solveWidth:][:solveWidth] {
				sums[g] += x * x / d
			}
		}
	})
	total := 0.0
	for _, x := range sums {
		total += x
	}
	if !exact {
		total /= traceProbes
	}
	return total
}
