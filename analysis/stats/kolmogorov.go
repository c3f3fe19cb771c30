package stats

import "math"

// kolmogorovTail is P(D ≥ d) of the largest distance D between the distribution
// function of n values and the one that they come from, either way. Which
// formula applies where is chosen as Simard and L'Ecuyer (2011) recommend.
func kolmogorovTail(n int, d float64) float64 {
	f := float64(n)
	t := f * d * d
	switch {
	case n < 1 || math.IsNaN(d):
		return math.NaN()
	case f*d <= 0.5:
		return 1
	case d >= 1:
		return 0
	case d >= 0.5 || t >= 4 || n > 140 && t >= 2.2:
		return min(1, 2*smirnovTail(n, d)) // both sides at once hardly happens
	case n <= 140 || n <= 100_000 && f*math.Pow(d, 1.5) <= 1.4:
		return max(0, 1-durbin(n, d))
	}
	return max(0, 1-pelzGood(f, d))
}

// smirnovTail is P(D⁺ ≥ d), one-sided (Smirnov 1944, Birnbaum and Tingey 1951):
// d·Σ C(n,j)·(d + j/n)^(j−1)·(1 − d − j/n)^(n−j).
func smirnovTail(n int, d float64) float64 {
	f := float64(n)
	var sum float64
	for j := 0; ; j++ {
		k := float64(j)
		left := 1 - d - k/f
		if left <= 0 {
			break
		}
		log := logChoose(f, k) + (k-1)*math.Log(d+k/f) + (f-k)*math.Log(left)
		sum += math.Exp(log)
	}
	return d * sum
}

// logChoose is the logarithm of n over k.
func logChoose(n, k float64) float64 {
	if k == 0 || k == n {
		return 0
	}
	return -math.Log(n+1) - logBeta(n-k+1, k+1)
}

// durbin is P(D < d) by powers of a matrix of order 2·⌈n·d⌉ − 1 (Durbin 1973, in
// the form of Marsaglia, Tsang and Wang 2003).
func durbin(n int, d float64) float64 {
	k := int(math.Ceil(float64(n) * d))
	h := float64(k) - float64(n)*d
	m := 2*k - 1
	one := newSquare(m)
	for i := range m {
		for j := 0; j <= min(i+1, m-1); j++ {
			one.v[i*m+j] = 1
		}
	}
	for i := range m {
		one.v[i*m] -= math.Pow(h, float64(i+1))
		one.v[(m-1)*m+i] -= math.Pow(h, float64(m-i))
	}
	if 2*h > 1 {
		one.v[(m-1)*m] += math.Pow(2*h-1, float64(m))
	}
	for i := range m {
		for j := 0; j <= min(i+1, m-1); j++ {
			for g := 2; g <= i-j+1; g++ {
				one.v[i*m+j] /= float64(g)
			}
		}
	}
	p := one.power(n)
	// times n!/nⁿ, factor by factor, so that nothing leaves the range
	s, e := p.v[(k-1)*m+k-1], p.exponent
	for i := 1; i <= n; i++ {
		s *= float64(i) / float64(n)
		if s != 0 && s < 1e-140 {
			s *= 0x1p512
			e -= 512
		}
	}
	return math.Ldexp(s, e)
}

// square is a matrix of order m, times 2^exponent.
type square struct {
	m        int
	v        []float64
	exponent int
}

func newSquare(m int) square { return square{m: m, v: make([]float64, m*m)} }

func (a square) times(b square) square {
	c := newSquare(a.m)
	for i := range a.m {
		row := c.v[i*a.m:][:a.m]
		for k, x := range a.v[i*a.m:][:a.m] {
			for j, y := range b.v[k*a.m:][:a.m] {
				row[j] += x * y
			}
		}
	}
	c.exponent = a.exponent + b.exponent
	if c.v[a.m/2*a.m+a.m/2] > 0x1p400 {
		for i := range c.v {
			c.v[i] *= 0x1p-400
		}
		c.exponent += 400
	}
	return c
}

func (a square) power(n int) square {
	if n == 1 {
		return a
	}
	half := a.power(n / 2)
	p := half.times(half)
	if n%2 == 1 {
		p = p.times(a)
	}
	return p
}

// pelzGood is P(D < d) by the expansion of Pelz and Good (1976) in 1/√n, with
// the coefficients that Simard and L'Ecuyer (2011) give in equation 8.
func pelzGood(n, d float64) float64 {
	z := math.Sqrt(n) * d
	z2 := z * z
	z4, z6, z8 := z2*z2, z2*z2*z2, z2*z2*z2*z2
	const pi2 = math.Pi * math.Pi
	var k0, k1, k2, k3 float64
	for i := 0; ; i++ {
		// Terms at half-integers, both signs together.
		s := float64(i) + 0.5
		a := pi2 * s * s
		e := 2 * math.Exp(-a/(2*z2))
		k0 += e
		k1 += (a - z2) * e
		k2 += (6*z6 + 2*z4 + a*(2*z4-5*z2) + a*a*(1-2*z2)) * e
		k3 += (a*a*a*(5-30*z2) + a*a*(-60*z2+212*z4) + a*(135*z4-96*z6) - 30*z6 - 90*z8) * e
		if i > 2 && e*a*a*a <= 1e-20 {
			break
		}
	}
	var l2, l3 float64
	for i := 1; ; i++ {
		a := pi2 * float64(i) * float64(i)
		e := 2 * math.Exp(-a/(2*z2))
		l2 += a * e
		l3 += (3*a*z2 - a*a) * e
		if i > 2 && e*a*a <= 1e-20 {
			break
		}
	}
	root := math.Sqrt(math.Pi / 2)
	k0 *= root / z
	k1 *= root / (6 * z4)
	k2 = k2*root/(72*z6*z) - l2*root/(36*z2*z)
	k3 = k3*root/(6480*z8*z2) + l3*root/(216*z6)
	r := math.Sqrt(n)
	return k0 + k1/r + k2/n + k3/(n*r)
}
