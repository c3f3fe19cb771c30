package landscape

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"quantscope/analysis/stats"
	"quantscope/quant/topology"
)

// Intervals at 95 % hold what is true in 95 of 100 tables or nearly so: over 400
// repeats of small tables, 0.91 is 3.7 deviations below.
func TestIntervalsCover(t *testing.T) {
	const (
		repeats         = 400
		layers, experts = 5, 16
		sigma           = 0.012
		persistent      = 0.02 // deviation of experts that keep their ranks
	)
	// Of experts' means over three projections, as ranks (Pearson 1907).
	rho := persistent * persistent / (persistent*persistent + sigma*sigma/3)
	rho = 6 / math.Pi * math.Asin(rho/2)
	type hit struct{ held, all float64 }
	hits := map[string]hit{}
	var mu sync.Mutex
	count := func(name string, v Value, truth float64) {
		mu.Lock()
		defer mu.Unlock()
		h := hits[name]
		h.all++
		if v.HasInterval() && v.Low <= truth && truth <= v.High {
			h.held++
		}
		hits[name] = h
	}
	top := expectedTop(3*layers*experts, 2, sigma)
	each(repeats, func(i int) {
		seed := uint64(i)
		group := func(factor func(l, e int, p string) float64) *group {
			table := noisy(seed, layers, experts, sigma, factor)
			g := newGroup(table, 0, topology.Expert, allItems(table))
			g.summary()
			return g
		}
		ctx := context.Background()

		flat := group(noEffect)
		flat.worstShare(ctx)
		flat.neighbours(ctx)
		count("share of the worst", flat.report.WorstShare, top)
		count("mean", flat.report.MeanRel2, 0.009*math.Exp(sigma*sigma/2))
		count("neighbours without an effect", flat.report.Neighbours.Mean, 0)

		off := group(func(l, _ int, p string) float64 {
			f := 1.0
			if l == 2 {
				f *= 1.06
			}
			if p == "down" {
				f *= 1.03
			}
			return f
		})
		off.outliers(ctx)
		count("layer that is off", off.report.Layers[2].Ratio, 1.06)
		count("layer that is not", off.report.Layers[4].Ratio, 1)
		count("projection that is off", off.report.Projections[2].Ratio, 1.03)

		few := group(func(l, e int, _ string) float64 {
			if l == e%5 && e < 4 {
				return 1.5
			}
			return 1
		})
		few.outliers(ctx)
		tail := few.report.Tail.Ratio
		count("tail", tail, 1.5)
		if width := tail.High/tail.Low - 1; !(width < 6*sigma/math.Sqrt(12)) { // four deviations of a mean of twelve, and half more
			t.Errorf("seed %d: the tail of %d is %s", seed, few.report.Tail.Count, ratioText(tail))
		}

		rng := rand.New(rand.NewPCG(seed, 7))
		effect := make([]float64, experts)
		for e := range effect {
			effect[e] = math.Exp(persistent * rng.NormFloat64())
		}
		kept := group(func(_, e int, _ string) float64 { return effect[e] })
		kept.neighbours(ctx)
		kept.anova(ctx)
		count("neighbours of experts that keep their ranks", kept.report.Neighbours.Mean, rho)
		_, between, _, _ := stats.Moments(effect)
		between *= float64(experts-1) / experts
		count("ω²", kept.report.Anova.Omega2, between/(between+sigma*sigma))
	})
	for name, h := range hits {
		t.Logf("%s: %.1f %%", name, 100*h.held/h.all)
		if h.held < 0.91*h.all {
			t.Errorf("%s: %.0f of %.0f intervals hold the truth", name, h.held, h.all)
		}
	}
}

// expectedTop is the mean share of the k largest of n lognormal values.
func expectedTop(n, k int, sigma float64) float64 {
	const repeats = 4000
	rng := rand.New(rand.NewPCG(3, 3))
	mean, y := 0.0, make([]float64, n)
	for range repeats {
		total, held := 0.0, 0.0
		for i := range y {
			y[i] = math.Exp(sigma * rng.NormFloat64())
			total += y[i]
		}
		slices.Sort(y)
		for _, v := range y[n-k:] {
			held += v
		}
		mean += held / total / repeats
	}
	return mean
}
