package stats

import (
	"cmp"
	"math"
	"slices"
)

// KendallTauB is Kendall's rank correlation with the correction for ties on both
// sides, in time n·log n (Knight 1966). P is the normal approximation with the
// variance for ties of Kendall (1970), without a correction for continuity. The
// interval is Fisher's with the standard error √(0.437/(n−4)) of Fieller, Hartley
// and Pearson (1957).
func KendallTauB(a, b []float64) Correlation {
	x, y, c := newCorrelation(a, b)
	if c.Why != "" {
		return c
	}
	order := make([]int32, len(x))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int {
		return cmp.Or(cmp.Compare(x[i], x[j]), cmp.Compare(y[i], y[j]))
	})
	inOrder := make([]float64, len(x))
	var both float64 // pairs of items that are tied on both sides
	run := 1.0
	for i, k := range order {
		inOrder[i] = y[k]
		if i > 0 && x[k] == x[order[i-1]] && y[k] == y[order[i-1]] {
			both += run
			run++
		} else {
			run = 1
		}
	}
	discordant := swaps(inOrder, make([]float64, len(x)))
	tx, ty := tied(x), tied(y)
	n := float64(c.N)
	pairs := n * (n - 1) / 2
	difference := pairs - tx.pairs - ty.pairs + both - 2*discordant
	c.R = max(-1, min(1, difference/math.Sqrt(pairs-tx.pairs)/math.Sqrt(pairs-ty.pairs)))

	m := n * (n - 1)
	variance := (m*(2*n+5)-tx.fives-ty.fives)/18 + 2*tx.pairs*ty.pairs/m + tx.triples*ty.triples/(9*m*(n-2))
	z := math.Abs(difference) / math.Sqrt(variance)
	c.LogP = min(0, LogNormalTail(z)+math.Ln2)
	c.P = math.Exp(c.LogP)
	c.interval(0.437, 4)
	return c
}

// swaps counts the pairs that stand in the wrong order, by merging; it sorts v.
func swaps(v, scratch []float64) float64 {
	if len(v) < 2 {
		return 0
	}
	half := len(v) / 2
	count := swaps(v[:half], scratch) + swaps(v[half:], scratch)
	left, right := v[:half], v[half:]
	merged := scratch[:0]
	for len(left) > 0 && len(right) > 0 {
		if right[0] < left[0] {
			count += float64(len(left))
			merged, right = append(merged, right[0]), right[1:]
		} else {
			merged, left = append(merged, left[0]), left[1:]
		}
	}
	merged = append(append(merged, left...), right...)
	copy(v, merged)
	return count
}

// ties are sums over runs of t equal values.
type ties struct {
	pairs   float64 // t(t−1)/2
	triples float64 // t(t−1)(t−2)
	fives   float64 // t(t−1)(2t+5)
}

func tied(x []float64) (s ties) {
	sorted := slices.Clone(x)
	slices.Sort(sorted)
	for i := 0; i < len(sorted); {
		j := i + 1
		for j < len(sorted) && sorted[j] == sorted[i] {
			j++
		}
		t := float64(j - i)
		s.pairs += t * (t - 1) / 2
		s.triples += t * (t - 1) * (t - 2)
		s.fives += t * (t - 1) * (2*t + 5)
		i = j
	}
	return s
}
