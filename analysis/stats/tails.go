package stats

import "math"

// FTail is P(F > f) of Fisher's F with d1 and d2 degrees of freedom, and its
// natural logarithm, which does not underflow. It is I_x(d2/2, d1/2) at
// x = d2/(d2 + d1·f) (Abramowitz and Stegun 26.6.2).
func FTail(f, d1, d2 float64) (p, logP float64) {
	if !(d1 > 0 && d2 > 0) || math.IsNaN(f) {
		return math.NaN(), math.NaN()
	}
	if f <= 0 {
		return 1, 0
	}
	if math.IsInf(f, 1) {
		return 0, math.Inf(-1)
	}
	x, y := betaArgument(f, d1, d2)
	logP, _ = logIncBeta(d2/2, d1/2, x, y)
	return math.Exp(logP), logP
}

// betaArgument is d2/(d2 + d1·f) and 1 less that, each with its own digits.
func betaArgument(f, d1, d2 float64) (x, y float64) {
	r := d1 * f / d2
	if r > 1 {
		r = 1 / r
		return r / (1 + r), 1 / (1 + r)
	}
	return 1 / (1 + r), r / (1 + r)
}

// ChiSquareTail is P(X > x) of a chi-square variable with df degrees of freedom,
// and its natural logarithm.
func ChiSquareTail(x, df float64) (p, logP float64) {
	if !(df > 0) || math.IsNaN(x) {
		return math.NaN(), math.NaN()
	}
	if x <= 0 {
		return 1, 0
	}
	_, logP = logIncGamma(df/2, x/2)
	return math.Exp(logP), logP
}

// StudentTail is P(T > t), one-sided, of Student's t with df degrees of freedom,
// and its natural logarithm. The two-sided p value is twice the tail of |t|.
func StudentTail(t, df float64) (p, logP float64) {
	if !(df > 0) || math.IsNaN(t) {
		return math.NaN(), math.NaN()
	}
	_, logP = FTail(t*t, 1, df) // of |T| > |t|
	if logP -= math.Ln2; t < 0 {
		logP = log1mExp(logP)
	}
	return math.Exp(logP), logP
}

// StudentQuantile is the t below which Student's t with df degrees of freedom
// lies with probability p, 0 < p < 1; NaN outside.
func StudentQuantile(p, df float64) float64 {
	if !(p > 0 && p < 1 && df > 0) {
		return math.NaN()
	}
	if p < 0.5 {
		return -StudentQuantile(1-p, df)
	}
	want := math.Log1p(-p)
	high := 1.0
	for {
		if _, at := StudentTail(high, df); at <= want || math.IsInf(high, 1) {
			break
		}
		high *= 2
	}
	return zero(0, high, 1e-14, func(t float64) float64 {
		_, at := StudentTail(t, df)
		return at - want
	})
}
