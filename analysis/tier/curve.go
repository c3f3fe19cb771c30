package tier

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// best is the hot set of a fixed map within budgets that serves the most pairs, by
// counts that are known: those chosen most a byte first, for as long as they fit.
// worst turns the order round.
func best(s *Shape, counts []int64, of []pool, worst bool) []bool {
	order := make([]int, len(counts))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := float64(counts[a])/float64(s.Hot[a/s.Experts]), float64(counts[b])/float64(s.Hot[b/s.Experts])
		if worst {
			x, y = y, x
		}
		return cmp.Or(cmp.Compare(y, x), cmp.Compare(a, b))
	})
	return fill(s, order, of)
}

// fill makes experts hot in an order, for as long as they fit in the budgets that
// they share.
func fill(s *Shape, order []int, of []pool) []bool {
	hot := make([]bool, len(order))
	for _, p := range of {
		for _, at := range order {
			if b := s.Hot[at/s.Experts]; at >= p.first && at < p.first+p.n && b <= p.budget {
				hot[at] = true
				p.budget -= b
			}
		}
	}
	return hot
}

// anyOf is a hot set that nothing but chance chose.
func anyOf(s *Shape, of []pool, seed uint64) []bool {
	return fill(s, rand.New(rand.NewPCG(seed, 0x74696572)).Perm(s.Total()), of)
}

// served is the share of all pairs that a fixed hot set serves.
func served(hot []bool, counts []int64) float64 {
	var hits, all int64
	for at, n := range counts {
		all += n
		if hot[at] {
			hits += n
		}
	}
	return share(hits, all)
}

// curvePoints is how many budgets a curve has at most, both ends included.
const curvePoints = 201

// noiseDraws is how many even workloads the noise of a knee is the largest of.
const noiseDraws = 20

// newCurve is the curve of a workload, and its knee.
func newCurve(s *Shape, counts []int64, tokens int, seed uint64) *Curve {
	c := &Curve{Knee: -1}
	c.Share, c.Hits = curveOf(s, counts)
	at := 0
	c.Rise, at = rise(c.Share, c.Hits)
	random := rand.New(rand.NewPCG(seed, 0x6b6e6565))
	p := float64(s.TopK) / float64(s.Experts)
	mean, sd := float64(tokens)*p, math.Sqrt(float64(tokens)*p*(1-p))
	even := make([]int64, len(counts))
	for range noiseDraws {
		for i := range even {
			even[i] = int64(max(math.Round(mean+sd*random.NormFloat64()), 0))
		}
		r, _ := rise(curveOf(s, even))
		c.Noise = max(c.Noise, r)
	}
	if c.Rise > c.Noise {
		c.Knee = c.Share[at]
	}
	return c
}

// rise is how far the curve is above the diagonal at most, and where.
func rise(x, y []float64) (most float64, at int) {
	for i := range x {
		if d := y[i] - x[i]; d > most {
			most, at = d, i
		}
	}
	return most, at
}

// curveOf are shares of bytes and of pairs, experts taken in by pairs a byte.
func curveOf(s *Shape, counts []int64) (x, y []float64) {
	order := make([]int, len(counts))
	var pairs int64
	for i, n := range counts {
		order[i] = i
		pairs += n
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(float64(counts[b])/float64(s.Hot[b/s.Experts]), float64(counts[a])/float64(s.Hot[a/s.Experts])), cmp.Compare(a, b))
	})
	x, y = []float64{0}, []float64{0}
	var bytes, hits int64
	all := s.AllHot()
	for i, at := range order {
		bytes += s.Hot[at/s.Experts]
		hits += counts[at]
		// As many points as there are experts, or evenly spaced ones.
		if k := (i + 1) * (curvePoints - 1); k/len(order) > i*(curvePoints-1)/len(order) {
			x, y = append(x, float64(bytes)/float64(all)), append(y, share(hits, pairs))
		}
	}
	return x, y
}
