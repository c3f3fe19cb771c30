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

// MedianInterval is an interval for the median of what values in ascending order
// are a sample of, whatever their distribution: the order statistics that a
// binomial with probability ½ leaves out with at most 1−level. Both ends are NaN
// where there are too few values, below six at 0.95.
func MedianInterval(sorted []float64, level float64) (low, high float64) {
	n := len(sorted)
	if n == 0 || !(level > 0 && level < 1) {
		return math.NaN(), math.NaN()
	}
	// out is how many order statistics may lie outside on either side.
	out, most := 0, n/2
	for out < most {
		if mid := out + (most-out)/2; binomialAtMost(mid, n, 0.5) <= (1-level)/2 {
			out = mid + 1
		} else {
			most = mid
		}
	}
	if out == 0 {
		return math.NaN(), math.NaN()
	}
	return sorted[out-1], sorted[n-out]
}
