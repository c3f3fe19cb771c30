package stats

import "math"

// NoncentralFCDF is P(F ≤ f) of the noncentral F with d1 and d2 degrees of
// freedom and noncentrality lambda: incomplete beta functions
// I_y(d1/2 + j, d2/2), weighed with the Poisson probabilities of j at lambda/2
// (Abramowitz and Stegun 26.6.18). The functions of all j come from the last
// one by the recurrence I_y(a, b) = I_y(a+1, b) + y^a (1−y)^b/(a·B(a, b)), which
// only adds (Benton and Krishnamoorthy 2003).
//
// It is NaN where a parameter is out of range; lambda may be up to 1e8.
func NoncentralFCDF(f, d1, d2, lambda float64) float64 {
	if !(d1 > 0 && d2 > 0 && lambda >= 0 && lambda <= 1e8) || math.IsInf(d1, 0) || math.IsInf(d2, 0) || math.IsNaN(f) {
		return math.NaN()
	}
	if f <= 0 {
		return 0
	}
	if math.IsInf(f, 1) {
		return 1
	}
	x, y := betaArgument(f, d1, d2)
	a, b, half := d1/2, d2/2, lambda/2

	// Weights further than ten deviations and a bit from their mean are below 1e-20.
	reach := 10*math.Sqrt(half) + 40
	first, last := math.Max(0, math.Floor(half-reach)), math.Ceil(half+reach)
	logTerm := func(j float64) float64 {
		return (a+j)*logOf(y, x) + b*logOf(x, y) - math.Log(a+j) - logBeta(a+j, b)
	}
	logWeight := func(j float64) float64 {
		if half == 0 {
			if j == 0 {
				return 0
			}
			return math.Inf(-1)
		}
		return j*math.Log(half) - half - logGamma(j+1)
	}
	low, _ := logIncBeta(a+last, b, y, x)
	beta, sum := math.Exp(low), 0.0
	for j := last; ; j-- {
		sum += math.Exp(logWeight(j)) * beta
		if j <= first {
			break
		}
		beta += math.Exp(logTerm(j - 1))
	}
	return min(1, sum)
}

// noncentrality is the lambda for which NoncentralFCDF(f, d1, d2, lambda) is p:
// an end of the interval for lambda by inversion (Steiger and Fouladi 1997). It
// is 0 where even lambda 0 gives less than p, NaN where the answer is out of reach.
func noncentrality(f, d1, d2, p float64) float64 {
	if !(NoncentralFCDF(f, d1, d2, 0) > p) {
		return 0
	}
	low, high := 0.0, d1*f+4*math.Sqrt(d1)+4
	for NoncentralFCDF(f, d1, d2, high) > p {
		if low, high = high, 2*high; high > 1e8 {
			return math.NaN()
		}
	}
	for range 100 {
		mid := low + (high-low)/2
		if mid <= low || mid >= high || high-low <= 1e-12*high {
			break
		}
		if NoncentralFCDF(f, d1, d2, mid) > p {
			low = mid
		} else {
			high = mid
		}
	}
	return low + (high-low)/2
}
