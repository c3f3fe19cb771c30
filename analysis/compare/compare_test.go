package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quantscope/analysis/landscape"
	"quantscope/quant/topology"
)

var (
	nan  = math.NaN()
	rel2 = Metric{Name: "rel2", Help: "‖w−q‖²/‖w‖²", Worse: 1, Relative: true}
	cos  = Metric{Name: "cos", Worse: -1}
	amax = Metric{Name: "amax", Relative: true}
)

// input is a comparison of measured experts: layer i/4, expert i%4/2, up and down
// in turn, 100 elements in 50 bytes under A and 60 under B.
func input(m Metric, a, b []float64) *Input {
	in := &Input{Metric: m, A: Side{Session: "one", Variant: "nvfp4"}, B: Side{Session: "two", Variant: "nvfp4+mse"}}
	for i := range a {
		in.Items = append(in.Items, Item{
			Name:     fmt.Sprintf("layers.%d.experts.%d.%s", i/4, i%4/2, []string{"up", "down"}[i%2]),
			Role:     topology.Role{Kind: topology.Expert, Layer: i / 4, Expert: i % 4 / 2, Projection: []string{"up", "down"}[i%2]},
			Elements: 100,
		})
	}
	for _, s := range []*Side{&in.A, &in.B} {
		s.States = slices.Repeat([]landscape.State{landscape.Measured}, len(a))
	}
	in.A.Values, in.B.Values = a, b
	in.A.Bytes, in.B.Bytes = slices.Repeat([]int64{50}, len(a)), slices.Repeat([]int64{60}, len(a))
	return in
}

func run(t testing.TB, in *Input, worst int) *Report {
	t.Helper()
	r, err := Run(in, worst)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-10*math.Abs(want) }

// TestComparison compares with figures worked out in another program: numpy for
// means, scipy.stats.wilcoxon(method="asymptotic"), scipy.stats.binom for the
// median's interval, and the ratio estimator written out.
func TestComparison(t *testing.T) {
	a := []float64{0.010, 0.012, 0.009, 0.011, 0.010, 0.013, 0.008, 0.010}
	b := []float64{0.008, 0.009, 0.009, 0.012, 0.007, 0.010, 0.009, 0.005}
	r := run(t, input(rel2, a, b), 10)
	if r.Tensors != 8 || r.Pairs != 8 || r.Wins != 5 || r.Ties != 1 || r.Losses != 2 || r.Undefined != 0 {
		t.Errorf("counts: %+v", r)
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"mean A", r.MeanA.V, 0.010375}, {"mean B", r.MeanB.V, 0.008625},
		{"change", r.Change.V, -0.1686746987951807},
		{"low", r.Change.Low, -0.3365507005729407}, {"high", r.Change.High, -0.0007986970174204966},
		{"median", r.Median.V, -0.21538461538461540}, {"median low", r.Median.Low, -0.5}, {"median high", r.Median.High, 0.125},
		{"plus", r.Wilcoxon.Plus, 3}, {"minus", r.Wilcoxon.Minus, 25}, {"z", r.Wilcoxon.Z.V, -1.8593393604027364}, {"p", r.Wilcoxon.P.V, 0.06297905121445523},
		{"size", r.Size.Change.V, 0.2}, {"bits A", r.Size.BitsA.V, 4}, {"bits B", r.Size.BitsB.V, 4.8},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%s is %v, want %v", c.name, c.got, c.want)
		}
	}
	if r.Size.A != 400 || r.Size.B != 480 || r.Size.Bytes != 80 {
		t.Errorf("size: %+v", r.Size)
	}
	var names []string
	for _, w := range r.Worst {
		names = append(names, fmt.Sprintf("%s %s %s %.4f", w.Tensor, w.Layer, w.Projection, w.Change.V))
	}
	if got, want := strings.Join(names, "; "), "layers.1.experts.1.up L1 up 0.1250; layers.0.experts.1.down L0 down 0.0909"; got != want {
		t.Errorf("worst: %s, want %s", got, want)
	}
	if len(r.Layers) != 2 || r.Layers[0].Name != "L0" || r.Layers[0].Pairs != 4 || r.Layers[0].Wins != 2 || !near(r.Layers[0].Change.V, -0.004/0.042) {
		t.Errorf("layers: %+v", r.Layers)
	}
	if len(r.Projections) != 2 || r.Projections[0].Name != "up" || r.Projections[1].Name != "down" || r.Projections[1].Losses != 1 {
		t.Errorf("projections: %+v", r.Projections)
	}
}

