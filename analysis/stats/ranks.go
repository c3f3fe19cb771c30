package stats

import (
	"cmp"
	"math"
	"slices"
)

// Ranks are the ranks of values from 1, equal ones sharing the mean of theirs.
// The rank of a value that is not finite is NaN, and it moves no other.
func Ranks(values []float64) []float64 {
	r, _ := rank(values)
	return r
}

// rank also returns Σ(t³ − t) over the ties of t values each.
func rank(values []float64) (ranks []float64, ties float64) {
	ranks = make([]float64, len(values))
	order := make([]int32, 0, len(values))
	for i, v := range values {
		if isFinite(v) {
			order = append(order, int32(i))
		} else {
			ranks[i] = math.NaN()
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(values[a], values[b]) })
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			ranks[k] = float64(i+j+1) / 2
		}
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	return ranks, ties
}

// finitePairs are the pairs whose two values are finite.
func finitePairs(a, b []float64) (x, y []float64, notFinite int) {
	x, y = make([]float64, 0, len(a)), make([]float64, 0, len(a))
	for i := range a {
		if isFinite(a[i]) && isFinite(b[i]) {
			x, y = append(x, a[i]), append(y, b[i])
		}
	}
	return x, y, len(a) - len(x)
}
