package stats

import "math"

// McNemar is the two-sided p value of paired answers that differ: onlyA of them
// yes on the first side alone, onlyB on the second alone. It is the exact binomial
// test that both are equally likely (McNemar 1947), conditional on how many differ,
// and beside it its mid-p value, which counts half the probability of what was seen
// and so is less cautious (Lancaster 1961; Fagerland, Lydersen and Laake 2013). Both
// are NaN where no answer differs or a count is negative.
func McNemar(onlyA, onlyB int) (p, mid float64) {
	if onlyA < 0 || onlyB < 0 || onlyA+onlyB == 0 {
		return math.NaN(), math.NaN()
	}
	k, n := min(onlyA, onlyB), onlyA+onlyB
	if 2*k == n {
		return 1, 1
	}
	tail := 2 * binomialAtMost(k, n, 0.5)
	return min(1, tail), min(1, tail-math.Exp(logBinomial(k, n, 0.5)))
}

// PairedShares is the difference of two shares on the same items, that of the
// second side less that of the first, with its interval at the level: Newcombe's
// square-and-add of the Wilson intervals of both, less what their correlation takes
// away (Newcombe 1998, Statistics in Medicine 17:2635, method 10). Items are counted
// by where they are yes; counts need not be whole, so that several answers of one
// item can count as one. All is NaN unless counts are finite and not negative, with
// one of them positive, and 0 < level < 1.
func PairedShares(both, onlyA, onlyB, neither, level float64) (difference, low, high float64) {
	nan := math.NaN()
	n := both + onlyA + onlyB + neither
	if !(both >= 0 && onlyA >= 0 && onlyB >= 0 && neither >= 0 && n > 0 && isFinite(n) && level > 0 && level < 1) {
		return nan, nan, nan
	}
	a, b := (both+onlyA)/n, (both+onlyB)/n
	lowA, highA := wilson(a, n, level)
	lowB, highB := wilson(b, n, level)
	phi := pairedPhi(both, onlyA, onlyB, neither)
	difference = (onlyB - onlyA) / n
	low = difference - squareAdd(b-lowB, highA-a, phi)
	high = difference + squareAdd(highB-b, a-lowA, phi)
	return difference, max(-1, low), min(1, high)
}

// pairedPhi is the correlation of the two sides, with Newcombe's correction, which
// takes half an item off where it is positive.
func pairedPhi(both, onlyA, onlyB, neither float64) float64 {
	n := both + onlyA + onlyB + neither
	product := math.Sqrt((both + onlyA) * (onlyB + neither) * (both + onlyB) * (onlyA + neither))
	if product == 0 {
		return 0
	}
	d := both*neither - onlyA*onlyB
	if d > 0 {
		d = max(0, d-n/2)
	}
	return d / product
}

func squareAdd(x, y, phi float64) float64 { return math.Sqrt(max(0, x*x-2*phi*x*y+y*y)) }

// wilson is Wilson's interval of a share p of n, which need not be whole.
func wilson(p, n, level float64) (low, high float64) {
	z := math.Sqrt2 * math.Erfinv(level)
	middle := p + z*z/(2*n)
	reach := z * math.Sqrt(max(0, p*(1-p)/n+z*z/(4*n*n)))
	low, high = (middle-reach)/(1+z*z/n), (middle+reach)/(1+z*z/n)
	if p == 0 {
		low = 0
	}
	if p == 1 {
		high = 1
	}
	return low, high
}

// Fisher is the two-sided p value of two shares on different items, k of n against
// l of m: the probability, with the sum of both given, of all outcomes that are no
// likelier than this one (Fisher 1935; outcomes within 1e-7 count as equal, as in
// scipy.stats.fisher_exact). It is NaN where a count is negative or above its number.
func Fisher(k, n, l, m int) float64 {
	if k < 0 || l < 0 || k > n || l > m {
		return math.NaN()
	}
	sum := k + l
	least, most := max(0, sum-m), min(n, sum)
	at := func(x int) float64 {
		return logChoose(float64(n), float64(x)) + logChoose(float64(m), float64(sum-x)) - logChoose(float64(n+m), float64(sum))
	}
	limit := at(k) + math.Log1p(1e-7)
	var p float64
	for x := least; x <= most; x++ {
		if v := at(x); v <= limit {
			p += math.Exp(v)
		}
	}
	return min(1, p)
}
