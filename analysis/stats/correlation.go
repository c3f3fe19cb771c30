package stats

import "math"

// Correlation says how two figures of the same items go together.
type Correlation struct {
	R         float64 // −1 … 1
	P, LogP   float64 // two-sided; LogP is the natural logarithm, also where P underflows
	Low, High float64 // 95 % interval; NaN below four pairs (five for Kendall)
	N         int     // pairs that entered
	NotFinite int     // pairs left out
	Why       string  // why there is none; figures are NaN then
}

// Pearson is the product-moment correlation. P is that of Student's t with n−2
// degrees of freedom, exact for Gaussian pairs; the interval is Fisher's, with
// standard error 1/√(n−3) of artanh r.
func Pearson(a, b []float64) Correlation {
	x, y, c := newCorrelation(a, b)
	if c.Why != "" {
		return c
	}
	c.product(x, y)
	c.interval(1, 3)
	return c
}

// Spearman is the correlation of ranks, ties sharing the mean of theirs. P is
// that of Student's t with n−2 degrees of freedom; the interval is Fisher's with
// the standard error √((1 + r²/2)/(n−3)) of Bonett and Wright (2000).
func Spearman(a, b []float64) Correlation {
	x, y, c := newCorrelation(a, b)
	if c.Why != "" {
		return c
	}
	c.product(Ranks(x), Ranks(y))
	c.interval(1+c.R*c.R/2, 3)
	return c
}

func newCorrelation(a, b []float64) (x, y []float64, c Correlation) {
	nan := math.NaN()
	c = Correlation{R: nan, P: nan, LogP: nan, Low: nan, High: nan}
	if len(a) != len(b) {
		c.Why = "the two sides differ in number"
		return nil, nil, c
	}
	x, y, c.NotFinite = finitePairs(a, b)
	c.N = len(x)
	switch {
	case c.N < 3:
		c.Why = "fewer than three pairs"
	case constant(x) || constant(y):
		c.Why = "no variance"
	}
	return x, y, c
}

func constant(x []float64) bool {
	for _, v := range x {
		if v != x[0] {
			return false
		}
	}
	return true
}

// product fills in r and its p value.
func (c *Correlation) product(x, y []float64) {
	mx, my := meanOf(x), meanOf(y)
	sx, sy := spread(x, mx), spread(y, my) // so that no square leaves the range
	var xx, yy, xy float64
	for i := range x {
		dx, dy := (x[i]-mx)/sx, (y[i]-my)/sy
		xx += dx * dx
		yy += dy * dy
		xy += dx * dy
	}
	if !isFinite(xx) || !isFinite(yy) || !(xx > 0 && yy > 0) {
		c.Why = "values are out of range"
		return
	}
	c.R = max(-1, min(1, xy/math.Sqrt(xx)/math.Sqrt(yy)))
	r2 := c.R * c.R
	c.LogP, _ = logIncBeta(float64(c.N-2)/2, 0.5, (1-math.Abs(c.R))*(1+math.Abs(c.R)), r2)
	c.P = math.Exp(c.LogP)
}

// interval is Fisher's, with standard error √(variance/(n−lost)) of artanh r.
func (c *Correlation) interval(variance float64, lost int) {
	if c.Why != "" || c.N <= lost {
		return
	}
	reach := normal975 * math.Sqrt(variance/float64(c.N-lost))
	z := math.Atanh(c.R)
	c.Low, c.High = math.Tanh(z-reach), math.Tanh(z+reach)
}

// normal975 is the 97.5 % quantile of the standard normal distribution.
const normal975 = 1.959963984540054235524594430520551527955550

// meanOf is the mean, as the first value and the mean distance from it.
func meanOf(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	var sum float64
	for _, v := range x {
		sum += v - x[0]
	}
	return x[0] + sum/float64(len(x))
}

// spread is the largest distance from the mean.
func spread(x []float64, mean float64) float64 {
	var far float64
	for _, v := range x {
		far = max(far, math.Abs(v-mean))
	}
	return far
}