// TestDifferences: a metric that is no ratio is compared by its difference, and
// one whose larger values are better the other way round.
func TestDifferences(t *testing.T) {
	r := run(t, input(cos, []float64{0.99, 0.98, 0.97, 0.96}, []float64{0.991, 0.98, 0.965, 0.97}), 5)
	if r.Wins != 2 || r.Ties != 1 || r.Losses != 1 || !near(r.Change.V, 0.0015) || len(r.Worst) != 1 || !near(r.Worst[0].Change.V, -0.005) {
		t.Errorf("%+v", r)
	}
	// The standard deviation of 0.001, 0, −0.005, 0.01 is 0.006244998; t(0.975, 3) is 3.182446.
	if reach := 3.18244630528371 * 0.0062449979983984 / 2; !near(r.Change.High-r.Change.V, reach) {
		t.Errorf("interval %v to %v, want ± %v", r.Change.Low, r.Change.High, reach)
	}
	r = run(t, input(amax, []float64{1, 2}, []float64{2, 2}), 5)
	if r.Wins+r.Ties+r.Losses != 0 || len(r.Worst) != 0 || !near(r.Change.V, 1.0/3) {
		t.Errorf("a figure that is neither good nor bad: %+v", r)
	}
}

// TestWithoutEvidence: what cannot be told has its reason, and JSON says null.
func TestWithoutEvidence(t *testing.T) {
	pending := input(rel2, []float64{nan, nan}, []float64{0.1, 0.2})
	pending.A.States = []landscape.State{landscape.Pending, landscape.Pending}
	failed := input(rel2, []float64{nan}, []float64{0.1})
	failed.A.States[0] = landscape.Failed
	unknown := input(rel2, []float64{0.1}, []float64{0.2})
	unknown.B.Bytes[0] = -1
	for name, c := range map[string]struct {
		in    *Input
		check func(r *Report) bool
	}{
		"nothing": {input(rel2, nil, nil), func(r *Report) bool { return r.Pairs == 0 && !r.Size.Change.Defined() && len(r.Layers) == 0 }},
		"pending": {pending, func(r *Report) bool {
			return r.Pending == 2 && r.Pairs == 0 && !r.Change.Defined() && r.Layers[0].Pairs == 0
		}},
		"failed":   {failed, func(r *Report) bool { return r.Failed == 1 && r.Pairs == 0 }},
		"NaN":      {input(rel2, []float64{nan, 0.1}, []float64{0.1, 0.2}), func(r *Report) bool { return r.NotFinite == 1 && r.Pairs == 1 && near(r.Change.V, 1) }},
		"infinite": {input(rel2, []float64{0.1}, []float64{math.Inf(1)}), func(r *Report) bool { return r.NotFinite == 1 && r.Losses == 0 }},
		"one":      {input(rel2, []float64{0.2}, []float64{0.1}), func(r *Report) bool { return r.Change.V == -0.5 && !r.Change.HasInterval() && !r.Median.HasInterval() }},
		"from 0":   {input(rel2, []float64{0, 0.1}, []float64{0.1, 0.2}), func(r *Report) bool { return r.Undefined == 1 && r.Worst[0].Change.Why == "A is 0" && r.Losses == 2 }},
		"all from 0": {input(rel2, []float64{0, 0}, []float64{0.1, 0.2}), func(r *Report) bool {
			return r.Change.Why == "the mean of A is 0" && !r.Median.Defined() && r.Distribution.Why != ""
		}},
		"both 0": {input(rel2, []float64{0, 0}, []float64{0, 0}), func(r *Report) bool { return r.Change.V == 0 && r.Ties == 2 && r.Wilcoxon.P.Why == "no pair differs" }},
		"equal": {input(rel2, []float64{0.3, 0.1, 0.7}, []float64{0.3, 0.1, 0.7}), func(r *Report) bool {
			return r.Change == landscape.Value{} && r.Ties == 3 && slices.Equal(r.Distribution.Counts, []int{3})
		}},
		"bytes": {unknown, func(r *Report) bool {
			return r.Size.Why == "how nvfp4+mse stores layers.0.experts.0.up is not known" && r.Size.A == 0
		}},
		"out of range": {input(rel2, []float64{-1e308, 1e-300}, []float64{1e308, 1e300}), func(r *Report) bool { return r.NotFinite == 1 && r.Pairs == 1 && r.Change.Why == outOfRange }},
	} {
		r := run(t, c.in, 5)
		if !c.check(r) {
			t.Errorf("%s: %+v", name, r)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, bad := range []string{"NaN", "Infinity", ":null,\"why\":\"\""} {
			if strings.Contains(string(text), bad) {
				t.Errorf("%s: JSON holds %s: %s", name, bad, text)
			}
		}
	}
}

func TestRefusesPartsThatDoNotFit(t *testing.T) {
	in := input(rel2, []float64{1, 2}, []float64{1, 2})
	in.B.Values = in.B.Values[:1]
	if _, err := Run(in, 5); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "nvfp4+mse of two") {
		t.Errorf("error %v", err)
	}
}

