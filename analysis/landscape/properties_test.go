package landscape

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/topology"
)

// noisy is a table of routed experts whose errors are 0.009 times factor times
// noise of the deviation sigma.
func noisy(seed uint64, layers, experts int, sigma float64, factor func(l, e int, p string) float64) *Table {
	rng := rand.New(rand.NewPCG(seed, 2))
	var entries []entry
	for l := range layers {
		for e := range experts {
			for _, p := range three {
				entries = append(entries, entry{l, e, p, 0.009 * factor(l, e, p) * math.Exp(sigma*rng.NormFloat64())})
			}
		}
	}
	return handTable(entries...)
}

func noEffect(int, int, string) float64 { return 1 }

// figures are all values of a report, by where they stand.
func figures(g *Group) map[string]Value {
	out := map[string]Value{}
	var walk func(at string, v reflect.Value)
	walk = func(at string, v reflect.Value) {
		if x, ok := v.Interface().(Value); ok {
			out[at] = x
			return
		}
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				walk(at+"."+v.Type().Field(i).Name, v.Field(i))
			}
		case reflect.Slice:
			for i := range v.Len() {
				name := ""
				if l, ok := v.Index(i).Interface().(Level); ok {
					name = l.Name
				}
				walk(at+"/"+name+string(rune('0'+i%10)), v.Index(i))
			}
		}
	}
	walk("", reflect.ValueOf(*g))
	return out
}

// Shares of a balanced table add up to 1 with nothing confounded, and each lies
// in its interval.
func TestSharesAddUp(t *testing.T) {
	for seed := range uint64(20) {
		d := analyzed(t, noisy(seed, 2+int(seed)%5, 3+int(seed)%4, 0.02, func(l, e int, p string) float64 {
			return 1 + 0.01*float64(l) + 0.02*float64(len(p)) - 0.005*float64(e)
		})).Groups[0].Decomposition
		sum := d.Layer.V + d.Expert.V + d.Projection.V + d.Remainder.V
		if !near(sum, 1, 1e-9) || d.Confounded.V != 0 {
			t.Errorf("seed %d: shares add up to %v, confounded %v", seed, sum, d.Confounded.V)
		}
		for name, v := range map[string]Value{"layer": d.Layer, "expert": d.Expert, "projection": d.Projection, "remainder": d.Remainder} {
			if !(v.HasInterval() && 0 <= v.Low && v.Low <= v.V && v.V <= v.High && v.High <= 1) {
				t.Errorf("seed %d: %s is %v", seed, name, v)
			}
		}
	}
}

// rel2 in other units changes means and nothing else.
func TestScaleInvariance(t *testing.T) {
	plain := noisy(3, 5, 12, 0.02, func(l, e int, _ string) float64 { return 1 + 0.1*float64(l/4) + 0.05*float64(e/11) })
	scaled := noisy(3, 5, 12, 0.02, func(l, e int, _ string) float64 { return 1024 * (1 + 0.1*float64(l/4) + 0.05*float64(e/11)) })
	a, b := &analyzed(t, plain).Groups[0], &analyzed(t, scaled).Groups[0]
	if a.Verdict.Sentence != b.Verdict.Sentence {
		t.Errorf("%s\nscaled: %s", a.Verdict.Sentence, b.Verdict.Sentence)
	}
	other := figures(b)
	for at, v := range figures(a) {
		if strings.Contains(at, "Mean") && !strings.Contains(at, "Neighbours") || strings.Contains(at, "Cos") {
			continue
		}
		if w := other[at]; !near(v.V, w.V, 1e-6) && math.Abs(v.V-w.V) > 1e-12 && v.Defined() || v.Why != w.Why {
			t.Errorf("%s is %v, scaled %v", at, v, w)
		}
	}
}

