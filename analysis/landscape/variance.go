package landscape

import (
	"context"
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"quantscope/analysis/stats"
)

// studentQuantile is the upper end of the interval at the level Confidence.
func studentQuantile(df int) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(df)}.Quantile((1 + Confidence) / 2)
}

// sumOfSquares is Σ(y − mean)², and whether all values are equal.
func sumOfSquares(y []float64) (ss float64, equal bool) {
	mean := 0.0
	for _, v := range y {
		mean += v / float64(len(y))
	}
	equal = true
	for _, v := range y {
		ss += (v - mean) * (v - mean)
		equal = equal && v == y[0]
	}
	return ss, equal
}

// decompose shares the variance out. A factor's share is what the additive
// model of all factors loses without it, over the sum of squares about the mean.
// The interval of a share is that of what repeated samples would have in the
// mean: the noncentrality of its F is inverted, and λ is worth (df + λ) mean
// squares of the remainder.
func (g *group) decompose(context.Context) {
	d := &g.report.Decomposition
	refuse := func(why string) {
		v := Undefined(why)
		*d = Decomposition{Layer: v, Expert: v, Projection: v, Confounded: v, Remainder: v}
	}
	n := len(g.y)
	total, equal := sumOfSquares(g.y)
	switch {
	case n == 0:
		refuse(whyNothing)
		return
	case n < 3:
		refuse("fewer than three tensors")
		return
	case equal || !(total > 0):
		refuse(whyConstant)
		return
	case !isFinite(total):
		refuse("squares of the errors are out of range")
		return
	case g.tooMany() != "":
		refuse(g.tooMany())
		return
	}
	full := fitAdditive(g.factors(nil), g.y, nil)
	if full.df() < 1 {
		refuse("as many levels as tensors")
		return
	}
	sse := min(full.sse, total)
	share := func(f *factor, none string) (v Value, ss float64, df int) {
		if f == nil {
			return Undefined(none), 0, 0
		}
		if f.levels() < 2 {
			return Undefined("one " + f.name + " only"), 0, 0
		}
		without := fitAdditive(g.factors(f), g.y, nil)
		df = full.rank - without.rank
		if df < 1 {
			return Undefined("it cannot be told apart from the other factors"), 0, 0
		}
		ss = max(0, without.sse-sse)
		return shareValue(ss, total, df, sse, full.df()), ss, df
	}
	var lost [3]float64
	var df [3]int
	d.Layer, lost[0], df[0] = share(g.layer, "")
	d.Expert, lost[1], df[1] = share(g.expert, "no experts")
	d.Projection, lost[2], df[2] = share(g.projection, "")
	d.LayerByChance, d.ExpertByChance, d.ProjectionByChance = chance(df[0], n), chance(df[1], n), chance(df[2], n)

	// Rounding leaves some 1e-13 of nothing.
	confounded := (total - sse - lost[0] - lost[1] - lost[2]) / total
	if math.Abs(confounded) < 1e-9 {
		confounded = 0
	}
	d.Confounded = Exact(confounded)
	model := shareValue(total-sse, total, full.rank-1, sse, full.df())
	left := sse / total
	d.Remainder = Value{V: left, Low: min(left, 1-model.High), High: max(left, 1-model.Low)}
}

// chance is the share that a factor of df degrees of freedom has of pure noise.
func chance(df, n int) float64 { return float64(df) / float64(n-1) }

// shareValue is ss/total with its interval.
func shareValue(ss, total float64, df int, sse float64, dfe int) Value {
	v := Exact(ss / total)
	if df < 1 || !(sse > 0) {
		return v
	}
	mse := sse / float64(dfe)
	f := ss / float64(df) / mse
	rest := (total - ss) / mse
	worth := func(lambda float64) float64 {
		e := float64(df) + lambda
		return e / (e + rest)
	}
	if low, high, ok := noncentralities(f, float64(df), float64(dfe)); ok {
		v.Low, v.High = min(v.V, worth(low)), max(v.V, worth(high))
	}
	return v
}

// noncentralities inverts the noncentral F at both ends of Confidence (Steiger
// and Fouladi 1997), to 1e-6 of the answer. It is false where that is out of
// reach.
func noncentralities(f, d1, d2 float64) (low, high float64, ok bool) {
	const tail = (1 - Confidence) / 2
	low, ok1 := noncentralityAt(f, d1, d2, 1-tail)
	high, ok2 := noncentralityAt(f, d1, d2, tail)
	return low, high, ok1 && ok2
}

