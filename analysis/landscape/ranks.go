package landscape

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"quantscope/analysis/stats"
)

// neighbours correlates the experts' ranks of layers that follow one another
// among those with experts. The interval of the mean correlation is by Fisher's
// z, with the larger of two variances: that of pairs that have nothing to do with
// one another, which holds where there is nothing to find, and that over experts.
// Where experts keep their ranks, the same ones make all correlations.
func (g *group) neighbours(context.Context) {
	nb := &g.report.Neighbours
	refuse := func(why string) { nb.Why, nb.Mean = why, Undefined(why) }
	switch {
	case len(g.y) == 0:
		refuse(whyNothing)
		return
	case g.expert == nil:
		refuse("no experts")
		return
	}
	layers := g.expertMeans()
	if len(layers) < 2 {
		refuse("one layer only")
		return
	}
	var zs, variances []float64
	over := map[int]float64{} // by expert: what it adds to the sum of zs, over √(n(n−1))
	for i := 1; i < len(layers); i++ {
		p, influence := pairRanks(&layers[i-1], &layers[i])
		nb.Pairs = append(nb.Pairs, p)
		// Equal ranks have an infinite z; the 1e-9 keeps it finite.
		if p.Rho.Defined() && p.N > 3 {
			rho := max(-1+1e-9, min(1-1e-9, p.Rho.V))
			zs = append(zs, math.Atanh(rho))
			variances = append(variances, (1+rho*rho/2)/float64(p.N-3)) // Bonett and Wright 2000
			for e, h := range influence {
				over[e] += h / (1 - rho*rho) / math.Sqrt(float64(p.N)*float64(p.N-1))
			}
		}
	}
	if len(zs) == 0 {
		refuse("no two layers share four experts whose errors differ")
		return
	}
	m := float64(len(zs))
	mean, _, _, _ := stats.Moments(zs)
	apart, shared := 0.0, 0.0
	for _, v := range variances {
		apart += v / m / m
	}
	for _, e := range slices.Sorted(maps.Keys(over)) {
		shared += over[e] / m * over[e] / m
	}
	half := studentQuantile(len(over)-2) * math.Sqrt(max(apart, shared))
	nb.Mean = Value{V: math.Tanh(mean), Low: math.Tanh(mean - half), High: math.Tanh(mean + half)}
}

// layerMeans are the experts of one layer.
type layerMeans struct {
	key  layerKey
	mean map[int]float64 // by expert: of rel2 less the mean of its projection in the layer
}

// expertMeans averages over projections, by layer in order.
func (g *group) expertMeans() []layerMeans {
	cells := make([]float64, g.cell.levels())
	for i, c := range g.cell.level {
		cells[c] += g.y[i] / float64(g.cell.count[c])
	}
	type sum struct{ s, n float64 }
	by := map[layerKey]map[int]sum{}
	for i, item := range g.items {
		r := &g.table.Items[item].Role
		if r.Expert < 0 {
			continue
		}
		k := layerOf(r)
		if by[k] == nil {
			by[k] = map[int]sum{}
		}
		s := by[k][r.Expert]
		by[k][r.Expert] = sum{s.s + g.y[i] - cells[g.cell.level[i]], s.n + 1}
	}
	var out []layerMeans
	for k, experts := range by {
		l := layerMeans{key: k, mean: map[int]float64{}}
		for e, s := range experts {
			l.mean[e] = s.s / s.n
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b layerMeans) int { return byLayer(a.key, b.key) })
	return out
}

// pairRanks is the correlation of two layers, with the influence of each expert on
// it.
func pairRanks(a, b *layerMeans) (RankPair, map[int]float64) {
	p := RankPair{A: a.key.String(), B: b.key.String()}
	var experts []int
	for e := range a.mean {
		if _, ok := b.mean[e]; ok {
			experts = append(experts, e)
		}
	}
	slices.Sort(experts)
	x, y := make([]float64, len(experts)), make([]float64, len(experts))
	for i, e := range experts {
		x[i], y[i] = a.mean[e], b.mean[e]
	}
	p.N = len(experts)
	p.Rho, p.P = spearman(x, y)
	influence := make(map[int]float64, len(experts))
	for i, h := range rankInfluence(x, y) {
		influence[experts[i]] = h
	}
	return p, influence
}

