package landscape

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"quantscope/analysis/stats"
	"quantscope/quant/topology"
)

// group gathers what the analysis of one role works on.
type group struct {
	table *Table
	arm   *Arm
	kind  topology.Kind
	items []int     // measured with finite figures, in the table's order
	y     []float64 // rel2 of each

	layer, expert, projection, cell *factor // expert is nil where there are no experts

	report *Group
}

// kindWords are roles in words.
var kindWords = map[topology.Kind]string{
	topology.Embedding: "embedding", topology.Head: "head", topology.Norm: "norms",
	topology.Attention: "attention", topology.MLP: "dense MLP", topology.Expert: "routed experts",
	topology.SharedExpert: "shared experts", topology.Router: "routers", topology.MTPExtra: "MTP extras",
	topology.Vision: "vision", topology.Mixing: "mixing", topology.Unknown: "unknown",
}

func roleWord(k topology.Kind) string {
	if w, ok := kindWords[k]; ok {
		return w
	}
	return k.String()
}

// newGroup counts the items of one role and keeps those with figures.
func newGroup(t *Table, arm int, kind topology.Kind, items []int) *group {
	g := &group{table: t, arm: &t.Arms[arm], kind: kind, report: &Group{
		Role: roleWord(kind), Tensors: len(items), Worst: -1,
		Neighbours: Neighbours{Pairs: []RankPair{}}, Experts: []Level{},
		Tail: Tail{Tensors: []string{}}, Clamps: Clamps{Places: []ClampPlace{}}, // lists are not null in JSON
	}}
	for _, i := range items {
		switch s := &g.arm.Samples[i]; {
		case s.State == Pending:
			g.report.Pending++
		case s.State == Failed:
			g.report.Failed++
		case !isFinite(s.Rel2) || !isFinite(s.RelL2) || !isFinite(s.Cos) || s.Rel2 < 0:
			g.report.LeftOut++
		default:
			g.items = append(g.items, i)
			g.y = append(g.y, s.Rel2)
		}
	}
	n := len(g.items)
	role := func(i int) *topology.Role { return &t.Items[g.items[i]].Role }
	g.layer = newFactor("layer", n, func(i int) layerKey { return layerOf(role(i)) }, byLayer, layerKey.String)
	g.projection = newFactor("projection", n, func(i int) string { return role(i).Projection }, byProjection, projectionName)
	g.cell = newFactor("cell", n, func(i int) [2]int32 { return [2]int32{g.layer.level[i], g.projection.level[i]} },
		func(a, b [2]int32) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) },
		func(k [2]int32) string { return g.layer.names[k[0]] + " " + g.projection.names[k[1]] })
	if slices.ContainsFunc(g.items, func(i int) bool { return t.Items[i].Role.Expert >= 0 }) {
		g.expert = newFactor("expert", n, func(i int) int { return role(i).Expert }, cmp.Compare[int], expertName)
	}
	return g
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// mostLevels bounds layers, experts and projections together: time grows with the
// cube of their number, and no model has as many.
const mostLevels = 1500

// tooMany says why there is no model of a group; "" where there is one.
func (g *group) tooMany() string {
	n := max(g.layer.levels()+g.projection.levels(), g.cell.levels())
	if g.expert != nil {
		n += g.expert.levels()
	}
	if n > mostLevels {
		return fmt.Sprintf("%d layers, experts and projections are more than the %d that are told apart", n, mostLevels)
	}
	return ""
}

// factors are those of the additive model, without one.
func (g *group) factors(without *factor) []*factor {
	var fs []*factor
	for _, f := range []*factor{g.projection, g.layer, g.expert} {
		if f != nil && f != without {
			fs = append(fs, f)
		}
	}
	return fs
}

// analyze fills the report. The error is that of ctx.
func (g *group) analyze(ctx context.Context) (*Group, error) {
	g.summary()
	g.clamps()
	steps := []func(context.Context){
		g.worstShare, g.decompose, g.anova, g.neighbours, g.selectors, g.outliers,
	}
	for _, step := range steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		step(ctx)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g.verdict()
	return g.report, nil
}

// Reasons why a figure does not exist.
const (
	whyNothing  = "nothing measured"
	whyConstant = "all tensors have the same error"
	whyNoError  = "no tensor has an error"
)

