package stats

import "math"

// Moments are the mean, the variance with divisor n−1, the skewness m₃/m₂^1.5
// and the excess kurtosis m₄/m₂² − 3 (0 for a Gaussian) of the finite values, as
// scipy.stats.describe gives them. What does not exist is NaN: all of no values,
// the variance of one, skewness and kurtosis of values without variance.
func Moments(values []float64) (mean, variance, skewness, kurtosis float64) {
	x := make([]float64, 0, len(values))
	for _, v := range values {
		if isFinite(v) {
			x = append(x, v)
		}
	}
	mean, variance, skewness, kurtosis = meanOf(x), math.NaN(), math.NaN(), math.NaN()
	if len(x) < 2 {
		return
	}
	if constant(x) {
		return mean, 0, skewness, kurtosis
	}
	n, scale := float64(len(x)), spread(x, mean)
	var m2, m3, m4 float64
	for _, v := range x {
		d := (v - mean) / scale
		m2 += d * d
		m3 += d * d * d
		m4 += d * d * d * d
	}
	m2, m3, m4 = m2/n, m3/n, m4/n
	return mean, m2 * n / (n - 1) * scale * scale, m3 / math.Pow(m2, 1.5), m4/(m2*m2) - 3
}