// rankInfluence is the influence of each pair on Spearman's correlation, with mean
// 0: 12·(F(x)G(y) + E[G(Y); X > x] + E[F(X); Y > y]) less its mean, where F and G
// are the distribution functions (Croux and Dehon 2010). Equal values count half.
func rankInfluence(x, y []float64) []float64 {
	n := float64(len(x))
	u, v := stats.Ranks(x), stats.Ranks(y)
	above := func(a, b float64) float64 {
		switch {
		case a > b:
			return 1
		case a == b:
			return 0.5
		}
		return 0
	}
	out, mean := make([]float64, len(x)), 0.0
	for i := range x {
		h := u[i] * v[i]
		for j := range x {
			h += above(u[j], u[i])*v[j] + above(v[j], v[i])*u[j]
		}
		out[i] = 12 * h / n / n
		mean += out[i] / n
	}
	for i := range out {
		out[i] -= mean
	}
	return out
}

// spearman is a rank correlation with its interval and p.
func spearman(x, y []float64) (rho, p Value) {
	c := stats.Spearman(x, y)
	if c.Why != "" {
		return Undefined(c.Why), Undefined(c.Why)
	}
	rho = Value{V: c.R, Low: c.Low, High: c.High}
	if math.IsNaN(c.Low) || math.IsNaN(c.High) {
		rho = Exact(c.R)
	}
	return rho, Exact(c.P)
}

// selectors hold cheap figures of the source against the worst list.
func (g *group) selectors(context.Context) {
	for _, s := range []struct {
		name string
		of   func(*Item) float64
	}{
		{"amax", func(it *Item) float64 { return it.Amax }},
		{"std", func(it *Item) float64 { return it.Std }},
		{"kurtosis", func(it *Item) float64 { return it.Kurtosis }},
	} {
		var by, errors []float64 // of the tensors that have the figure
		for k, i := range g.items {
			if v := s.of(&g.table.Items[i]); isFinite(v) {
				by, errors = append(by, v), append(errors, g.y[k])
			}
		}
		g.report.Selectors = append(g.report.Selectors, newSelector(s.name, by, errors))
	}
}

func newSelector(name string, by, errors []float64) Selector {
	s := Selector{Name: name}
	n := len(by)
	refuse := func(why string) Selector {
		v := Undefined(why)
		s.Overlap, s.Expected, s.P, s.Rho = v, v, v, v
		return s
	}
	switch {
	case len(errors) == 0:
		return refuse("the records do not have it")
	case n < 3:
		return refuse("fewer than three tensors")
	case constantSlice(errors):
		return refuse(whyConstant)
	case constantSlice(by):
		return refuse("it is the same for all tensors")
	}
	s.K = onePercent(n)
	oracle := make(map[int]bool, s.K)
	for _, i := range largest(errors, s.K) {
		oracle[i] = true
	}
	for _, i := range largest(by, s.K) {
		if oracle[i] {
			s.Hits++
		}
	}
	s.Overlap = Exact(float64(s.Hits) / float64(s.K))
	s.Overlap.Low, s.Overlap.High = stats.Wilson(s.Hits, s.K, Confidence)
	s.Expected = Exact(float64(s.K) / float64(n))
	s.P = Exact(stats.HypergeomTail(s.Hits, s.K, s.K, n))
	s.Rho, _ = spearman(by, errors)
	return s
}

func constantSlice(v []float64) bool {
	return !slices.ContainsFunc(v, func(x float64) bool { return x != v[0] })
}

// largest are the indices of the k largest values; of equal ones the first.
func largest(v []float64, k int) []int {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(v[b], v[a]) })
	return order[:k]
}
