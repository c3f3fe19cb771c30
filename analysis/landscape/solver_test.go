package landscape

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/topology"
)

// tableOf makes a table of experts' projections. errors and bytes are by arm and
// item; the last arm is the source's where it is so called.
func tableOf(names []string, errs [][]float64, bytes [][]int64) *Table {
	t := &Table{}
	projections := []string{"gate", "up", "down"}
	for i := range errs[0] {
		r := topology.Role{Kind: topology.Expert, Layer: i / 12, Expert: i / 3 % 4, Projection: projections[i%3], Param: "weight"}
		t.Items = append(t.Items, Item{
			ID: i, Name: fmt.Sprintf("model.layers.%d.mlp.experts.%d.%s_proj.weight", r.Layer, r.Expert, r.Projection), Role: r,
			Rows: 16, Cols: 16, SourceBytes: 512, Amax: float64(i % 7), Std: 1, Kurtosis: 3,
		})
	}
	for a, name := range names {
		arm := Arm{Name: name, Bytes: bytes[a], Samples: make([]Sample, len(t.Items))}
		for i, e := range errs[a] {
			arm.Samples[i] = Sample{State: Measured, Rel2: e, RelL2: math.Sqrt(e), W2: 2, E2: 2 * e}
		}
		t.Arms = append(t.Arms, arm)
	}
	return t
}

// exactly finds the least sum of errors within the budget by trying every
// assignment of the items.
func exactly(t *Table, budget int64) float64 {
	best := math.Inf(1)
	var try func(i int, bytes int64, total float64)
	try = func(i int, bytes int64, total float64) {
		if bytes > budget {
			return
		}
		if i == len(t.Items) {
			best = min(best, total)
			return
		}
		for a := range t.Arms {
			try(i+1, bytes+t.Arms[a].Bytes[i], total+t.Arms[a].Samples[i].Rel2)
		}
	}
	try(0, 0, 0)
	return best / float64(len(t.Items))
}

// byTable finds the same by dynamic programming over every size.
func byTable(t *Table, budget int64) float64 {
	best := make([]float64, budget+1)
	for i := range t.Items {
		next := make([]float64, budget+1)
		for b := range next {
			next[b] = math.Inf(1)
			for a := range t.Arms {
				if w := t.Arms[a].Bytes[i]; w <= int64(b) {
					next[b] = min(next[b], best[int64(b)-w]+t.Arms[a].Samples[i].Rel2)
				}
			}
		}
		best = next
	}
	return best[budget] / float64(len(t.Items))
}

// instance draws a problem of one of several kinds: general, equal sizes, ties
// in error, dominated arms, zero errors, one arm.
func instance(rng *rand.Rand, items, kind int) *Table {
	arms := 1 + rng.IntN(4)
	if kind == 5 {
		arms = 1
	}
	names := []string{"nvfp4", "nvfp4+mse", "int4-g128", "fp8"}[:arms]
	errs, bytes := make([][]float64, arms), make([][]int64, arms)
	for a := range arms {
		for range items {
			e, b := rng.Float64(), 1+rng.Int64N(30)
			switch kind {
			case 1:
				b = int64(4 + 3*a)
			case 2:
				e = float64(rng.IntN(3)) / 4
			case 3:
				e, b = 1-float64(b)/31+0.01*rng.Float64(), b+int64(rng.IntN(2))
			case 4:
				e = max(0, e-0.6)
			case 6: // gain in proportion to size: the hardest to tell apart
				e = 2 - float64(b)/20
			}
			errs[a], bytes[a] = append(errs[a], e), append(bytes[a], b)
		}
	}
	return tableOf(names, errs, bytes)
}

func TestSolverIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 210 {
		tb := instance(rng, 1+rng.IntN(8), n%7)
		s, err := NewSolver(tb, nil)
		if err != nil {
			t.Fatal(err)
		}
		least, most := s.Range()
		for range 4 {
			budget := least + rng.Int64N(most-least+1)
			a, err := s.Solve(budget)
			if err != nil {
				t.Fatal(err)
			}
			want := exactly(tb, budget)
			check(t, tb, &a, n)
			if math.Abs(a.Error-want) > 1e-12 || !a.Exact || a.Gap != 0 || a.Bound != a.Value {
				t.Errorf("instance %d, budget %d of %d to %d: %v, exact %t, gap %v; the least is %v", n, budget, least, most, a.Error, a.Exact, a.Gap, want)
			}
		}
	}
}

