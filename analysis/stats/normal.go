package stats

import "math"

// tailFrom is where the upper tail of the normal distribution is taken from its
// expansion instead of from math.Erfc. At erfc's argument 20 the first
// term left out of the expansion, 135135/(2·20²)⁷, is below 1e-15 of the
// value; erfc itself underflows at 27.2.
const tailFrom = 20 * math.Sqrt2

// NormalTail is P(Z > z) of a standard normal Z. It underflows to 0 beyond
// z = 38; LogNormalTail does not.
func NormalTail(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }

// LogNormalTail is the natural logarithm of P(Z > z).
//
// Far out it is the asymptotic series of the complementary error function,
// erfc(x) ≈ e^(−x²)/(x√π) · Σ (−1)ⁿ (2n−1)!!/(2x²)ⁿ (Abramowitz and Stegun
// 7.1.23).
func LogNormalTail(z float64) float64 {
	if math.IsNaN(z) {
		return math.NaN()
	}
	if z < tailFrom {
		return math.Log(NormalTail(z))
	}
	if math.IsInf(z, 1) {
		return math.Inf(-1)
	}
	x := z / math.Sqrt2
	u := 1 / (2 * x * x)
	sum, term := 1.0, 1.0
	for n := 1; n <= 6; n++ {
		term *= -float64(2*n-1) * u
		sum += term
	}
	return -z*z/2 - math.Log(2*x*math.Sqrt(math.Pi)) + math.Log(sum)
}
