package stats

import (
	"cmp"
	"math"
	"slices"
)

// BH are p values adjusted so that taking those below q for findings makes a
// share of at most q of them false (Benjamini and Hochberg 1995). A p value that
// is NaN was no test: it stays NaN and is not counted.
func BH(p []float64) []float64 {
	return stepUp(p, func(rank, tests int) float64 { return float64(tests) / float64(rank) })
}

// BY is BH for tests that depend on one another in any way (Benjamini and
// Yekutieli 2001).
func BY(p []float64) []float64 {
	var harmonic float64
	counted := 0
	for _, v := range p {
		if !math.IsNaN(v) {
			counted++
			harmonic += 1 / float64(counted)
		}
	}
	return stepUp(p, func(rank, tests int) float64 { return harmonic * float64(tests) / float64(rank) })
}

// Holm are p values adjusted so that the probability of any false finding stays
// below the level (Holm 1979). NaN stays NaN and is not counted.
func Holm(p []float64) []float64 {
	out, order := adjusting(p)
	worst := 0.0
	for i, k := range order {
		worst = max(worst, min(1, p[k]*float64(len(order)-i)))
		out[k] = worst
	}
	return out
}

// stepUp multiplies each p by its factor and makes the result monotone, from
// the largest down.
func stepUp(p []float64, factor func(rank, tests int) float64) []float64 {
	out, order := adjusting(p)
	least := 1.0
	for i := len(order) - 1; i >= 0; i-- {
		least = min(least, p[order[i]]*factor(i+1, len(order)))
		out[order[i]] = least
	}
	return out
}

// adjusting is room for the result, NaN throughout, and the tests in ascending
// order.
func adjusting(p []float64) (out []float64, order []int) {
	out = make([]float64, len(p))
	for i, v := range p {
		out[i] = math.NaN()
		if !math.IsNaN(v) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	return out, order
}