// Larger ones against dynamic programming, so that cores have many units.
func TestSolverOnMore(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := range 70 {
		tb := instance(rng, 20+rng.IntN(60), n%7)
		s, err := NewSolver(tb, nil)
		if err != nil {
			t.Fatal(err)
		}
		least, most := s.Range()
		for _, f := range []float64{0, 0.1, 0.37, 0.8, 1} {
			budget := least + int64(f*float64(most-least))
			a, err := s.Solve(budget)
			if err != nil {
				t.Fatal(err)
			}
			check(t, tb, &a, n)
			if want := byTable(tb, budget); math.Abs(a.Error-want) > 1e-12 || !a.Exact {
				t.Errorf("instance %d at %v: %v, exact %t; the least is %v", n, f, a.Error, a.Exact, want)
			}
		}
	}
}

// check recomputes what an answer says of itself.
func check(t *testing.T, tb *Table, a *Assignment, n int) {
	t.Helper()
	bytes, total := int64(0), 0.0
	counts := make([]int, len(tb.Arms))
	for i, k := range a.Arm {
		bytes += tb.Arms[k].Bytes[i]
		total += tb.Arms[k].Samples[i].Rel2
		counts[k]++
	}
	if bytes != a.Bytes || bytes > a.Budget || math.Abs(total/float64(len(a.Arm))-a.Error) > 1e-14 || !slices.Equal(counts, a.Counts) {
		t.Errorf("instance %d: the arms take %d bytes and lose %v (%v), the answer says %d of %d and %v (%v)",
			n, bytes, total/float64(len(a.Arm)), counts, a.Bytes, a.Budget, a.Error, a.Counts)
	}
	if !(a.Gap >= 0) || !(a.Bound <= a.Value) {
		t.Errorf("instance %d: bound %v, value %v, gap %v", n, a.Bound, a.Value, a.Gap)
	}
}

func TestSolverRefuses(t *testing.T) {
	tb := tableOf([]string{"a", "source"}, [][]float64{{0.1, 0.2}, {0, 0}}, [][]int64{{10, 20}, {40, 80}})
	s, err := NewSolver(tb, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, budget := range []int64{-1, 0, 29, 121, math.MaxInt64} {
		_, err := s.Solve(budget)
		var b *BudgetError
		if !errors.As(err, &b) || b.Least != 30 || b.Most != 120 {
			t.Errorf("budget %d: %v", budget, err)
		} else if !strings.Contains(err.Error(), "30 to 120 bytes") {
			t.Errorf("budget %d: the range is not in %q", budget, err)
		}
	}
	for _, arms := range [][]int{{2}, {-1}} {
		if _, err := NewSolver(tb, arms); err == nil {
			t.Errorf("arms %v are taken", arms)
		}
	}
	if _, err := NewSolver(&Table{}, nil); !errors.Is(err, ErrNoFigures) {
		t.Errorf("an empty table: %v", err)
	}
	tb.Arms[0].Bytes[0] = math.MaxInt64
	tb.Arms[1].Bytes[0] = math.MaxInt64
	if _, err := NewSolver(tb, nil); err == nil {
		t.Error("sizes beyond what can be added are taken")
	}
}

// Items without figures keep the source's weights, and it is said.
func TestSolverFixes(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	tb := tableOf([]string{"nvfp4", "nvfp4+mse", "source"},
		[][]float64{{0.1, nan, inf, 0.3}, {nan, nan, nan, 0.2}, {0, 0, 0, 0}},
		[][]int64{{10, 10, 10, 10}, {10, 10, 10, 10}, {32, 32, 32, 32}})
	s, err := NewSolver(tb, []int{0, 1})
	if err != nil {
		t.Fatal(err)
	}
	if least, most := s.Range(); least != 84 || most != 84 {
		t.Errorf("%d to %d bytes, want 84", least, most)
	}
	a, err := s.Solve(84)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a.Arm, []int{0, 2, 2, 1}) || a.Fixed != 2 || len(a.Notes) == 0 || !strings.Contains(a.Notes[0], "2 of 4") {
		t.Errorf("%v, fixed %d, %q", a.Arm, a.Fixed, a.Notes)
	}
	if _, err := s.Solve(0); err == nil || !strings.HasSuffix(err.Error(), "; 2 of 4 tensors have no finite figures and keep the source's weights") {
		t.Error(err)
	}
	if math.Abs(a.Error-0.3/4) > 1e-15 {
		t.Errorf("mean rel2 %v", a.Error)
	}
	// Where the source is an arm as any other they are fixed as well, and tie
	// nothing to them.
	for _, by := range []Granularity{ByTensor, ByLayer} {
		if s, err = NewSolverWith(tb, SolverOptions{By: by}); err != nil {
			t.Fatal(err)
		}
		if least, most := s.Range(); least != 84 || most != 128 {
			t.Errorf("%v: %d to %d bytes, want 84 to 128", by, least, most)
		}
		if a, err = s.Solve(84); err != nil || a.Fixed != 2 || a.Counts[2] != 2 {
			t.Errorf("%v: fixed %d, counts %v, %v", by, a.Fixed, a.Counts, err)
		}
	}
	tb.Arms = tb.Arms[:2]
	if _, err := NewSolver(tb, nil); !errors.Is(err, ErrNoFigures) || !strings.Contains(err.Error(), "experts.0.up_proj") {
		t.Errorf("without the source: %v", err)
	}
}

