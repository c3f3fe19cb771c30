package views

import (
	"fmt"
	"math"
	"slices"

	"quantscope/analysis/landscape"
	"quantscope/quant/topology"
	"quantscope/sessions"
)

// handReport is a report of a variant with the means of the records, and with
// effects that a test knows: layer 3 is shifted, expert 7 and two tensors are a
// tail.
func handReport(s *sessions.State, variant int) *landscape.Report {
	between := func(v, rel float64) landscape.Value {
		return landscape.Value{V: v, Low: v * (1 - rel), High: v * (1 + rel)}
	}
	level := func(name string, of func(r *topology.Role) bool) landscape.Level {
		l := landscape.Level{Name: name, Kind: landscape.LevelEven, P: landscape.Exact(1)}
		sum := 0.0
		for t := range s.Tensors {
			if r := &s.Records[variant][t]; of(&s.Tensors[t].Role) {
				l.Members = append(l.Members, t)
				if r.Seq != 0 && !r.Failed {
					l.N++
					sum += r.Rel2
				}
			}
		}
		l.Mean, l.Ratio = between(sum/float64(max(l.N, 1)), 0.004), between(1+0.001*float64(len(name)), 0.003)
		if l.N == 0 {
			l.Mean, l.Ratio = landscape.Undefined("nothing is measured"), landscape.Undefined("nothing is measured")
			l.P = landscape.Undefined("nothing is measured")
		}
		return l
	}
	g := landscape.Group{Role: "routed experts", Tensors: len(s.Tensors), Worst: 11, WorstTensor: s.Tensors[11].Name, WorstCount: 3}
	sum := 0.0
	lo, hi := 1.0, 0.0
	for t := range s.Tensors {
		switch r := &s.Records[variant][t]; {
		case r.Seq == 0:
			g.Pending++
		case r.Failed:
			g.Failed++
		case !isNumber(r.Rel2):
			g.LeftOut++
		default:
			sum += r.Rel2
			lo, hi = min(lo, r.Cos), max(hi, r.Cos)
		}
	}
	n := g.Tensors - g.Pending - g.Failed - g.LeftOut
	g.CosMin, g.CosMax, g.MeanRel2 = landscape.Exact(lo), landscape.Exact(hi), between(sum/float64(max(n, 1)), 0.002)
	g.MeanRelL2 = landscape.Exact(math.Sqrt(g.MeanRel2.V))
	g.WorstOverMean, g.WorstShare = between(1.021, 0.002), between(0.0131, 0.01)
	g.Decomposition = landscape.Decomposition{
		Layer: between(0.312, 0.1), Expert: between(0.021, 0.3), Projection: between(0.187, 0.1), Confounded: landscape.Exact(0), Remainder: between(0.48, 0.05),
	}
	g.Anova = landscape.Anova{
		Experts: 16, DFBetween: 15, DFWithin: 224, F: landscape.Exact(1.184), P: landscape.Exact(0.284), Log10P: landscape.Exact(math.Log10(0.284)), OverExpected: landscape.Exact(1.18),
		Omega2: landscape.Value{V: 0.0113, Low: 0, High: 0.0391}, KruskalH: landscape.Exact(17.2), KruskalP: landscape.Exact(0.307), AdjustedF: landscape.Exact(2.4), AdjustedP: landscape.Exact(0.0031),
	}
	g.Neighbours.Mean = landscape.Value{V: 0.052, Low: -0.21, High: 0.31}
	for i, pair := range []string{"L1 L2", "L2 L3", "L3 L4", "L4 M5"} {
		rho := -0.3 + 0.2*float64(i)
		g.Neighbours.Pairs = append(g.Neighbours.Pairs, landscape.RankPair{A: pair[:2], B: pair[3:], N: 16, Rho: landscape.Value{V: rho, Low: rho - 0.45, High: min(rho+0.45, 1)}, P: landscape.Exact(0.3)})
	}
	for i, name := range []string{"amax", "std", "kurtosis"} {
		g.Selectors = append(g.Selectors, landscape.Selector{
			Name: name, K: 3, Hits: i, Overlap: landscape.Exact(float64(i) / 3), Expected: landscape.Exact(3.0 / 240), P: landscape.Exact(0.04), Rho: landscape.Value{V: 0.1 * float64(i), Low: -0.05, High: 0.4},
		})
	}
	g.Selectors[1].Overlap, g.Selectors[1].Rho = landscape.Undefined("the records do not have it"), landscape.Undefined("the records do not have it")
	var layers, experts []int
	for t := range s.Tensors {
		r := &s.Tensors[t].Role
		if !slices.Contains(layers, r.Layer) {
			layers = append(layers, r.Layer)
		}
		if !slices.Contains(experts, r.Expert) {
			experts = append(experts, r.Expert)
		}
	}
	for _, k := range layers {
		name := fmt.Sprintf("L%d", k)
		if k == s.Meta.Layers-1 && s.Meta.MTPLayers > 0 {
			name = fmt.Sprintf("M%d", k)
		}
		g.Layers = append(g.Layers, level(name, func(r *topology.Role) bool { return r.Layer == k }))
	}
	for _, k := range experts {
		g.Experts = append(g.Experts, level(fmt.Sprintf("expert %d", k), func(r *topology.Role) bool { return r.Expert == k }))
	}
	for _, name := range []string{"gate", "up", "down"} {
		g.Projections = append(g.Projections, level(name, func(r *topology.Role) bool { return r.Projection == name }))
	}
	g.Layers[2].Kind, g.Layers[2].Ratio, g.Layers[2].P = landscape.LevelShift, landscape.Value{V: 1.061, Low: 1.052, High: 1.07}, landscape.Exact(3e-21)
	if len(g.Experts) > 7 {
		g.Experts[7].Kind, g.Experts[7].Ratio, g.Experts[7].P, g.Experts[7].Tail = landscape.LevelTail, landscape.Value{V: 1.034, Low: 1.011, High: 1.058}, landscape.Exact(0.0004), 2
	}
	g.Tail = landscape.Tail{Count: 2, Share: landscape.Exact(0.0113), Ratio: landscape.Value{V: 1.48, Low: 1.41, High: 1.55}, Items: []int{48, 21}}
	for _, t := range g.Tail.Items {
		g.Tail.Tensors = append(g.Tail.Tensors, s.Tensors[t].Name)
	}
	g.Clamps = landscape.Clamps{High: 31, Low: 2, Blocks: 245760, Places: []landscape.ClampPlace{
		{Layer: "L3", Projection: "down", Tensors: 4, High: 29, Blocks: 16384}, {Layer: "M5", Projection: "up", Tensors: 2, High: 2, Low: 2, Blocks: 16384},
	}}
	g.Verdict = landscape.Verdict{
		Kind:     landscape.Structured,
		Sentence: "structured: L3 is ×1.061 [1.052, 1.070] off as a whole and 2 of 240 tensors stand out, but the worst 1 % hold 1.31 % of the error, so an exemption list of them can remove no more than that.",
		Effects: []landscape.Effect{
			{Kind: "tail", Name: "2 of 240 tensors", Ratio: g.Tail.Ratio, P: landscape.Exact(1e-9)},
			{Kind: "layer", Name: "L3", Ratio: g.Layers[2].Ratio, P: g.Layers[2].P},
		},
	}
	return &landscape.Report{Variant: s.Variants[variant].Name, Groups: []landscape.Group{g}}
}

