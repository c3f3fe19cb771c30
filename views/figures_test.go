package views

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/muesli/termenv"
	"pgregory.net/rapid"

	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// sceneFor looks at a state without colours, at its first variant and its first
// metric.
func sceneFor(t testing.TB, s *sessions.State, p termenv.Profile) *Scene {
	t.Helper()
	return &Scene{State: s, Theme: themeIn(t, "", p), Mode: sessions.Saved, Metric: Metrics()[0], Cursor: -1, Filter: Filter{Count: len(s.Tensors)}}
}

func TestFigureStates(t *testing.T) {
	m := Metrics()[0]
	for name, c := range map[string]struct {
		r     sessions.Record
		state CellState
	}{
		"nothing":        {sessions.Record{}, NotYet},
		"failed":         {sessions.Record{Seq: 1, Failed: true, RelL2: 0.1}, Failed},
		"measured":       {sessions.Record{Seq: 1, RelL2: 0.1}, Measured},
		"clipped":        {sessions.Record{Seq: 1, RelL2: 0.1, Deep: 1}, Clipped},
		"NaN weights":    {sessions.Record{Seq: 1, RelL2: 0.1, Deep: 1, NonFinite: 1}, NotFinite},
		"no value":       {sessions.Record{Seq: 1, RelL2: math.NaN()}, NotFinite},
		"infinite value": {sessions.Record{Seq: 1, RelL2: math.Inf(1)}, NotFinite},
	} {
		if _, got := figureOf(m, &c.r); got != c.state {
			t.Errorf("%s: state %d, want %d", name, got, c.state)
		}
	}
}

// Figures that follow batches equal figures that are read anew, whatever comes:
// records, new variants, a replay that goes back, another metric.
func TestFiguresFollowTheState(t *testing.T) {
	full := viewstest.Demo()
	rapid.Check(t, func(rt *rapid.T) {
		s := viewstest.Empty(full.Tensors, viewstest.Variants[:2]...)
		sc := sceneFor(t, s, termenv.Ascii)
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			b := sessions.Batch{LastSeq: s.LastSeq, LastUS: s.LastUS}
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				back := viewstest.Empty(full.Tensors, viewstest.Variants[:2]...)
				viewstest.Measure(back, 1, 3)
				b = sessions.Batch{Reset: back, LastSeq: back.LastSeq}
			case 1:
				if n := len(s.Variants); n < 3 {
					b.Variants = []sessions.Variant{{ID: n, Name: viewstest.Variants[n]}}
					b.LastSeq++
				}
			case 2:
				sc.SetMetric(rapid.SampledFrom(Metrics()).Draw(rt, "metric"))
			default:
				for range rapid.IntRange(0, 9).Draw(rt, "records") {
					v, id := rapid.IntRange(0, len(s.Variants)-1).Draw(rt, "variant"), rapid.IntRange(0, len(full.Tensors)-1).Draw(rt, "tensor")
					r := viewstest.RecordOf(s, v, id)
					b.LastSeq++
					r.Seq = b.LastSeq
					r.Failed = rapid.IntRange(0, 9).Draw(rt, "failed") == 0
					b.Records = append(b.Records, r)
				}
			}
			s.Apply(b)
			sc.note(&b)
			if rapid.Bool().Draw(rt, "second pane") {
				sc.note(&b)
			}
			if rapid.Bool().Draw(rt, "unread") {
				continue // a frame in which nobody asked
			}
			fresh := &Scene{State: s, Metric: sc.Metric}
			for v := range s.Variants {
				if d := cmp.Diff(fresh.Values(v), sc.Values(v), cmpopts.EquateNaNs()); d != "" {
					rt.Fatalf("values of variant %d: %s", v, d)
				}
				if d := cmp.Diff(fresh.States(v), sc.States(v)); d != "" {
					rt.Fatalf("states of variant %d: %s", v, d)
				}
			}
		}
	})
}

func TestFiguresOfNoVariant(t *testing.T) {
	sc := sceneFor(t, viewstest.Empty(viewstest.Dense(1)), termenv.Ascii)
	if sc.Values(0) != nil || sc.States(-1) != nil {
		t.Error("there are figures of a variant that is not there")
	}
}

