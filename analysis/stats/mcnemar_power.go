package stats

import (
	"math"
	"sort"
)

// maxExactPairs is how many pairs power is enumerated for; beyond it the normal
// approximation is within three hundredths of it, which the exact test is more cautious.
const maxExactPairs = 4000

// McNemarPower is the probability that McNemar's exact test on n pairs says at the
// level alpha, for instance 0.05, that the sides differ, where a pair is yes on the
// first side alone with probability onlyA and on the second alone with onlyB. It is
// the sum over how many pairs differ and over who wins them, without an
// approximation. NaN unless 0 < alpha < 1, n ≥ 0 and both are probabilities of sum
// ≤ 1; of more than 4,000 pairs it is Connor's approximation.
func McNemarPower(n int, onlyA, onlyB, alpha float64) float64 {
	if !(n >= 0 && onlyA >= 0 && onlyB >= 0 && onlyA+onlyB <= 1+1e-12 && alpha > 0 && alpha < 1) {
		return math.NaN()
	}
	differ := min(1, onlyA+onlyB)
	if differ == 0 || n == 0 {
		return 0
	}
	if n > maxExactPairs {
		return connorPower(float64(n), differ, math.Abs(onlyA-onlyB), alpha)
	}
	q := onlyA / differ
	mean, spread := float64(n)*differ, math.Sqrt(float64(n)*differ*(1-differ))
	// Beyond seven standard deviations lies less than 1e-11.
	from, to := max(1, int(mean-7*spread)-2), min(n, int(mean+7*spread)+2)
	critical := lesser(from, alpha)
	var power float64
	for d := from; d <= to; d++ {
		if 2*(critical+1) < d && 2*binomialAtMost(critical+1, d, 0.5) <= alpha {
			critical++ // by one at most for each d
		}
		if critical < 0 {
			continue
		}
		weight := math.Exp(logPairs(d, n, differ))
		power += weight * (atMost(critical, d, q) + atMost(critical, d, 1-q))
	}
	return min(1, power)
}

// lesser is how many of d pairs that differ there are at most on the lesser side for
// McNemar's test to say so at alpha; -1 where none are few enough.
func lesser(d int, alpha float64) int {
	return sort.Search((d+1)/2, func(k int) bool { return 2*binomialAtMost(k, d, 0.5) > alpha }) - 1
}

// logPairs is logBinomial where the probability may be 1.
func logPairs(d, n int, p float64) float64 {
	if p == 1 {
		if d == n {
			return 0
		}
		return math.Inf(-1)
	}
	return logBinomial(d, n, p)
}

func atMost(k, n int, p float64) float64 {
	switch p {
	case 0:
		return 1
	case 1:
		if k >= n {
			return 1
		}
		return 0
	}
	return binomialAtMost(k, n, p)
}

// McNemarPairs is how many pairs McNemar's test takes to tell, at the level alpha and
// with the probability power, a difference of the shares from 0, where a pair differs
// at all with probability differ: by the formula of Miettinen 1968 as Connor 1987
// (Biometrics 43:207) has it,
//
//	n = (z(1−α/2)·√ψ + z(power)·√(ψ − δ²))² / δ²
//
// with δ the difference and ψ = differ, and where that is at most 2,000, the number
// near it at which the exact test reaches the power and one pair less does not. It is -1
// unless 0 < |difference| ≤ differ ≤ 1, 0 < alpha < 1 and 0 < power < 1.
func McNemarPairs(difference, differ, alpha, power float64) int {
	d := math.Abs(difference)
	if !(d > 0 && d <= differ && differ <= 1 && alpha > 0 && alpha < 1 && power > 0 && power < 1) {
		return -1
	}
	sum := quantile(1-alpha/2)*math.Sqrt(differ) + quantile(power)*math.Sqrt(differ-d*d)
	about := math.Ceil(sum * sum / (d * d))
	if about > maxExactPairs/2 {
		return int(min(about, math.MaxInt32))
	}
	// The power of the exact test rises with the pairs in small teeth: the first that
	// reaches lies near where halving finds one.
	reaches := func(n int) bool { return McNemarPower(n, (differ+d)/2, (differ-d)/2, alpha) >= power }
	low, high := 0, int(about)
	for !reaches(high) {
		low, high = high, high+high/4+8
	}
	for high-low > 1 {
		if mid := low + (high-low)/2; reaches(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// McNemarDetectable is the smallest difference of two shares that n pairs tell at the
// level alpha with the probability power by McNemar's exact test, where pairs differ
// with probability differ, or as much as the difference itself needs; told to
// 0.0005. NaN where not
// even a difference of 1 is told: the exact test needs six pairs at 0.05.
func McNemarDetectable(n int, differ, alpha, power float64) float64 {
	if !(n > 0 && differ >= 0 && differ <= 1 && alpha > 0 && alpha < 1 && power > 0 && power < 1) {
		return math.NaN()
	}
	reaches := func(d float64) bool {
		all := max(differ, d)
		return McNemarPower(n, (all+d)/2, (all-d)/2, alpha) >= power
	}
	if !reaches(1) {
		return math.NaN()
	}
	low, high := 0.0, 1.0
	for high-low > 5e-4 {
		if mid := low + (high-low)/2; reaches(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// connorPower turns Connor's formula round.
func connorPower(n, differ, difference, alpha float64) float64 {
	rest := differ - difference*difference
	reach := math.Sqrt(n)*difference - quantile(1-alpha/2)*math.Sqrt(differ)
	if rest <= 0 {
		if reach >= 0 {
			return 1
		}
		return 0
	}
	return NormalTail(-reach / math.Sqrt(rest))
}

// quantile of the standard normal.
func quantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }
