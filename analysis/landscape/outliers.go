package landscape

import (
	"cmp"
	"context"
	"math"
	"slices"

	"quantscope/analysis/stats"
)

// What counts as found. Both must hold, for each of the four families of
// comparisons (layers, experts, projections, single tensors) of a group.
const (
	// FamilyAlpha is how likely a family finds something where there is nothing,
	// after adjusting for all that was looked at: 0.2 % a group and less than 1 %
	// a checkpoint of four groups, which docs/landscape.md measures.
	FamilyAlpha = 0.0005
	// LevelFloor is the least ratio, or its inverse, of a layer, expert or
	// projection that is worth naming; smaller ones are real and do not matter.
	LevelFloor = 1.01
	// TailFloor is the same for single tensors.
	TailFloor = 1.05
)

const (
	leastDF       = 3  // of residuals, to test anything
	robustDF      = 60 // of residuals, from which on their median says something
	leastInCell   = 8  // tensors of a layer and projection, to have an expectation of its own
	startOutlier  = 4  // deviations; where the search for outliers starts
	outlierRounds = 8
	huber         = 1.345 // 95 % efficient at the normal distribution (Huber 1964)
)

// robust is what outliers leave of a group, on logarithms of rel2.
type robust struct {
	items  []int // indices into the group's; those with an error above 0
	x      []float64
	weight []float64 // relative precision
	out    []bool    // stands out of what layer, expert and projection explain, either way
	tail   []bool    // stands out as worse, beyond TailFloor
	p      []float64 // two-sided, adjusted (Benjamini and Hochberg 1995)
	off    []float64 // residual: logarithm of rel2 over what was expected
	se     []float64 // of off
	df     int

	layer, expert, projection, cell *factor // of items
}

// outliers looks for tensors and levels that stand out.
//
// Effects multiply, so logarithms are taken. Outliers are found in two steps: a
// Huber fit gives a first list that masks nothing; then ordinary least squares
// without the list, and each tensor's deviation as Student's t, until the list
// stays. Small groups have no first list, which would take chance for outliers, and
// tensors are taken out one by one. What is left is as good as normal, so levels
// are compared by least squares too.
func (g *group) outliers(ctx context.Context) {
	r, why := g.robust(ctx)
	if r == nil {
		t := &g.report.Tail
		t.Why, t.Share, t.Ratio, t.P = why, Undefined(why), Undefined(why), Undefined(why)
		g.levels(nil, why)
		return
	}
	g.tail(r)
	g.levels(r, "")
}

// robust finds the outliers. The reason says why there is nothing to find.
func (g *group) robust(ctx context.Context) (*robust, string) {
	r := &robust{}
	for i, y := range g.y {
		if y > 0 {
			r.items = append(r.items, i)
			r.x = append(r.x, math.Log(y))
		}
	}
	n := len(r.x)
	switch {
	case len(g.y) == 0:
		return nil, whyNothing
	case n == 0:
		return nil, whyNoError
	case n < 3:
		return nil, "fewer than three tensors"
	case constantSlice(r.x):
		return nil, whyConstant
	case g.tooMany() != "":
		return nil, g.tooMany()
	}
	pick := func(f *factor) *factor {
		if f == nil {
			return nil
		}
		return newFactor(f.name, n, func(i int) int32 { return f.level[r.items[i]] }, cmp.Compare[int32], func(l int32) string { return f.names[l] })
	}
	r.layer, r.expert, r.projection, r.cell = pick(g.layer), pick(g.expert), pick(g.projection), pick(g.cell)
	factors := r.expected()
	r.weight = make([]float64, n)
	for i := range r.weight {
		r.weight[i] = 1
	}
	r.out, r.off, r.se, r.p = make([]bool, n), make([]float64, n), make([]float64, n), make([]float64, n)
	f := fitAdditive(factors, r.x, nil)
	if f.df() < leastDF {
		return nil, "layers, experts and projections leave nothing to compare with"
	}
	if total, _ := sumOfSquares(r.x); !(f.sse > 1e-18*total) {
		return nil, "layer, expert and projection leave no variance"
	}
	many := f.df() >= robustDF
	if many {
		f = r.huber(ctx, factors, f)
	}
	r.weigh(g, f)
	if many {
		f = r.huber(ctx, factors, f)
		r.start(f)
	}
	if why := r.settle(ctx, factors, many); why != "" {
		return nil, why
	}
	return r, ""
}

// expected are the factors that say what a tensor's error should be: layer and
// projection together where enough experts share them, else apart.
func (r *robust) expected() []*factor {
	if r.expert != nil && slices.Min(r.cell.count) >= leastInCell {
		return []*factor{r.cell, r.expert}
	}
	return r.additive()
}

func (r *robust) additive() []*factor {
	fs := []*factor{r.projection, r.layer}
	if r.expert != nil {
		fs = append(fs, r.expert)
	}
	return fs
}

// standardized are residuals by the square root of their weights.
func (r *robust) standardized(f *fit) []float64 {
	z := make([]float64, len(r.x))
	for i, x := range r.x {
		z[i] = (x - f.at(i)) * math.Sqrt(r.weight[i])
	}
	return z
}

// huber fits with Huber's weights, which no tail can pull far: the answer is
// unique, so it does not matter where the rounds start.
func (r *robust) huber(ctx context.Context, factors []*factor, f *fit) *fit {
	w := make([]float64, len(r.x))
	for range 6 {
		if ctx.Err() != nil {
			return f
		}
		z := r.standardized(f)
		sigma := mad(z, f.df(), len(z))
		if !(sigma > 0) {
			return f
		}
		bent := false
		for i := range w {
			w[i] = r.weight[i]
			if a := math.Abs(z[i]) / sigma; a > huber {
				w[i] *= huber / a
				bent = bent || a > 3
			}
		}
		f = fitAdditive(factors, r.x, w)
		if !bent { // nothing far out: one round is as good as six
			return f
		}
	}
	return f
}

// start makes the first list of outliers.
func (r *robust) start(f *fit) {
	z := r.standardized(f)
	sigma := mad(z, f.df(), len(z))
	for i := range z {
		r.out[i] = math.Abs(z[i]) > startOutlier*sigma
	}
	r.restore()
}

// restore takes levels back in of which more than half were taken out: they are
// not a tail, all of them are off.
func (r *robust) restore() {
	for _, f := range []*factor{r.layer, r.expert, r.projection, r.cell} {
		if f == nil {
			continue
		}
		gone := make([]int, f.levels())
		for i, l := range f.level {
			if r.out[i] {
				gone[l]++
			}
		}
		for i, l := range f.level {
			if r.out[i] && 2*gone[l] > f.count[l] && f.count[l] > 1 {
				r.out[i] = false
			}
		}
	}
}

// kept are the weights without outliers.
func (r *robust) kept() []float64 {
	w := slices.Clone(r.weight)
	for i, out := range r.out {
		if out {
			w[i] = 0
		}
	}
	return w
}

// settle repeats fit and list until the list stays. Without a first list an
// outlier pulls the fit of those that share its levels, and only the worst of an
// expert is taken out at a time, or the worst of all.
func (r *robust) settle(ctx context.Context, factors []*factor, many bool) (why string) {
	rounds := outlierRounds
	if !many {
		rounds = max(rounds, len(r.x)/4)
	}
	for range rounds {
		if ctx.Err() != nil {
			return ""
		}
		f := fitAdditive(factors, r.x, r.kept())
		if f.df() < leastDF || !(f.sse > 0) {
			return "layers, experts and projections leave nothing to compare with"
		}
		r.test(f)
		before := slices.Clone(r.out)
		if many {
			for i, p := range r.p {
				r.out[i] = p < FamilyAlpha
			}
		} else {
			r.takeWorst()
		}
		r.restore()
		if slices.Equal(before, r.out) {
			return ""
		}
	}
	return ""
}

// takeWorst takes the worst tensor of each expert out, or the worst of all.
func (r *robust) takeWorst() {
	worst := map[int32]int{}
	for i, p := range r.p {
		if r.out[i] || p >= FamilyAlpha {
			continue
		}
		var level int32
		if r.expert != nil {
			level = r.expert.level[i]
		}
		w, ok := worst[level]
		if !ok || math.Abs(r.off[i])*r.se[w] > math.Abs(r.off[w])*r.se[i] {
			worst[level] = i
		}
	}
	for _, i := range worst {
		r.out[i] = true
	}
}

// test compares each tensor with what the others say of it.
func (r *robust) test(f *fit) {
	f.invert()
	df := float64(f.df())
	r.df = f.df()
	mse := f.sse / df
	cols := make([]int, len(f.factors)+1)
	p := make([]float64, len(r.x))
	for i, x := range r.x {
		e, w, h := x-f.at(i), r.weight[i], f.leverage(i, cols)
		var t float64
		if r.out[i] {
			r.off[i], r.se[i] = e, math.Sqrt(mse*(1/w+h))
			t = e / r.se[i]
			p[i], _ = stats.StudentTail(math.Abs(t), df)
		} else {
			// Without the tensor itself the deviation is e/(1 − w·h), and its
			// share of the sum of squares is w·e²/(1 − w·h).
			left := 1 - w*h
			if left < 1e-9 { // it alone says what is expected of it
				r.off[i], r.se[i], p[i] = 0, math.Sqrt(mse/w), 1
				continue
			}
			without := max(0, f.sse-w*e*e/left) / (df - 1)
			r.off[i], r.se[i] = e/left, math.Sqrt(without/w/left)
			if r.se[i] == 0 {
				p[i] = 1
				if e != 0 {
					p[i] = 0
				}
				continue
			}
			p[i], _ = stats.StudentTail(math.Abs(r.off[i])/r.se[i], df-1)
		}
		p[i] = min(1, 2*p[i])
	}
	r.p = stats.BH(p)
}
