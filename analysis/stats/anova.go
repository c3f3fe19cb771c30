package stats

import (
	"math"
	"slices"
)

// ANOVA is a one-way analysis of variance.
type ANOVA struct {
	Groups, N           int // that have values; values that entered
	NotFinite           int // values left out
	DFBetween, DFWithin int

	F, P, LogP          float64 // LogP is the natural logarithm, also where P underflows
	SSBetween, SSWithin float64
	Eta2, Omega2        float64 // share of variance between groups: in the sample, and estimated (Hays 1963)
	OmegaLow, OmegaHigh float64 // 95 % interval of the share in the population
	Why                 string  // why there is no test; figures are NaN then
}

// OneWay tests whether the means of groups differ. group says of each value
// which group it belongs to; any numbers will do.
//
// The interval is that of λ/(λ+N), where the noncentrality λ is found by
// inverting the noncentral F (Steiger 2004).
func OneWay(values []float64, group []int) ANOVA {
	nan := math.NaN()
	a := ANOVA{F: nan, P: nan, LogP: nan, SSBetween: nan, SSWithin: nan, Eta2: nan, Omega2: nan, OmegaLow: nan, OmegaHigh: nan}
	g, why := gatherGroups(values, group)
	a.Groups, a.N, a.NotFinite = len(g.members), g.n, g.notFinite
	a.DFBetween, a.DFWithin = max(0, a.Groups-1), max(0, a.N-a.Groups)
	if a.Why = why; why != "" {
		return a
	}
	if a.DFWithin < 1 {
		a.Why = "no group has two values"
		return a
	}

	// Sums of squares about the mean of all, so that a large common offset costs no digits.
	mean := g.mean()
	var between, within float64
	varies := false
	for _, m := range g.members {
		var sum float64
		for _, v := range m {
			sum += v - mean
		}
		own := sum / float64(len(m))
		between += float64(len(m)) * own * own
		for _, v := range m {
			varies = varies || v != m[0]
			d := v - mean - own
			within += d * d
		}
	}
	if !varies {
		a.Why = "no variance within groups"
		return a
	}
	if !(within > 0) || math.IsInf(within, 0) || math.IsInf(between, 0) {
		a.Why = "squares of the values are out of range"
		return a
	}
	d1, d2 := float64(a.DFBetween), float64(a.DFWithin)
	a.SSBetween, a.SSWithin = between, within
	a.F = between / d1 / (within / d2)
	a.P, a.LogP = FTail(a.F, d1, d2)
	total := between + within
	a.Eta2 = between / total
	a.Omega2 = (between - d1*within/d2) / (total + within/d2)
	share := func(lambda float64) float64 { return lambda / (lambda + float64(a.N)) }
	a.OmegaLow, a.OmegaHigh = share(noncentrality(a.F, d1, d2, 0.975)), share(noncentrality(a.F, d1, d2, 0.025))
	return a
}

// groups are finite values by group, in the order in which groups first appear.
type groups struct {
	members      [][]float64
	n, notFinite int
}

// gatherGroups sorts values into groups and says why they cannot be compared.
func gatherGroups(values []float64, group []int) (g groups, why string) {
	if len(values) != len(group) {
		return g, "values and groups differ in number"
	}
	at := map[int]int{}
	for i, v := range values {
		if !isFinite(v) {
			g.notFinite++
			continue
		}
		k, ok := at[group[i]]
		if !ok {
			k = len(g.members)
			at[group[i]] = k
			g.members = append(g.members, nil)
		}
		g.members[k] = append(g.members[k], v)
		g.n++
	}
	switch {
	case g.n == 0:
		return g, "no finite values"
	case len(g.members) < 2:
		return g, "fewer than two groups"
	case !slices.ContainsFunc(g.members, func(m []float64) bool {
		return slices.ContainsFunc(m, func(v float64) bool { return v != g.members[0][0] })
	}):
		return g, "no variance"
	}
	return g, ""
}

// mean is that of all members, as the first value and the mean distance from it.
func (g *groups) mean() float64 {
	first := g.members[0][0]
	var sum float64
	for _, m := range g.members {
		for _, v := range m {
			sum += v - first
		}
	}
	return first + sum/float64(g.n)
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Test is the result of a test.
type Test struct {
	Statistic, P, LogP float64 // LogP is the natural logarithm, also where P underflows
	N                  int     // values that entered
	NotFinite          int     // values left out
	Why                string  // why there is no test; figures are NaN then
}

// KruskalWallis tests whether groups differ in location, by ranks (Kruskal and
// Wallis 1952), with their correction for ties. P is that of chi-square with one
// degree of freedom less than there are groups.
func KruskalWallis(values []float64, group []int) Test {
	t := Test{Statistic: math.NaN(), P: math.NaN(), LogP: math.NaN()}
	g, why := gatherGroups(values, group)
	t.N, t.NotFinite = g.n, g.notFinite
	if t.Why = why; why != "" {
		return t
	}
	all := make([]float64, 0, g.n)
	for _, m := range g.members {
		all = append(all, m...)
	}
	ranks, ties := rank(all)
	n, sum := float64(g.n), 0.0
	for _, m := range g.members {
		var r float64
		for _, x := range ranks[:len(m)] {
			r += x - (n+1)/2
		}
		ranks = ranks[len(m):]
		sum += r * r / float64(len(m))
	}
	t.Statistic = 12 / (n * (n + 1)) * sum / (1 - ties/(n*n*n-n))
	t.P, t.LogP = ChiSquareTail(t.Statistic, float64(len(g.members)-1))
	return t
}
