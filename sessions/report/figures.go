package report

import (
	"fmt"
	"math"

	"quantscope/analysis/landscape"
)

// Figure is one statistic of a group, written out.
type Figure struct {
	Part     string // error, worst 1 %, variance, …: figures of a part follow one another
	Name     string
	Gloss    string // what it says, in a few words
	Value    string
	Interval string // "[low, high]" at the level landscape.Confidence, or ""
	Why      string // why there is no value
	key      float64
}

// Figures are the statistics of a group in the order in which they are read.
// Every group has the same ones.
func Figures(g *landscape.Group) []Figure {
	var out []Figure
	part := ""
	add := func(name, gloss string, v landscape.Value, write func(float64) string) {
		f := Figure{Part: part, Name: name, Gloss: gloss, key: v.V}
		f.Value, f.Interval, f.Why = written(v, write)
		out = append(out, f)
	}
	count := func(name, gloss string, n int64) {
		out = append(out, Figure{Part: part, Name: name, Gloss: gloss, Value: thousands(n), key: float64(n)})
	}

	part = "error"
	add("mean rel2", "‖w−q‖²/‖w‖², mean over tensors", g.MeanRel2, digits(4))
	add("mean rel_l2", "its root, mean over tensors", g.MeanRelL2, digits(4))
	add("lowest cosine", "of weights and their dequantized values", g.CosMin, Places(5))
	add("highest cosine", "", g.CosMax, Places(5))

	part = "worst"
	add("worst over mean", "1: the worst tensor is as the others", g.WorstOverMean, Places(3))
	add("share of worst 1 %", fmt.Sprintf("error held by the worst %s", counted(g.WorstCount, "tensor", "tensors")), g.WorstShare, Share)
	tail := g.Tail
	if tail.Why != "" {
		undefined := landscape.Undefined(tail.Why)
		add("tensors in the tail", "that layer, expert and projection do not explain", undefined, digits(4))
	} else {
		count("tensors in the tail", "that layer, expert and projection do not explain", int64(tail.Count))
	}
	add("share of the tail", "error held by these", tail.Share, Share)
	v := g.Verdict
	add("error in what stands out", "what protecting all of it could remove at most", v.ErrorShare, Share)
	add("bytes of it", "what that would be paid with", v.ByteShare, Share)

	part = "variance of rel2"
	d := g.Decomposition
	noise := func(x float64) string {
		if x == 0 { // nothing is explained
			return "explained by it"
		}
		return "explained by it; noise would have " + Share(x)
	}
	add("by layer", noise(d.LayerByChance), d.Layer, Share)
	add("by expert index", noise(d.ExpertByChance), d.Expert, Share)
	add("by projection", noise(d.ProjectionByChance), d.Projection, Share)
	add("not told apart", "explained by more than one of them", d.Confounded, Share)
	add("remainder", "of single tensors", d.Remainder, Share)

	part = "expert index (ANOVA)"
	a := g.Anova
	or := func(v landscape.Value) landscape.Value {
		if a.Why != "" && (v.Defined() || v.Why == "") {
			return landscape.Undefined(a.Why)
		}
		return v
	}
	free := ""
	if a.Why == "" && a.DFWithin > 0 {
		free = fmt.Sprintf("with %d and %d degrees of freedom", a.DFBetween, a.DFWithin)
	}
	add("F", free, or(a.F), digits(4))
	add("p", "of as large an F by chance", or(pValue(a)), Chance)
	add("between over expected", "variance of experts' means; 1 by chance", or(a.OverExpected), Places(2))
	add("ω²", "share of variance in the long run; 0 where there is less than by chance", or(a.Omega2), Share)
	add("Kruskal–Wallis p", "the same by ranks", or(a.KruskalP), Chance)
	add("adjusted p", "layer and projection taken out", or(a.AdjustedP), Chance)

	part = "neighbouring layers"
	mean := g.Neighbours.Mean
	if g.Neighbours.Why != "" {
		mean = landscape.Undefined(g.Neighbours.Why)
	}
	add("mean ρ of experts' ranks", "1: the same experts are worst next door", mean, Places(3))

	part = "block scales"
	count("clamped high", fmt.Sprintf("of %s blocks", thousands(g.Clamps.Blocks)), g.Clamps.High)
	count("clamped low", "", g.Clamps.Low)
	return out
}

// pValue is P, or where it is too small to be a number, its decade.
func pValue(a landscape.Anova) landscape.Value {
	if a.P.Defined() && a.P.V == 0 && a.Log10P.Defined() && !math.IsInf(a.Log10P.V, 0) {
		return landscape.Exact(math.Pow(10, a.Log10P.V)) // 0 still below 1e-323
	}
	return a.P
}

// Standout is a layer, expert index or projection that is not as the others.
type Standout struct {
	Axis  string // layer, expert, projection
	Level landscape.Level
}

// Standouts are the levels of a group that are not even.
func Standouts(g *landscape.Group) []Standout {
	var out []Standout
	for _, axis := range []struct {
		name   string
		levels []landscape.Level
	}{{"layer", g.Layers}, {"expert", g.Experts}, {"projection", g.Projections}} {
		for _, l := range axis.levels {
			if l.Kind != landscape.LevelEven && l.Kind != "" {
				out = append(out, Standout{axis.name, l})
			}
		}
	}
	return out
}

// Written is a level's figures as text: size of its set, mean, ratio with
// interval, p, and what is different.
func (s Standout) Written() (n, mean, against, p, kind string) {
	l := s.Level
	mean, _, _ = written(l.Mean, digits(4))
	against, interval, why := written(l.Ratio, ratio)
	if interval != "" {
		against += " " + interval
	}
	if why != "" {
		against += " (" + why + ")"
	}
	p, _, _ = written(l.P, Chance)
	kind = string(l.Kind)
	if l.Kind == landscape.LevelTail {
		kind = fmt.Sprintf("tail, %d of %d", l.Tail, l.N)
	}
	return thousands(int64(l.N)), mean, against, p, kind
}