// noncentralityAt is the λ with P(F ≤ f) = p, 0 where even λ = 0 has less. The
// search is regula falsi with bisection (Illinois) within a normal guess.
func noncentralityAt(f, d1, d2, p float64) (float64, bool) {
	const most = 1e6 // beyond, an effect leaves nothing to ask about
	if !(f >= 0) || f*d1 > most {
		return 0, false
	}
	at := func(l float64) float64 { return stats.NoncentralFCDF(f, d1, d2, l) - p }
	a, fa := 0.0, at(0)
	if math.IsNaN(fa) {
		return 0, false
	}
	if fa <= 0 {
		return 0, true
	}
	b := d1*f + 4*math.Sqrt(d1) + 4
	fb := at(b)
	for fb > 0 {
		if a, fa, b = b, fb, 2*b; b > 100*most {
			return 0, false
		}
		fb = at(b)
	}
	for range 60 {
		if b-a <= 1e-6*b {
			break
		}
		c := (a*fb - b*fa) / (fb - fa)
		if !(c > a && c < b) {
			c = (a + b) / 2
		}
		fc := at(c)
		switch {
		case fc == 0:
			return c, true
		case fc > 0:
			a, fa, fb = c, fc, fb/2
		default:
			b, fb, fa = c, fc, fa/2
		}
	}
	return (a + b) / 2, true
}

// anova tests whether the means of expert indices differ.
func (g *group) anova(context.Context) {
	a := &g.report.Anova
	refuse := func(why string) {
		v := Undefined(why)
		a.Why = why
		a.F, a.P, a.Log10P, a.OverExpected, a.Omega2, a.KruskalH, a.KruskalP, a.AdjustedF, a.AdjustedP = v, v, v, v, v, v, v, v, v
	}
	switch {
	case len(g.y) == 0:
		refuse(whyNothing)
		return
	case g.expert == nil:
		refuse("no experts")
		return
	}
	groups := make([]int, len(g.y))
	for i, l := range g.expert.level {
		groups[i] = int(l)
	}
	one := stats.OneWay(g.y, groups)
	a.Experts, a.DFBetween, a.DFWithin = g.expert.levels(), one.DFBetween, one.DFWithin
	if one.Why != "" {
		refuse(one.Why)
		return
	}
	a.F, a.P, a.Log10P = Exact(one.F), Exact(one.P), Exact(one.LogP/math.Ln10)
	a.Omega2 = Exact(max(0, one.Omega2)) // the estimate may be negative, a share is not
	if isFinite(one.OmegaLow) && isFinite(one.OmegaHigh) {
		a.Omega2.Low, a.Omega2.High = min(a.Omega2.V, one.OmegaLow), max(a.Omega2.V, one.OmegaHigh)
	}
	a.OverExpected = g.overExpected(one.SSBetween + one.SSWithin)
	a.KruskalH, a.KruskalP = Undefined("not tested"), Undefined("not tested")
	if k := stats.KruskalWallis(g.y, groups); k.Why == "" {
		a.KruskalH, a.KruskalP = Exact(k.Statistic), Exact(k.P)
	} else {
		a.KruskalH, a.KruskalP = Undefined(k.Why), Undefined(k.Why)
	}
	a.AdjustedF, a.AdjustedP = g.adjustedAnova()
}

// overExpected is the variance of the experts' means over what it would be in
// the mean if tensors were dealt to experts at random, S²·mean(1/n). The
// interval takes the means for a normal sample (χ²).
func (g *group) overExpected(total float64) Value {
	f := g.expert
	sums := make([]float64, f.levels())
	for i, l := range f.level {
		sums[l] += g.y[i]
	}
	inverse := 0.0
	for l := range sums {
		sums[l] /= float64(f.count[l])
		inverse += 1 / float64(f.count[l]) / float64(len(sums))
	}
	_, variance, _, _ := stats.Moments(sums)
	expected := total / float64(len(g.y)-1) * inverse
	if !(expected > 0) {
		return Undefined(whyConstant)
	}
	v := Exact(variance / expected)
	df := float64(len(sums) - 1)
	chi := distuv.ChiSquared{K: df}
	v.Low, v.High = v.V*df/chi.Quantile((1+Confidence)/2), v.V*df/chi.Quantile((1-Confidence)/2)
	if !isFinite(v.Low) || !isFinite(v.High) {
		return Exact(v.V)
	}
	return v
}

// adjustedAnova tests the experts beside the means of layer and projection: F
// of what a model with both loses without the experts.
func (g *group) adjustedAnova() (f, p Value) {
	if why := g.tooMany(); why != "" {
		return Undefined(why), Undefined(why)
	}
	without := fitAdditive([]*factor{g.cell}, g.y, nil)
	with := fitAdditive([]*factor{g.cell, g.expert}, g.y, nil)
	d1, d2 := with.rank-without.rank, with.df()
	total, _ := sumOfSquares(g.y)
	switch {
	case d1 < 1:
		v := Undefined("experts cannot be told apart from layers and projections")
		return v, v
	case d2 < 1:
		v := Undefined("as many experts, layers and projections as tensors")
		return v, v
	case !(with.sse > 1e-18*total):
		v := Undefined("layer, projection and expert leave no variance")
		return v, v
	}
	stat := max(0, without.sse-with.sse) / float64(d1) / (with.sse / float64(d2))
	tail, _ := stats.FTail(stat, float64(d1), float64(d2))
	return Exact(stat), Exact(tail)
}
