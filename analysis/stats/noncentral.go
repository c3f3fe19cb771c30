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
	var weight, term float64
	for k, j := 0, last; ; k, j = k+1, j-1 {
		// Neighbours follow from one another; every so often, and where they are
		// about to underflow, they are taken anew.
		if k%64 == 0 || weight < 1e-280 || term < 1e-280 {
			weight, term = math.Exp(logWeight(j)), math.Exp(logTerm(j))
		} else {
			weight *= (j + 1) / half
			term *= (a + j + 1) / ((a + b + j) * y)
		}
		if k > 0 {
			beta += term
		}
		sum += weight * beta
		if j <= first {
			break
		}
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
	return zero(low, high, 1e-12, func(lambda float64) float64 { return NoncentralFCDF(f, d1, d2, lambda) - p })
}

// zero finds where f changes sign between low and high, within the relative
// tolerance, by inverse quadratic interpolation where that is safe and by halving
// elsewhere (Chandrupatla 1997).
func zero(low, high, relative float64, f func(float64) float64) float64 {
	a, b := high, low
	fa, fb := f(a), f(b)
	c, fc := a, fa
	t := 0.5
	for range 200 {
		x := a + t*(b-a)
		fx := f(x)
		if (fx > 0) == (fa > 0) {
			c, fc = a, fa
		} else {
			c, b, fc, fb = b, a, fb, fa
		}
		a, fa = x, fx
		best := a
		if math.Abs(fb) < math.Abs(fa) {
			best = b
		}
		near := relative * math.Abs(best) / math.Abs(b-a)
		if fa == 0 || near > 0.5 || a == b {
			return best
		}
		t = 0.5
		xi, phi := (a-b)/(c-b), (fa-fb)/(fc-fb)
		if phi*phi < xi && (1-phi)*(1-phi) < 1-xi {
			t = fa/(fb-fa)*fc/(fb-fc) + (c-a)/(b-a)*fa/(fc-fa)*fb/(fc-fb)
		}
		t = min(1-near, max(near, t))
	}
	return a
}
