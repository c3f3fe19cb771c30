package stats

import "math"

// BinomTest is the two-sided p value of k successes in n trials against the
// probability p: the probability of all outcomes that are no likelier than k.
// Outcomes within 1e-7 of k's probability count as equal to it, as in
// scipy.stats.binomtest. It is NaN unless 0 ≤ k ≤ n and 0 ≤ p ≤ 1.
func BinomTest(k, n int, p float64) float64 {
	if k < 0 || k > n || !(p >= 0 && p <= 1) {
		return math.NaN()
	}
	if p == 0 || p == 1 {
		if float64(k) == p*float64(n) {
			return 1
		}
		return 0
	}
	mean := p * float64(n)
	if float64(k) > mean { // mirrored, so that k lies on the left
		return BinomTest(n-k, n, 1-p)
	}
	if float64(k) == mean {
		return 1
	}
	// The probabilities fall to the right of the mean: find the first that is small enough.
	limit := logBinomial(k, n, p) + math.Log1p(1e-7)
	low, high := int(math.Ceil(mean)), n+1
	for low < high {
		if mid := low + (high-low)/2; logBinomial(mid, n, p) <= limit {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return min(1, binomialAtMost(k, n, p)+binomialAtLeast(low, n, p))
}

// logBinomial is the logarithm of the probability of exactly k successes.
func logBinomial(k, n int, p float64) float64 {
	return logChoose(float64(n), float64(k)) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p)
}

func binomialAtMost(k, n int, p float64) float64 {
	if k >= n {
		return 1
	}
	log, _ := logIncBeta(float64(n-k), float64(k+1), 1-p, p)
	return math.Exp(log)
}

func binomialAtLeast(k, n int, p float64) float64 {
	if k <= 0 {
		return 1
	}
	if k > n {
		return 0
	}
	log, _ := logIncBeta(float64(k), float64(n-k+1), p, 1-p)
	return math.Exp(log)
}

// Wilson is the score interval of a share of k in n at the given level, for
// instance 0.95 (Wilson 1927). Both ends are NaN unless 0 ≤ k ≤ n, n > 0 and
// 0 < level < 1.
func Wilson(k, n int, level float64) (low, high float64) {
	if k < 0 || k > n || n == 0 || !(level > 0 && level < 1) {
		return math.NaN(), math.NaN()
	}
	return wilson(float64(k)/float64(n), float64(n), level)
}

// ClopperPearson is the exact interval of a share of k in n (Clopper and Pearson
// 1934). Both ends are NaN where Wilson's are.
func ClopperPearson(k, n int, level float64) (low, high float64) {
	if k < 0 || k > n || n == 0 || !(level > 0 && level < 1) {
		return math.NaN(), math.NaN()
	}
	tail := math.Log((1 - level) / 2)
	low, high = 0, 1
	if k > 0 {
		low = bisect(func(p float64) bool {
			at, _ := logIncBeta(float64(k), float64(n-k+1), p, 1-p)
			return at < tail
		})
	}
	if k < n {
		high = bisect(func(p float64) bool {
			_, above := logIncBeta(float64(k+1), float64(n-k), p, 1-p)
			return above > tail
		})
	}
	return low, high
}

// bisect finds where below, true at 0 and false at 1, changes.
func bisect(below func(float64) bool) float64 {
	low, high := 0.0, 1.0
	for range 200 {
		mid := low + (high-low)/2
		if mid <= low || mid >= high {
			break
		}
		if below(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low + (high-low)/2
}

// HypergeomTail is P(X ≥ hits), where X counts the marked among k drawn
// without return from n, of which marked are marked. It is NaN where k or marked
// is negative or above n.
func HypergeomTail(hits, k, marked, n int) float64 {
	if k < 0 || marked < 0 || k > n || marked > n {
		return math.NaN()
	}
	least, most := max(0, k+marked-n), min(k, marked)
	switch {
	case hits <= least:
		return 1
	case hits > most:
		return 0
	}
	fN, fK, fM := float64(n), float64(k), float64(marked)
	all := logChoose(fN, fK)
	var sum float64
	for x := most; x >= hits; x-- { // the small ones first
		sum += math.Exp(logChoose(fM, float64(x)) + logChoose(fN-fM, fK-float64(x)) - all)
	}
	return min(1, sum)
}