// The order of the table makes no difference.
func TestPermutation(t *testing.T) {
	table := noisy(4, 4, 12, 0.02, func(l, e int, p string) float64 {
		if l == 2 && e == 5 && p == "up" {
			return 2
		}
		return 1 + 0.1*float64(l/3)
	})
	want := &analyzed(t, table).Groups[0]
	rng := rand.New(rand.NewPCG(9, 9))
	mixed := &Table{Arms: []Arm{{Name: "nvfp4"}}}
	for _, i := range rng.Perm(len(table.Items)) {
		mixed.Items = append(mixed.Items, table.Items[i])
		mixed.Arms[0].Samples = append(mixed.Arms[0].Samples, table.Arms[0].Samples[i])
		mixed.Arms[0].Bytes = append(mixed.Arms[0].Bytes, table.Arms[0].Bytes[i])
	}
	got := &analyzed(t, mixed).Groups[0]
	if got.Verdict.Sentence != want.Verdict.Sentence || !slices.Equal(got.Tail.Tensors, want.Tail.Tensors) || got.WorstTensor != want.WorstTensor {
		t.Errorf("%s\nmixed: %s", want.Verdict.Sentence, got.Verdict.Sentence)
	}
	other := figures(got)
	for at, v := range figures(want) {
		if w := other[at]; !near(v.V, w.V, 1e-7) && math.Abs(v.V-w.V) > 1e-12 && v.Defined() || v.Why != w.Why {
			t.Errorf("%s is %v, mixed %v", at, v, w)
		}
	}
}

// The same table gives the same report.
func TestDeterminism(t *testing.T) {
	table := noisy(5, 6, 20, 0.02, func(l, _ int, _ string) float64 { return 1 + 0.2*float64(l/5) })
	a, err1 := json.Marshal(analyzed(t, table))
	b, err2 := json.Marshal(analyzed(t, table))
	if err1 != nil || err2 != nil || string(a) != string(b) {
		t.Errorf("two analyses differ (%v, %v)", err1, err2)
	}
}

// A level of which most tensors are off is a shift; one of which few are is a
// tail; a tail does not hide a shift.
func TestKindsOfLevels(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	few := map[[2]int]bool{}
	for _, e := range rng.Perm(32)[:8] {
		few[[2]int{2, e}] = true
	}
	table := noisy(6, 6, 32, 0.02, func(l, e int, p string) float64 {
		switch {
		case l == 4:
			return 1.05
		case few[[2]int{l, e}] && p == "up":
			return 1.6
		}
		return 1
	})
	g := &analyzed(t, table).Groups[0]
	for _, l := range g.Layers {
		want, tail := LevelEven, 0
		switch l.Name {
		case "L4":
			want = LevelShift
		case "L2":
			want, tail = LevelTail, 8
		}
		if l.Kind != want || l.Tail != tail {
			t.Errorf("%s is %s with %d in the tail, want %s with %d: %s", l.Name, l.Kind, l.Tail, want, tail, ratioText(l.Ratio))
		}
	}
	if g.Tail.Count != 8 || !(g.Tail.Ratio.Low < 1.6 && 1.6 < g.Tail.Ratio.High) {
		t.Errorf("tail of %d: %s", g.Tail.Count, ratioText(g.Tail.Ratio))
	}
	if len(g.Verdict.Effects) != 2 || g.Verdict.Effects[0].Kind != "tail" || g.Verdict.Effects[1].Name != "L4" {
		t.Error(g.Verdict.Sentence)
	}
}

// A tail in experts of three tensors each does not drag its neighbours along.
func TestTailInOneLayer(t *testing.T) {
	table := noisy(7, 1, 40, 0.02, func(_, e int, p string) float64 {
		if e%20 == 3 && p == "gate" {
			return 1.5
		}
		return 1
	})
	g := &analyzed(t, table).Groups[0]
	if got := slices.Sorted(slices.Values(g.Tail.Tensors)); !slices.Equal(got, []string{"L0.E23.gate", "L0.E3.gate"}) {
		t.Errorf("tail %v: %s", got, g.Verdict.Sentence)
	}
	for _, e := range g.Experts {
		if e.Kind == LevelShift {
			t.Errorf("%s %s", e.Name, ratioText(e.Ratio))
		}
	}
}

// Where a fifth of the tensors, anywhere, have twice the error they are a tail.
// Where 40 % have it they are the scatter: nothing stands out from it, and the
// verdict neither calls the worst ones chance nor denies that a list pays.
func TestTailThatIsTheScatter(t *testing.T) {
	for _, c := range []struct {
		share float64
		kind  VerdictKind
	}{{0.2, Structured}, {0.4, Flat}} {
		rng := rand.New(rand.NewPCG(9, 9))
		g := &analyzed(t, noisy(9, 6, 24, 0.01, func(int, int, string) float64 {
			if rng.Float64() < c.share {
				return 2
			}
			return 1
		})).Groups[0]
		v := &g.Verdict
		if v.Kind != c.kind || !v.Pays || strings.Contains(v.Sentence, "chance") || strings.Contains(v.Sentence, "no exemption list") {
			t.Errorf("%v: pays %t: %s", c.share, v.Pays, v.Sentence)
		}
	}
}

// Three tensors to an expert say little of it, and chance is not taken for more.
func TestFlatWithFewTensorsALevel(t *testing.T) {
	alarms := 0
	for seed := range uint64(200) {
		if g := &analyzed(t, noisy(seed, 1, 60, 0.02, noEffect)).Groups[0]; g.Verdict.Kind != Flat {
			alarms++
			t.Log(g.Verdict.Sentence)
		}
	}
	if alarms > 2 {
		t.Errorf("something was found in %d of 200", alarms)
	}
}

// Of two tensors neither is the outlier: together they are a level that is off.
func TestTwoTensorsOfALevel(t *testing.T) {
	table := noisy(12, 8, 20, 0.02, noEffect)
	for i, p := range []string{"up", "down"} {
		extra := handTable(entry{3, 99, p, 0.009 * float64(1+2*i)})
		table.Items = append(table.Items, extra.Items...)
		table.Arms[0].Samples = append(table.Arms[0].Samples, extra.Arms[0].Samples...)
		table.Arms[0].Bytes = append(table.Arms[0].Bytes, extra.Arms[0].Bytes...)
	}
	g := &analyzed(t, table).Groups[0]
	last := g.Experts[len(g.Experts)-1]
	if g.Tail.Count+g.Tail.Better > 0 || last.Name != "expert 99" || last.Kind != LevelShift || math.Abs(last.Ratio.V-math.Sqrt(3)) > 0.1 {
		t.Errorf("%s %s: %s", last.Name, ratioText(last.Ratio), g.Verdict.Sentence)
	}
}

// Projections of different sizes have noise of different size: the smaller ones
// are not taken for a tail, whether sizes tell or there are enough to see it.
func TestUnequalNoise(t *testing.T) {
	for _, c := range []struct {
		name   string
		layers int
		rows   int // of k and v
	}{{"few layers", 20, 1}, {"many layers of one size", 80, 64}} {
		alarms := 0
		for seed := range uint64(50) {
			rng := rand.New(rand.NewPCG(seed, 3))
			var entries []entry
			for l := range c.layers {
				for i, p := range []string{"q", "k", "v", "o"} {
					sigma := []float64{0.005, 0.04, 0.04, 0.005}[i]
					entries = append(entries, entry{l, -1, p, 0.009 * math.Exp(sigma*rng.NormFloat64())})
				}
			}
			table := handTable(entries...)
			for i := range table.Items {
				if p := table.Items[i].Role.Projection; p == "k" || p == "v" {
					table.Items[i].Rows = c.rows
					table.Arms[0].Bytes[i] = int64(36 * c.rows)
				}
			}
			g := &analyzed(t, table).Groups[0]
			if g.Verdict.Pays {
				t.Errorf("%s: pays: %s", c.name, g.Verdict.Sentence)
			}
			if g.Verdict.Kind != Flat {
				alarms++
				t.Log(g.Verdict.Sentence)
			}
		}
		if alarms > 1 {
			t.Errorf("%s: something was found in %d of 50", c.name, alarms)
		}
	}
}

// Weights follow the sizes where noise falls with them, and not where it does not.
func TestNoiseBySize(t *testing.T) {
	for _, falls := range []bool{true, false} {
		right := 0
		for seed := range uint64(50) {
			table := noisy(seed, 10, 4, 0, noEffect)
			rng := rand.New(rand.NewPCG(seed, 5))
			for i := range table.Items {
				sigma := 0.02
				if i%2 == 0 {
					table.Items[i].Rows *= 16
					if falls {
						sigma /= 4
					}
				}
				table.Arms[0].Samples[i].Rel2 *= math.Exp(sigma * rng.NormFloat64())
			}
			g := newGroup(table, 0, topology.Expert, allItems(table))
			r, why := g.robust(t.Context())
			if why != "" {
				t.Fatal(why)
			}
			if want := map[bool]float64{true: 1.0 / 16, false: 1}[falls]; r.weight[0] == 1 && near(r.weight[1], want, 1e-9) {
				right++
			}
		}
		if right < 48 {
			t.Errorf("noise that falls with size (%v) is seen for what it is in %d of 50", falls, right)
		}
	}
}