func TestReasons(t *testing.T) {
	s := viewstest.Partial()
	sc := sceneFor(t, s, termenv.Ascii)
	if got, want := sc.Reason(0, 20), "model.safetensors: read at byte 4096: unexpected end of file"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	viewstest.Fail(s, 1, 7, "bad\x1b[31m")
	if got, want := sc.Reason(1, 7), "bad␛[31m"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := sc.Reason(2, 2), "failed; the log does not say why"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	*s = *viewstest.Empty(s.Tensors, viewstest.Variants...) // a replay went back
	if got, want := sc.Reason(0, 20), "failed; the log does not say why"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// ranked is the shown tensors that have a value, sorted as a whole: what the
// partial ways must agree with.
func ranked(s *Scene, variant int) []int {
	var out []int
	for id, st := range s.States(variant) {
		if st.HasValue() && s.Shown(id) {
			out = append(out, id)
		}
	}
	values := s.Values(variant)
	slices.SortStableFunc(out, func(a, b int) int {
		x, y := values[a], values[b]
		if s.Metric.Worse < 0 {
			x, y = y, x
		}
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return out
}

// anyScene draws a scene over the demo with some of its tensors measured, ties
// among them, and filter, projection and metric of any kind.
func anyScene(t *testing.T, rt *rapid.T) *Scene {
	s := viewstest.Empty(viewstest.Experts(1, 3, 1, 4), viewstest.Variants...)
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3))
	for v := range s.Variants {
		for id := range s.Tensors {
			switch rng.IntN(6) {
			case 0:
			case 1:
				viewstest.Fail(s, v, id, "it is gone")
			default:
				viewstest.Measure(s, v, id)
				r := &s.Records[v][id]
				r.RelL2 = []float64{0.1, 0.2, 0.3, r.RelL2, math.NaN(), math.Inf(1)}[rng.IntN(6)]
				r.Cos = 1 - r.RelL2
			}
		}
	}
	sc := sceneFor(t, s, termenv.Ascii)
	sc.Variant = rapid.IntRange(0, 2).Draw(rt, "variant")
	sc.Metric = Metrics()[rapid.IntRange(0, len(Metrics())-1).Draw(rt, "metric")]
	sc.Projection = rapid.SampledFrom([]string{"", "up"}).Draw(rt, "projection")
	f, err := NewFilter(rapid.SampledFrom([]string{"", "experts.1", "!gate", "nothing"}).Draw(rt, "filter"), s.Tensors)
	if err != nil {
		rt.Fatal(err)
	}
	sc.Filter = f
	sc.Cursor = rapid.IntRange(-1, len(s.Tensors)-1).Draw(rt, "cursor")
	return sc
}

func TestRankingAgreesWithSorting(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sc := anyScene(t, rt)
		want := ranked(sc, sc.Variant)
		k := rapid.IntRange(1, 12).Draw(rt, "k")
		if d := cmp.Diff(want[:min(k, len(want))], worstOf(sc, sc.Variant, k), cmpopts.EquateEmpty()); d != "" {
			rt.Fatalf("worstOf: %s", d)
		}
		// Walking by neighbours goes through all of them and round.
		at := -1
		for i := range 2 * len(want) {
			if at = neighbourInRank(sc, sc.Variant, at, 1); at != want[i%len(want)] {
				rt.Fatalf("step %d is at %d, want %d", i, at, want[i%len(want)])
			}
		}
		for i := range want {
			if at = neighbourInRank(sc, sc.Variant, at, -1); at != want[(2*len(want)-2-i)%len(want)] {
				rt.Fatalf("step %d back is at %d", i, at)
			}
		}
		all := make([]int, len(sc.State.Tensors))
		for i := range all {
			all[i] = i
		}
		rank, of := ranks(sc, sc.Variant, all)
		if of != len(want) {
			rt.Fatalf("%d have a rank, want %d", of, len(want))
		}
		values := sc.Values(sc.Variant)
		for i, id := range want {
			first := i
			for first > 0 && values[want[first-1]] == values[id] {
				first-- // ties share the best rank
			}
			if rank[id] != first+1 {
				rt.Fatalf("tensor %d has rank %d, want %d", id, rank[id], first+1)
			}
		}
	})
}

func TestSelectFirst(t *testing.T) {
	less := func(a, b int) int { return a - b }
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.IntRange(0, 50), 0, 100).Draw(t, "v")
		want := slices.Sorted(slices.Values(all))
		for k := range len(all) + 1 {
			v := slices.Clone(all)
			selectFirst(v, k, less)
			if got := slices.Sorted(slices.Values(v[:k])); !slices.Equal(got, want[:k]) {
				t.Fatalf("the first %d are %v, want %v", k, got, want[:k])
			}
			if got := slices.Sorted(slices.Values(v)); !slices.Equal(got, want) {
				t.Fatalf("elements were lost: %v", got)
			}
		}
	})
}

func TestShortNames(t *testing.T) {
	tensors := viewstest.Mixed(2, 2)
	var got []string
	for i := range tensors {
		got = append(got, ShortName(&tensors[i]))
	}
	want := []string{
		"L0 q", "L0 k", "L0 v", "L0 o", "L0 gate", "L0 up", "L0 down",
		"L1 q", "L1 k", "L1 v", "L1 o", "L1 shared gate", "L1 shared up", "L1 shared down",
		"L1 e0 gate", "L1 e0 up", "L1 e0 down", "L1 e1 gate", "L1 e1 up", "L1 e1 down", "lm_head",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	names := shortVariants([]sessions.Variant{{Name: "nvfp4", Scheme: "nvfp4"}, {Name: "nvfp4+mse", Scheme: "nvfp4"}, {Name: "fp8", Scheme: "fp8"}, {Name: "nvfp4", Scheme: "nvfp4"}})
	if d := cmp.Diff([]string{"nvfp4", "+mse", "fp8", "nvfp4"}, names); d != "" {
		t.Error(d)
	}
}