// TestDistributionTakesItsEnds: changes that stand on an end of the bins are in them.
func TestDistributionTakesItsEnds(t *testing.T) {
	d := distribution(append(make([]float64, 30), slices.Repeat([]float64{1}, 50)...))
	if d.Below != 0 || d.Above != 0 || len(d.Counts) != bins || d.Counts[0] != 30 || d.Counts[bins-1] != 50 || d.Low != 0 || d.High != 1 {
		t.Errorf("%+v", d)
	}
}

// TestPlaces: names and order of layers and projections of a model that has
// everything.
func TestPlaces(t *testing.T) {
	in := &Input{Metric: rel2}
	add := func(r topology.Role) {
		in.Items = append(in.Items, Item{Name: fmt.Sprint(r), Role: r})
	}
	add(topology.Role{Kind: topology.Head, Layer: -1})
	add(topology.Role{Kind: topology.Expert, Layer: 3, MTP: true, Projection: "down"})
	for _, p := range []string{"down", "gate"} {
		add(topology.Role{Kind: topology.MLP, Layer: 0, Projection: p})
		add(topology.Role{Kind: topology.SharedExpert, Layer: 1, Projection: p})
		add(topology.Role{Kind: topology.Expert, Layer: 1, Projection: p})
	}
	for _, p := range []string{"o", "k", "q"} {
		add(topology.Role{Kind: topology.Attention, Layer: 0, Projection: p})
	}
	n := len(in.Items)
	for _, s := range []*Side{&in.A, &in.B} {
		s.States, s.Values, s.Bytes = make([]landscape.State, n), make([]float64, n), make([]int64, n)
	}
	r := run(t, in, 0)
	names := func(list []Place) string {
		var out []string
		for _, p := range list {
			out = append(out, p.Name)
		}
		return strings.Join(out, ", ")
	}
	if got := names(r.Layers); got != "L0, L1, M3, no layer" {
		t.Errorf("layers %s", got)
	}
	if got := names(r.Projections); got != "head, q, k, o, mlp gate, mlp down, gate, down, shared gate, shared down" {
		t.Errorf("projections %s", got)
	}
}