// summary fills in means, spans and the worst tensor.
func (g *group) summary() {
	r := g.report
	n := len(g.items)
	if n == 0 {
		none := Undefined(whyNothing)
		r.CosMin, r.CosMax, r.MeanRel2, r.MeanRelL2, r.WorstOverMean, r.WorstShare = none, none, none, none, none, none
		return
	}
	l2 := make([]float64, n)
	low, high, worst := math.Inf(1), math.Inf(-1), 0
	for k, i := range g.items {
		s := &g.arm.Samples[i]
		low, high = min(low, s.Cos), max(high, s.Cos)
		l2[k] = s.RelL2
		if l2[k] > l2[worst] {
			worst = k
		}
	}
	r.CosMin, r.CosMax = Exact(low), Exact(high)
	r.MeanRel2, r.MeanRelL2 = meanValue(g.y), meanValue(l2)
	r.Worst = g.items[worst]
	r.WorstTensor = g.table.Items[r.Worst].Name
	r.WorstCount = onePercent(n)
	r.WorstOverMean = Undefined(whyNoError)
	if r.MeanRelL2.V > 0 {
		r.WorstOverMean = Exact(l2[worst] / r.MeanRelL2.V)
	}
}

// onePercent is the length of a worst list.
func onePercent(n int) int { return max(1, (n+50)/100) }

// meanValue is a mean with the interval of Student's t, which takes the values
// for a sample of many more like them.
func meanValue(v []float64) Value {
	mean, variance, _, _ := stats.Moments(v)
	out := Exact(mean)
	if n := len(v); n >= 3 && variance > 0 && isFinite(variance) {
		half := studentQuantile(n-1) * math.Sqrt(variance/float64(n))
		out.Low, out.High = mean-half, mean+half
	}
	return out
}

// resampleBudget bounds the draws of a bootstrap: 1,000 resamples up to 20,000
// tensors, fewer beyond, at least 200.
const (
	resampleBudget = 20_000_000
	bootstrapSeed  = 1
)

func resamples(n int) int { return min(1000, max(200, resampleBudget/max(n, 1))) }

// worstShare is the share of Σrel2 in the worst 1 %. The interval holds two: the
// percentile bootstrap over tensors, with the seed 1, which reaches too little far
// up while few tensors are the worst ones, since no resample has worse ones; and
// the jackknife's on logarithms with Student's t of as many degrees of freedom as
// there are worst tensors, which does not see that a tail may be a tensor more or
// less. Each covers what the other misses.
func (g *group) worstShare(context.Context) {
	n := len(g.y)
	if n == 0 {
		return
	}
	sorted := slices.Clone(g.y)
	slices.SortFunc(sorted, func(a, b float64) int { return cmp.Compare(b, a) })
	k := g.report.WorstCount
	times := make([]int32, n) // how often each was drawn
	share := func(idx []int) float64 {
		clear(times)
		total := 0.0
		for _, i := range idx {
			times[i]++
			total += sorted[i]
		}
		held, left := 0.0, k
		for i := 0; left > 0; i++ {
			take := min(left, int(times[i]))
			held += float64(take) * sorted[i]
			left -= take
		}
		return held / total
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	v := share(all)
	if !isFinite(v) {
		g.report.WorstShare = Undefined(whyNoError)
		return
	}
	g.report.WorstShare = Exact(v)
	if n < 3 || sorted[0] == sorted[n-1] {
		return
	}
	if b := stats.BootstrapCI(n, bootstrapSeed, resamples(n), share, Confidence); b.Why == "" {
		far := math.Exp(studentQuantile(k) * jackknifeOfTop(sorted, k) / v)
		g.report.WorstShare.Low = max(min(b.Low, v/far), float64(k)/float64(n)) // no k have less
		g.report.WorstShare.High = min(max(b.High, v*far), 1)
	}
}

// jackknifeOfTop is the standard error of the share of the first k of falling
// values, k below their number, by leaving out each (Tukey 1958).
func jackknifeOfTop(sorted []float64, k int) float64 {
	top, total := 0.0, 0.0
	for i, v := range sorted {
		total += v
		if i < k {
			top += v
		}
	}
	without := func(i int) float64 {
		if i < k {
			return (top - sorted[i] + sorted[k]) / (total - sorted[i])
		}
		return top / (total - sorted[i])
	}
	n, mean, squares := float64(len(sorted)), 0.0, 0.0
	for i := range sorted {
		mean += without(i) / n
	}
	for i := range sorted {
		d := without(i) - mean
		squares += d * d
	}
	return math.Sqrt((n - 1) / n * squares)
}
