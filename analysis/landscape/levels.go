package landscape

import (
	"math"
	"slices"

	"quantscope/analysis/stats"
)

// levels compares layers, experts and projections among themselves. Without a
// robust model they have their means only.
func (g *group) levels(r *robust, why string) {
	var f *fit
	if r != nil {
		f = fitAdditive(r.additive(), r.x, r.kept())
		if f.df() < leastDF || !(f.sse > 0) {
			f, why = nil, "layers, experts and projections leave nothing to compare with"
		} else {
			f.invert()
		}
	}
	g.report.Layers = g.levelsOf(g.layer, r, f, why)
	if g.expert != nil {
		g.report.Experts = g.levelsOf(g.expert, r, f, why)
	}
	g.report.Projections = g.levelsOf(g.projection, r, f, why)
}

// levelsOf describes the levels of one factor, in the order of the table.
func (g *group) levelsOf(fa *factor, r *robust, f *fit, why string) []Level {
	out := make([]Level, fa.levels())
	y := make([][]float64, fa.levels())
	for i, l := range fa.level {
		out[l].Members = append(out[l].Members, g.items[i])
		y[l] = append(y[l], g.y[i])
	}
	for l := range out {
		v := &out[l]
		v.Name, v.N, v.Kind, v.Mean = fa.names[l], len(y[l]), LevelEven, meanValue(y[l])
		v.Ratio, v.P = Undefined(why), Undefined(why)
	}
	if f != nil {
		f.compare(fa, r, out)
	}
	return out
}

// compare fills in ratios and kinds.
func (f *fit) compare(fa *factor, r *robust, out []Level) {
	k := slices.IndexFunc(f.factors, func(o *factor) bool { return o.name == fa.name })
	own := f.factors[k] // of the tensors with an error above 0, whose levels may be fewer
	at := make([]int, own.levels())
	for l, name := range own.names {
		at[l] = slices.Index(fa.names, name)
	}
	for l := range out {
		out[l].Ratio, out[l].P = Undefined(whyNoError), Undefined(whyNoError)
	}
	for _, set := range f.comparable(k) {
		f.compareSet(k, set, at, r, out)
	}
	f.tails(own, at, r, out)
}

// comparable are the levels of factor k that can be compared: those that layers,
// experts and projections connect. Nil ones have a hole in the design that leaves
// their contrasts open.
func (f *fit) comparable(k int) [][]int {
	parent := make([]int, f.p)
	for i := range parent {
		parent[i] = i
	}
	find := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	cols := make([]int, len(f.factors)+1)
	for i := range f.factors[0].level {
		f.columns(i, cols)
		for _, c := range cols[2:] {
			parent[find(c)] = find(cols[1])
		}
	}
	sets := map[int][]int{}
	var order []int
	for l := range f.factors[k].levels() {
		root := find(f.start[k] + l)
		if sets[root] == nil {
			order = append(order, root)
		}
		sets[root] = append(sets[root], l)
	}
	var out [][]int
	for _, root := range order {
		out = append(out, sets[root])
	}
	return out
}

// connected says whether the design leaves no contrast of a factor open: each
// connected part of it has all of its levels but one for each factor.
func (f *fit) connected(parts int) bool {
	want := parts
	for _, fa := range f.factors {
		want += fa.levels() - parts
	}
	return f.rank == want
}