// Layers of two kinds share no projection: levels are compared within a kind.
func TestSeparateDesigns(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	var entries []entry
	for l := range 24 {
		parts, level := []string{"q", "k", "v", "o"}, 0.009
		if l%2 == 1 {
			parts, level = []string{"in_proj", "out_proj"}, 0.03
		}
		for _, p := range parts {
			y := level * math.Exp(0.01*rng.NormFloat64())
			if l == 7 || l == 10 {
				y *= 1.2
			}
			entries = append(entries, entry{l, -1, p, y})
		}
	}
	g := &analyzed(t, handTable(entries...)).Groups[0]
	var shifted []string
	for _, l := range append(slices.Clone(g.Layers), g.Projections...) {
		if !l.Ratio.Defined() {
			t.Errorf("%s: %s", l.Name, l.Ratio.Why)
		}
		if l.Kind == LevelShift {
			shifted = append(shifted, l.Name)
		}
	}
	if !slices.Equal(shifted, []string{"L7", "L10"}) {
		t.Errorf("%v stand out: %s", shifted, g.Verdict.Sentence)
	}
}

// Of two layers the worse one is named, against the other.
func TestTwoLayers(t *testing.T) {
	g := &analyzed(t, noisy(9, 2, 30, 0.02, func(l, _ int, _ string) float64 { return 1 + 0.1*float64(l) })).Groups[0]
	if len(g.Verdict.Effects) != 1 || g.Verdict.Effects[0].Name != "L1" || math.Abs(g.Verdict.Effects[0].Ratio.V-1.1) > 0.02 {
		t.Error(g.Verdict.Sentence)
	}
	if lower := g.Layers[0].Ratio.V; !near(lower*g.Layers[1].Ratio.V, 1, 1e-9) {
		t.Errorf("ratios %v and %v", lower, g.Layers[1].Ratio.V)
	}
}

// MTP layers come last under a name of their own.
func TestMTPLayers(t *testing.T) {
	table := noisy(10, 3, 8, 0.02, noEffect)
	for i := range table.Items {
		if r := &table.Items[i].Role; r.Layer == 1 {
			r.MTP = true
		}
	}
	g := &analyzed(t, table).Groups[0]
	if len(g.Layers) != 3 || g.Layers[2].Name != "M1" || g.Neighbours.Pairs[1].B != "M1" {
		t.Errorf("layers %v, %v", g.Layers, g.Neighbours.Pairs)
	}
}

// Analyze ends with its context, wherever it is.
func TestAnalyzeEnds(t *testing.T) {
	table := noisy(11, 20, 40, 0.02, noEffect)
	for n := range 12 {
		ctx := &countdown{Context: context.Background(), left: n}
		if _, err := Analyze(ctx, table, 0); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		} else if err == nil && n < 4 {
			t.Errorf("went on after a context that ended at look %d", n)
		}
	}
	if _, err := Analyze(context.Background(), table, 1); err == nil || err.Error() != "landscape: arm 1, there are 1" {
		t.Errorf("an unknown arm: %v", err)
	}
	table.Arms[0].Samples = table.Arms[0].Samples[1:]
	if _, err := Analyze(context.Background(), table, 0); err == nil || !strings.Contains(err.Error(), `arm "nvfp4": 2399 samples for 2400 items`) {
		t.Errorf("too few samples: %v", err)
	}
}

// countdown is a context that ends when it was asked often enough.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// Groups are roles, the largest first.
func TestGroups(t *testing.T) {
	table := handTable(entry{0, 0, "up", 1}, entry{0, 0, "down", 1}, entry{0, -1, "q", 1})
	table.Items = append(table.Items, Item{Name: "head", Role: topology.Role{Kind: topology.Head, Layer: -1, Expert: -1}, Rows: 1, Cols: 1})
	table.Arms[0].Samples = append(table.Arms[0].Samples, Sample{})
	r := analyzed(t, table)
	var roles []string
	for _, g := range r.Groups {
		roles = append(roles, g.Role)
	}
	if !slices.Equal(roles, []string{"routed experts", "head", "attention"}) || r.Groups[1].Pending != 1 || r.Variant != "nvfp4" {
		t.Errorf("%s: %v", r.Variant, roles)
	}
	if empty := analyzed(t, &Table{Arms: []Arm{{Name: "x"}}}); len(empty.Groups) != 0 {
		t.Errorf("an empty table has %d groups", len(empty.Groups))
	}
}
