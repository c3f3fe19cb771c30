package stats

import "math"

// tolerance is where series and continued fractions stop, relative to their sum.
const tolerance = 1e-16

// maxTerms bounds series and continued fractions. Both need about √a terms at
// their worst, so this is enough for a million degrees of freedom many times over.
const maxTerms = 200_000

// logGamma is ln Γ(x) for x > 0.
func logGamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}

// stirlingRest is ln Γ(x) less its leading terms (x−½)·ln x − x + ½·ln 2π, for
// x ≥ 10 (Abramowitz and Stegun 6.1.40). Differences of ln Γ at large arguments
// lose digits that differences of the leading terms, put together by hand, keep.
func stirlingRest(x float64) float64 {
	u := 1 / (x * x)
	return (1.0/12 - u*(1.0/360-u*(1.0/1260-u*(1.0/1680-u*(1.0/1188-u*(691.0/360360-u/156)))))) / x
}

// logBeta is ln B(a, b) = ln Γ(a) + ln Γ(b) − ln Γ(a+b) for positive arguments.
func logBeta(a, b float64) float64 {
	if a > b {
		a, b = b, a
	}
	s := a + b
	switch {
	case a >= 10:
		return math.Log(2*math.Pi/b)/2 + (a-0.5)*math.Log(a/s) + b*math.Log1p(-a/s) +
			stirlingRest(a) + stirlingRest(b) - stirlingRest(s)
	case b >= 10:
		// ln Γ(b) − ln Γ(s): only a stays as a full logarithm of Γ.
		return logGamma(a) + (b-0.5)*math.Log1p(-a/s) - a*math.Log(s) + a + stirlingRest(b) - stirlingRest(s)
	}
	return logGamma(a) + logGamma(b) - logGamma(s)
}

// logIncBeta is the logarithm of the regularized incomplete beta function
// I_x(a, b) and that of its complement I_y(b, a), for y = 1 − x, both given so
// that neither loses its digits. Positive a and b; x in [0, 1].
//
// It is the continued fraction of Abramowitz and Stegun 26.5.8 where that
// converges fast, at x < (a+1)/(a+b+2), and the complement elsewhere.
func logIncBeta(a, b, x, y float64) (lower, upper float64) {
	switch {
	case !(a > 0 && b > 0 && x >= 0 && y >= 0) || math.IsInf(a, 0) || math.IsInf(b, 0):
		return math.NaN(), math.NaN()
	case x == 0:
		return math.Inf(-1), 0
	case y == 0:
		return 0, math.Inf(-1)
	case x > (a+1)/(a+b+2):
		upper, lower = logIncBeta(b, a, y, x)
		return lower, upper
	}
	front := a*logOf(x, y) + b*logOf(y, x) - logBeta(a, b) - math.Log(a)
	lower = min(0, front+math.Log(betaFraction(a, b, x)))
	return lower, log1mExp(lower)
}

// logOf is ln x where x + y = 1, from the smaller of the two.
func logOf(x, y float64) float64 {
	if y < x {
		return math.Log1p(-y)
	}
	return math.Log(x)
}

// log1mExp is ln(1 − e^v) for v ≤ 0.
func log1mExp(v float64) float64 {
	if v > -math.Ln2 {
		return math.Log(-math.Expm1(v))
	}
	return math.Log1p(-math.Exp(v))
}

// betaFraction evaluates the continued fraction of the incomplete beta function
// by Lentz's method.
func betaFraction(a, b, x float64) float64 {
	f := lentz{tiny: 1e-300}
	f.start(1)
	for m := 0; m < maxTerms; m++ {
		k := float64(m)
		if m > 0 {
			f.step(k*(b-k)*x/((a+2*k-1)*(a+2*k)), 1)
		}
		if f.step(-(a+k)*(a+b+k)*x/((a+2*k)*(a+2*k+1)), 1) {
			return 1 / f.value
		}
	}
	return math.NaN()
}

// lentz evaluates b₀ + a₁/(b₁ + a₂/(b₂ + …)) from the front (Lentz 1976, with
// the guard of Thompson and Barnett 1986 against a zero denominator).
type lentz struct {
	tiny, value, c, d float64
}

func (l *lentz) start(b float64) {
	if b == 0 {
		b = l.tiny
	}
	l.value, l.c, l.d = b, b, 0
}

// step takes in the next pair and says whether the value stands still.
func (l *lentz) step(a, b float64) bool {
	if l.d = b + a*l.d; l.d == 0 {
		l.d = l.tiny
	}
	if l.c = b + a/l.c; l.c == 0 {
		l.c = l.tiny
	}
	l.d = 1 / l.d
	delta := l.c * l.d
	l.value *= delta
	return math.Abs(delta-1) <= tolerance
}

// logIncGamma is the logarithm of the regularized incomplete gamma functions
// P(a, x) and Q(a, x) = 1 − P(a, x), for a > 0 and x ≥ 0: the series
// 6.5.29 of Abramowitz and Stegun below x = a + 1, the continued fraction
// 6.5.31 above.
func logIncGamma(a, x float64) (lower, upper float64) {
	switch {
	case !(a > 0 && x >= 0) || math.IsInf(a, 0):
		return math.NaN(), math.NaN()
	case x == 0:
		return math.Inf(-1), 0
	case math.IsInf(x, 1):
		return 0, math.Inf(-1)
	}
	front := logGammaFront(a, x)
	if x < a+1 {
		sum, term := 1.0, 1.0
		for n := 1; n < maxTerms && term > sum*tolerance; n++ {
			term *= x / (a + float64(n))
			sum += term
		}
		lower = min(0, front+math.Log(sum/a))
		return lower, log1mExp(lower)
	}
	f := lentz{tiny: 1e-300}
	f.start(x + 1 - a)
	for n := 1; n < maxTerms; n++ {
		k := float64(n)
		if f.step(-k*(k-a), x+2*k+1-a) {
			break
		}
	}
	upper = min(0, front-math.Log(f.value))
	return log1mExp(upper), upper
}

// logGammaFront is a·ln x − x − ln Γ(a).
func logGammaFront(a, x float64) float64 {
	if a < 10 {
		return a*math.Log(x) - x - logGamma(a)
	}
	// With u = (x−a)/a: a·(ln(1+u) − u) + ½·ln(a/2π) − rest.
	u := (x - a) / a
	return a*(math.Log1p(u)-u) + math.Log(a/(2*math.Pi))/2 - stirlingRest(a)
}
