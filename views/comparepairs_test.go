package views

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"quantscope/analysis/stats"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

func TestComparisonOfTheDemo(t *testing.T) {
	state := viewstest.Demo()
	var p pairs
	p.rebuild(state, 0, 2, Metrics()[0])
	p.compute(Filter{}, "", 5)
	o := &p.outcome
	if o.total != 240 || o.missing != 0 || o.by.N != 240 || o.by.Wins != 240 || o.by.Losses != 0 || len(o.worst) != 0 {
		t.Errorf("outcome %+v", o.by)
	}
	// All on one side: z is known in closed form.
	if want := -math.Sqrt(3 * 240 * 241 / (2.0 * 481)); math.Abs(o.test.Z-want) > 1e-12 {
		t.Errorf("z %v, want %v", o.test.Z, want)
	}
	var sumA, sumB float64
	for i := range state.Tensors {
		sumA += state.Records[0][i].Rel2
		sumB += state.Records[2][i].Rel2
	}
	if got, want := o.rel2.Change(), sumB/sumA-1; math.Abs(got-want) > 1e-12 {
		t.Errorf("mean rel2 changes by %v, want %v", got, want)
	}
}

// TestPairsFollowTheState feeds random batches and compares with a comparison
// made from the state alone.
func TestPairsFollowTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tensors := viewstest.Experts(0, 2, 0, 3)
		state := viewstest.Empty(tensors, "nvfp4", "nvfp4+mse")
		m := rapid.SampledFrom(recordMetrics()).Draw(t, "metric")
		f, err := NewFilter(rapid.SampledFrom([]string{"", "experts.1", "nothing"}).Draw(t, "filter"), tensors)
		if err != nil {
			t.Fatal(err)
		}
		projection := rapid.SampledFrom([]string{"", "up"}).Draw(t, "projection")
		var p pairs
		p.rebuild(state, 0, 1, m)
		seed := noise(rapid.Uint64().Draw(t, "seed"))
		for range rapid.IntRange(0, 30).Draw(t, "records") {
			r := anyRecord(&seed, rapid.IntRange(0, 1).Draw(t, "v"), rapid.IntRange(0, len(tensors)-1).Draw(t, "t"))
			state.Apply(sessions.Batch{Records: []sessions.Record{r}})
			p.take(state, []sessions.Record{r})
		}
		p.compute(f, projection, 3)
		o := &p.outcome

		var by stats.Paired
		var d []float64
		var worst []regression
		total, missing := 0, 0
		for i := range tensors {
			if !f.Shows(i) || projection != "" && tensors[i].Role.Projection != projection {
				continue
			}
			total++
			ra, rb := &state.Records[0][i], &state.Records[1][i]
			if ra.Seq == 0 || rb.Seq == 0 {
				missing++
				continue
			}
			a, b := m.Of(ra), m.Of(rb)
			if ra.Failed || rb.Failed {
				a = math.NaN()
			}
			by.Add(a, b, m.Worse)
			if isNumber(b - a) {
				d = append(d, b-a)
				if (b-a)*float64(m.Worse) > 0 {
					c := changeOf(m).of(a, b)
					if !isNumber(c) {
						c = math.NaN()
					}
					worst = append(worst, regression{i, a, b, c})
				}
			}
		}
		slices.SortStableFunc(worst, func(x, y regression) int {
			bx, by := badness(x.change, m.Worse), badness(y.change, m.Worse)
			switch {
			case bx > by:
				return -1
			case bx < by:
				return 1
			}
			return 0
		})
		same := cmp.Options{cmpopts.EquateNaNs(), cmpopts.EquateEmpty(), cmp.AllowUnexported(regression{}), cmpopts.EquateApprox(1e-12, 0)}
		if diff := cmp.Diff(by, o.by, same); diff != "" || o.total != total || o.missing != missing {
			t.Fatalf("%d shown, %d missing, want %d and %d\n%s", o.total, o.missing, total, missing, diff)
		}
		if diff := cmp.Diff(stats.Wilcoxon(d, stats.Options{}), o.test, same); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(worst[:min(len(worst), 3)], o.worst, same); diff != "" {
			t.Fatal(diff)
		}
		sum := 0
		for _, l := range o.layers {
			sum += l.N
		}
		if sum != o.by.N {
			t.Fatalf("layers hold %d pairs of %d", sum, o.by.N)
		}
	})
}

func TestMedianOfChanges(t *testing.T) {
	for _, n := range []int{1, 2, 3, 39, 40} {
		tensors := viewstest.Experts(0, 1, 0, 14)[:n]
		state := viewstest.Empty(tensors, "nvfp4", "nvfp4+mse")
		var want []float64
		for i := range tensors {
			viewstest.Measure(state, 0, i)
			viewstest.Measure(state, 1, i)
			state.Records[0][i].RelL2, state.Records[1][i].RelL2 = 1, 1+float64((i*17)%n)/64
			want = append(want, 100*float64((i*17)%n)/64)
		}
		slices.Sort(want)
		var p pairs
		p.rebuild(state, 0, 1, Metrics()[0])
		p.compute(Filter{}, "", 2)
		if o := &p.outcome; o.median != stats.Quantile(want, 0.5) || o.low != want[0] || o.high != want[n-1] {
			t.Errorf("n=%d: %v %v %v of %v", n, o.low, o.median, o.high, want)
		}
	}
}

// BenchmarkPairsCompute is one comparison of the largest session.
func BenchmarkPairsCompute(b *testing.B) {
	state := big()
	var p pairs
	p.rebuild(state, 0, 1, Metrics()[0])
	for b.Loop() {
		p.compute(Filter{}, "", 20)
	}
}