// handPricing is prices of which the lists by rel2 and by layer beat the
// controls.
func handPricing(base string) *landscape.Pricing {
	curve := func(name string, control bool, bend, spread float64) landscape.Curve {
		c := landscape.Curve{Name: name, Control: control}
		for i := range 41 {
			f := float64(i) / 40
			e := 0.009 * (1 - f) * (1 - bend*math.Sin(math.Pi*f))
			w := spread * 0.009 * f * (1 - f)
			c.Points = append(c.Points, landscape.Point{
				Exempted: 6 * i, Bytes: int64(2.2e6 + f*5.6e6), BitsPerWeight: 4.5 + f*11.5, MeanRel2: e, Low: e - w, High: e + w,
			})
		}
		return c
	}
	return &landscape.Pricing{
		Base: base, Protect: "source", Tensors: 240, Repeats: 20, Seed: 1,
		Curves: []landscape.Curve{
			curve("rel2", false, 0.06, 0), curve("amax", false, 0.005, 0), curve("layer", false, 0.03, 0), curve("projection", false, 0.02, 0),
			curve("random", true, 0, 0.12), curve("uniform", true, 0.001, 0), curve("reversed", true, -0.06, 0),
		},
		Against: []landscape.Comparison{
			{List: "rel2", Beats: true, Pays: true, From: 5.1, To: 14.9, At: 9.2, Gain: 0.031}, {List: "amax"},
			{List: "layer", Beats: true, From: 6, To: 13, At: 10.2, Gain: 0.0081}, {List: "projection", Worse: true, At: 12.1, Gain: -0.0004},
		},
	}
}

// handAnswer is an answer to a budget over all variants and the source.
func handAnswer(s *sessions.State, budget int64) *LandscapeAnswer {
	point := func(name string, mean, low, high float64) landscape.Curve {
		return landscape.Curve{Name: name, Control: true, Points: []landscape.Point{{MeanRel2: mean, Low: low, High: high}}}
	}
	a := &LandscapeAnswer{
		Budget:     budget,
		Assignment: landscape.Assignment{Arm: make([]int, len(s.Tensors)), Bytes: budget - 12, Budget: budget, Bits: 5.64, Error: 0.00662, Bound: 0.006618, Gap: 0.000302},
		Controls:   []landscape.Curve{point("random", 0.00671, 0.00669, 0.00673), point("uniform", 0.0067, 0.0067, 0.0067), point("reversed", 0.0068, 0.0068, 0.0068)},
		Verdict:    "beats its controls: 1.3 % less error than random assignments of the same size, whose spread is ±0.3 %.",
	}
	for v := range s.Variants {
		a.Arms = append(a.Arms, s.Variants[v].Name)
		a.Assignment.Counts = append(a.Assignment.Counts, 40+20*v)
	}
	a.Arms = append(a.Arms, sessions.SourceArm)
	a.Assignment.Counts = append(a.Assignment.Counts, 24)
	return a
}

// handLandscape is the pane with all that a root can give it.
func handLandscape(s *Scene) *Landscape {
	p := NewLandscape(s)
	p.Stamp()
	for v := range s.State.Variants {
		p.SetReport(v, handReport(s.State, v), "")
	}
	p.SetPricing(handPricing(s.State.Variants[s.Variant].Name), "")
	elements := int64(0)
	for i := range s.State.Tensors {
		elements += int64(s.State.Tensors[i].Rows) * int64(s.State.Tensors[i].Cols)
	}
	p.SetRange(elements*9/16, elements*2, elements, "")
	budget, _ := p.Budget()
	p.SetAnswer(handAnswer(s.State, budget), "")
	return p
}