// TestComparisonProperties: swapping the sides swaps wins and losses and turns
// differences round; every pair is in one layer, one projection and one bin; the
// worst regressions are sorted and are losses.
func TestComparisonProperties(t *testing.T) {
	value := rapid.OneOf(rapid.Float64Range(0.001, 0.02), rapid.SampledFrom([]float64{0, 0.01, nan, math.Inf(1)}))
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(rt, "n")
		a := rapid.SliceOfN(value, n, n).Draw(rt, "a")
		b := rapid.SliceOfN(value, n, n).Draw(rt, "b")
		m := rapid.SampledFrom([]Metric{rel2, cos, amax}).Draw(rt, "metric")
		worst := rapid.IntRange(0, 70).Draw(rt, "worst")
		there, back := run(t, input(m, a, b), worst), run(t, input(m, b, a), worst)
		if there.Wins != back.Losses || there.Ties != back.Ties || there.Pairs != back.Pairs || there.NotFinite != n-there.Pairs {
			rt.Fatalf("there %+v\nback %+v", there, back)
		}
		if there.Wilcoxon.Plus != back.Wilcoxon.Minus {
			rt.Fatalf("rank sums %+v and %+v", there.Wilcoxon, back.Wilcoxon)
		}
		if !m.Relative && there.Pairs > 0 && math.Abs(there.Change.V+back.Change.V) > 1e-15 {
			rt.Fatalf("changes %v and %v", there.Change, back.Change)
		}
		inLayers, inProjections := 0, 0
		for _, p := range there.Layers {
			inLayers += p.Pairs
		}
		for _, p := range there.Projections {
			inProjections += p.Pairs
		}
		inBins := there.Distribution.Below + there.Distribution.Above + there.Undefined
		for _, c := range there.Distribution.Counts {
			inBins += c
		}
		if inLayers != there.Pairs || inProjections != there.Pairs || inBins != there.Pairs {
			rt.Fatalf("%d pairs; %d in layers, %d in projections, %d in bins", there.Pairs, inLayers, inProjections, inBins)
		}
		if len(there.Worst) != min(worst, there.Losses) {
			rt.Fatalf("%d regressions of %d losses, %d wanted", len(there.Worst), there.Losses, worst)
		}
		before := math.Inf(1)
		for _, w := range there.Worst {
			bad := (w.B - w.A) * float64(m.Worse)
			if !(bad > 0) {
				rt.Fatalf("%+v is no regression", w)
			}
			if w.Change.Defined() {
				if step := w.Change.V * float64(m.Worse); step > before {
					rt.Fatalf("out of order: %+v", there.Worst)
				} else {
					before = step
				}
			} else if !math.IsInf(before, 1) {
				rt.Fatalf("undefined after defined: %+v", there.Worst)
			}
		}
		if there.Change.HasInterval() && !(there.Change.Low <= there.Change.V && there.Change.V <= there.Change.High) {
			rt.Fatalf("interval %+v", there.Change)
		}
	})
}

// BenchmarkRun compares as many tensors as the largest session has.
func BenchmarkRun(b *testing.B) {
	n := 37152
	x, y := make([]float64, n), make([]float64, n)
	for i := range x {
		x[i] = 0.009 + 1e-4*math.Sin(float64(i))
		y[i] = 0.007 + 1e-4*math.Cos(float64(i)*1.3)
	}
	in := input(rel2, x, y)
	for i := range in.Items {
		in.Items[i].Role.Layer = i / 610
	}
	for b.Loop() {
		run(b, in, 10)
	}
}

// Of a metric that lies around 0 the side that is nearer to it is better, in counts,
// means and the test; regressions have their signs.
func TestDiverging(t *testing.T) {
	m := Metric{Name: "sign_bias", Worse: 1, Diverging: true}
	a := []float64{-0.35, 0.20, -0.01, 0.04, nan, 0.02}
	b := []float64{0.10, -0.05, 0.02, -0.04, 0.01, -0.22}
	r := run(t, input(m, a, b), 10)
	if r.Pairs != 5 || r.Wins != 2 || r.Ties != 1 || r.Losses != 2 || r.NotFinite != 1 {
		t.Errorf("counts: %+v", r)
	}
	// |b|−|a| is −0.25, −0.15, 0.01, 0, 0.20.
	if !near(r.MeanA.V, 0.124) || !near(r.MeanB.V, 0.086) || math.Abs(r.Change.V+0.038) > 1e-12 || r.Median.V != 0 || r.Wilcoxon.Plus != 4 || r.Wilcoxon.Minus != 6 {
		t.Errorf("means %v %v, change %v, median %v, ranks %v %v", r.MeanA.V, r.MeanB.V, r.Change.V, r.Median.V, r.Wilcoxon.Plus, r.Wilcoxon.Minus)
	}
	if w := r.Worst; len(w) != 2 || w[0].A != 0.02 || w[0].B != -0.22 || !near(w[0].Change.V, 0.20) || w[1].A != -0.01 || w[1].B != 0.02 {
		t.Errorf("%+v", w)
	}
}