// compareSet compares levels with the median one of them.
//
// The deviation's variance is taken for that of a level's effect and one over
// their number of it more. That is the variance against the mean of the others
// where there are many; where there are few, the median lies beside an extreme
// level and deviations are smaller than if it were any other. p is that of
// Student's t, times the number of levels (Bonferroni).
//
// A level that differs by that is held against the median of those that do not:
// of three projections of which one is off the median one is the nearer of the
// other two, and not what both are.
func (f *fit) compareSet(k int, set, at []int, r *robust, out []Level) {
	n := len(set)
	refuse := func(why string) {
		for _, l := range set {
			out[at[l]].Ratio, out[at[l]].P = Undefined(why), Undefined(why)
		}
	}
	switch {
	case n < 2:
		refuse("nothing of its kind to compare with")
		return
	case !f.connected(len(f.comparable(k))):
		refuse("layers, experts and projections are not measured together")
		return
	}
	col := func(l int) int { return f.start[k] + l }
	effects := make([]float64, n)
	rows := make([]float64, n) // of the covariance: mean over the set
	all := 0.0
	for a, la := range set {
		effects[a] = f.coef[col(la)]
		for _, lb := range set {
			rows[a] += f.inverse[col(la)*f.p+col(lb)] / float64(n)
		}
		all += rows[a] / float64(n)
	}
	median := stats.Quantile(slices.Sorted(slices.Values(effects)), 0.5)
	mse := f.sse / float64(f.df())
	variance := make([]float64, n)
	for a, la := range set {
		variance[a] = mse * max(0, f.inverse[col(la)*f.p+col(la)]-2*rows[a]+all) // against the mean of all
	}
	partial := r.partial(f, k)
	ratio := func(effect, sd float64) Value {
		half := studentQuantile(f.df()) * sd
		return Value{V: math.Exp(effect), Low: math.Exp(effect - half), High: math.Exp(effect + half)}
	}
	var even []float64 // effects of those that do not differ
	for a, la := range set {
		v := &out[at[la]]
		effect, sd := effects[a]-median, math.Sqrt(variance[a]*float64(n+1)/float64(n-1))
		if n == 2 { // the other one, and the variance of their difference
			effect, sd = 2*effect, 2*math.Sqrt(variance[a])
		}
		tail, _ := stats.StudentTail(math.Abs(effect)/sd, float64(f.df()))
		v.P = Exact(min(1, 2*tail*float64(n)))
		if !v.differs() {
			even = append(even, effects[a])
		}
		v.Ratio = ratio(effect, sd)
	}
	slices.Sort(even)
	for a, la := range set {
		v := &out[at[la]]
		if !v.differs() {
			continue
		}
		effect := math.Log(v.Ratio.V)
		if m := len(even); m > 0 && n > 2 {
			effect = effects[a] - stats.Quantile(even, 0.5)
			v.Ratio = ratio(effect, math.Sqrt(variance[a]*float64(n)/float64(n-1)*(1+medianVariance(m))))
		}
		if n == 2 && effect < 0 { // of two, the worse one is named
			continue
		}
		if v.named() {
			// Half of a shifted level's tensors are off by the shift or more.
			most := stats.Quantile(slices.Sorted(slices.Values(partial[la])), 0.5) - f.coef[col(la)] + effect
			if v.Kind = LevelShift; math.Abs(most) < math.Abs(effect)/2 || most*effect < 0 {
				v.Kind = LevelTail
			}
		}
	}
}

// medianVariance is the variance of the median of n values from the standard
// normal distribution: exact for one and two, within 3 % beyond, π/2n for many.
func medianVariance(n int) float64 {
	if n%2 == 0 {
		return math.Pi / 2 / (float64(n) + math.Pi - 2)
	}
	return math.Pi / 2 / (float64(n) + math.Pi/2 - 1)
}

// differs says that chance does not explain the level.
func (v *Level) differs() bool { return v.P.Defined() && v.P.V < FamilyAlpha }

// named says that the level is far enough off to matter.
func (v *Level) named() bool {
	return v.Ratio.Defined() && math.Abs(math.Log(v.Ratio.V)) >= math.Log(LevelFloor)
}

// partial are residuals with the effect of factor k left in, by level; outliers
// are among them.
func (r *robust) partial(f *fit, k int) [][]float64 {
	fa := f.factors[k]
	out := make([][]float64, fa.levels())
	for i, x := range r.x {
		l := fa.level[i]
		out[l] = append(out[l], x-f.at(i)+f.coef[f.start[k]+int(l)])
	}
	return out
}

// tails finds levels that hold more of the tail than chance deals out: the
// hypergeometric tail, times the number of levels.
func (f *fit) tails(own *factor, at []int, r *robust, out []Level) {
	all := 0
	for i, in := range r.tail {
		if in {
			out[at[own.level[i]]].Tail++
			all++
		}
	}
	if all == 0 || own.levels() < 2 {
		return
	}
	for l, n := range own.count {
		v := &out[at[l]]
		if v.Kind != LevelEven || v.Tail < 2 {
			continue
		}
		if p := stats.HypergeomTail(v.Tail, n, all, len(r.x)); p*float64(own.levels()) < FamilyAlpha {
			v.Kind = LevelTail
		}
	}
}
