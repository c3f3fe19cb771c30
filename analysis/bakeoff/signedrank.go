package bakeoff

import (
	"fmt"
	"math"

	"quantscope/analysis/landscape"
	"quantscope/analysis/stats"
)

// exactRanks is up to how many differences p is counted instead of approximated.
// The count takes n² steps a rank; the normal approximation is within a
// hundredth of it from there on.
const exactRanks = 50

// Names of the two ways to p.
const (
	exactMethod  = "Wilcoxon signed-rank, zeros dropped, midranks for ties, exact"
	normalMethod = "Wilcoxon signed-rank, zeros dropped, midranks for ties, normal approximation with tie correction"
)

// signedRank tests whether the differences are symmetric about 0.
func signedRank(differences []float64) Test {
	r := stats.Wilcoxon(differences, stats.Options{})
	t := Test{Method: exactMethod, N: r.N, Zeros: r.Zeros, Plus: r.Plus, Minus: r.Minus}
	switch {
	case len(differences) == 0:
		t.P = landscape.Undefined("no pair")
	case r.N == 0:
		t.P = landscape.Undefined("every difference is 0")
	case r.N < leastPairs: // no arrangement of so few would be unlikely
		t.P = landscape.Undefined(fmt.Sprintf("only %d of the differences not 0", r.N))
	case r.N <= exactRanks:
		p := exactP(differences, min(r.Plus, r.Minus))
		t.P, t.Log10P = landscape.Exact(p), landscape.Exact(math.Log10(p))
		return t
	default:
		t.Method = normalMethod
		t.P, t.Log10P = landscape.Exact(r.P), landscape.Exact(r.Log10P)
		return t
	}
	t.Log10P = t.P
	return t
}

// exactP is the two-sided p of the smaller rank sum: twice the share of the 2ⁿ
// equally likely assignments of signs to the ranks of the differences whose sum
// over one side is not above it, at most 1. Ranks are kept doubled, so that
// midranks are whole. The distribution is given the ties (Pratt and Gibbons, Concepts
// of Nonparametric Theory, 1981, section 3.7.5).
func exactP(differences []float64, smaller float64) float64 {
	var size []float64
	for _, d := range differences {
		if d != 0 && isFinite(d) {
			size = append(size, math.Abs(d))
		}
	}
	ranks := stats.Ranks(size)
	total := 0
	for i, r := range ranks {
		ranks[i] = math.Round(2 * r)
		total += int(ranks[i])
	}
	ways := make([]float64, total+1) // by doubled rank sum, as shares of all
	ways[0] = 1
	for _, r := range ranks {
		for s := total; s >= 0; s-- {
			ways[s] /= 2
			if s >= int(r) {
				ways[s] += ways[s-int(r)] / 2
			}
		}
	}
	p := 0.0
	for s := 0; s <= int(math.Round(2*smaller)) && s <= total; s++ {
		p += ways[s]
	}
	return min(2*p, 1)
}
