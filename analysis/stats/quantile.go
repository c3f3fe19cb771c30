package stats

import "math"

// Quantile is the q-quantile, 0 ≤ q ≤ 1, of values in ascending order, by
// linear interpolation between the two neighbours of q·(n−1) (definition 7 of
// Hyndman and Fan 1996, numpy's default). It is NaN where there are no values
// or q is outside its range.
func Quantile(sorted []float64, q float64) float64 {
	n := len(sorted)
	if n == 0 || !(q >= 0 && q <= 1) {
		return math.NaN()
	}
	at := q * float64(n-1)
	i := int(at)
	if i >= n-1 {
		return sorted[n-1]
	}
	lo, hi, f := sorted[i], sorted[i+1], at-float64(i)
	// From the nearer end, so that the ends themselves come out exactly.
	if f < 0.5 {
		return lo + (hi-lo)*f
	}
	return hi - (hi-lo)*(1-f)
}