func TestGranularities(t *testing.T) {
	const items = 36 // 3 layers, 4 experts, 3 projections
	rng := rand.New(rand.NewPCG(7, 8))
	errs, bytes := make([][]float64, 2), make([][]int64, 2)
	for range items {
		e := rng.Float64()
		errs[0], bytes[0] = append(errs[0], e), append(bytes[0], 10)
		errs[1], bytes[1] = append(errs[1], e/50), append(bytes[1], 32)
	}
	tb := tableOf([]string{"nvfp4", "fp8"}, errs, bytes)
	last := -1.0
	for _, c := range []struct {
		by    Granularity
		units int
		tied  func(a, b *topology.Role) bool
	}{
		{ByTensor, 36, func(a, b *topology.Role) bool { return false }},
		{ByFused, 24, func(a, b *topology.Role) bool {
			return a.Layer == b.Layer && a.Expert == b.Expert && a.Projection != "down" && b.Projection != "down"
		}},
		{ByExpert, 12, func(a, b *topology.Role) bool { return a.Layer == b.Layer && a.Expert == b.Expert }},
		{ByLayer, 3, func(a, b *topology.Role) bool { return a.Layer == b.Layer }},
		{ByProjection, 3, func(a, b *topology.Role) bool { return a.Projection == b.Projection }},
	} {
		s, err := NewSolverWith(tb, SolverOptions{By: c.by})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.units) != c.units {
			t.Errorf("%v: %d units, want %d", c.by, len(s.units), c.units)
		}
		a, err := s.Solve(items*10 + 14*22)
		if err != nil {
			t.Fatal(err)
		}
		for i := range items {
			for j := range i {
				if c.tied(&tb.Items[i].Role, &tb.Items[j].Role) && a.Arm[i] != a.Arm[j] {
					t.Errorf("%v: %s and %s differ", c.by, tb.Items[i].Name, tb.Items[j].Name)
				}
			}
		}
		if c.by == ByTensor {
			last = a.Error
			if a.Split == 0 || len(a.Notes) == 0 {
				t.Errorf("no split is told of: %d, %q", a.Split, a.Notes)
			}
		}
		if a.Error < last {
			t.Errorf("%v: tied items lose less (%v) than free ones (%v)", c.by, a.Error, last)
		}
		if c.by == ByFused || c.by == ByExpert || c.by == ByLayer {
			if a.Split != 0 {
				t.Errorf("%v: %d groups are split", c.by, a.Split)
			}
		}
		if w, err := ParseGranularity(c.by.String()); err != nil || w != c.by {
			t.Errorf("%v: %v, %v", c.by, w, err)
		}
	}
	if _, err := ParseGranularity("shard"); err == nil || !strings.Contains(err.Error(), "fused") {
		t.Errorf("an unknown word: %v", err)
	}
}

func TestWeightedObjective(t *testing.T) {
	tb := tableOf([]string{"small", "large"}, [][]float64{{0.5, 0.4}, {0.1, 0.1}}, [][]int64{{10, 10}, {20, 20}})
	tb.Arms[0].Samples[1].W2, tb.Arms[0].Samples[1].E2 = 100, 40 // much the louder tensor
	tb.Arms[1].Samples[1].W2, tb.Arms[1].Samples[1].E2 = 100, 10
	for o, want := range map[Objective][]int{MeanError: {1, 0}, WeightedError: {0, 1}} {
		s, err := NewSolverWith(tb, SolverOptions{Objective: o})
		if err != nil {
			t.Fatal(err)
		}
		a, err := s.Solve(30)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(a.Arm, want) || !a.Exact {
			t.Errorf("%v: %v, want %v", o, a.Arm, want)
		}
		if o == WeightedError && (math.Abs(a.Value-11.0/102) > 1e-15 || a.Value != a.Weighted) {
			t.Errorf("weighted: %v", a.Value)
		}
	}
}

func TestParseBudget(t *testing.T) {
	for s, want := range map[string]int64{"4.6bpw": 575, "4.6 bpw": 575, "12GiB": 12 << 30, "3.4MB": 3400000, "100": 100, "1kB": 1000, "8B": 8} {
		if got, err := ParseBudget(s, 1000); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "x", "-1MB", "0bpw", "NaN", "1e30GB", "4.6bits", "Infbpw", "4.6", "2000.5B"} {
		if got, err := ParseBudget(s, 1000); err == nil {
			t.Errorf("%q is read as %d", s, got)
		}
	}
}
