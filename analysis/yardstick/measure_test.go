package yardstick

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/demo"
	"quantscope/quant/topology"
)

// reference is the demo, opened.
func reference(t testing.TB) *candidate.Candidate {
	t.Helper()
	ref, err := candidate.Open(context.Background(), demo.Label, candidate.Options{Set: kernels.Best()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ref.Close() })
	return ref
}

// variant is a candidate of the demo by its spec.
func variant(t testing.TB, ref *candidate.Candidate, spec string) *candidate.Candidate {
	t.Helper()
	c, err := candidate.Parse(context.Background(), ref, spec, candidate.Options{Set: kernels.Best()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// texts are the first chunks of some embedded corpora, cut to n tokens.
func texts(t testing.TB, chunks, n int, names ...string) []*corpus.Corpus {
	t.Helper()
	all, err := corpus.Demo()
	if err != nil {
		t.Fatal(err)
	}
	var out []*corpus.Corpus
	for _, name := range names {
		for _, c := range all {
			if c.Name != name {
				continue
			}
			short := *c
			short.Chunks = nil
			for _, ids := range c.Chunks[:chunks] {
				short.Chunks = append(short.Chunks, ids[:n])
			}
			out = append(out, &short)
		}
	}
	return out
}

// wrapped is the reference with a source of its own around the reference's.
func wrapped(ref *candidate.Candidate, label string, wrap func(model.Source) model.Source) *candidate.Candidate {
	c := *ref
	c.Label, c.Spec = label, label
	return candidate.Of(c, func() (model.Source, error) {
		src, err := ref.Source()
		if err != nil {
			return nil, err
		}
		return wrap(src), nil
	}, nil)
}

func TestMeasureDemo(t *testing.T) {
	ref := reference(t)
	cands := []*candidate.Candidate{variant(t, ref, "nvfp4"), variant(t, ref, "nvfp4+mse")}
	corpora := texts(t, 3, 128, "prose", "math")
	var setup *Setup
	var order [][2]int
	var last Progress
	var scored []*Chunk
	r, err := Measure(context.Background(), ref, cands, corpora, Options{
		Threads: 2, Seed: 1, Probe: true, Begin: func(s *Setup) { setup = s },
		Scored:   func(c *Chunk) { order = append(order, [2]int{c.Corpus, c.Index}); scored = append(scored, c) },
		Progress: func(p Progress) { last = p },
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := [][2]int{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2}}; !reflect.DeepEqual(order, want) {
		t.Errorf("chunks came as %v, not in turn", order)
	}
	if setup != r.Setup || r.Positions != 6*127 || r.Of != r.Positions || last.Chunks != 6 || last.Of != 6 || last.Done != last.Total {
		t.Errorf("%d of %d positions, progress %+v", r.Positions, r.Of, last)
	}
	plain, better, ruler := r.Results[0].All, r.Results[1].All, r.Results[2].All
	if !setup.Candidates[2].Floor || setup.Candidates[1].Baseline != 0 {
		t.Errorf("parties: %+v", setup.Candidates)
	}
	if !(plain.KL > better.KL && better.KL > 10*ruler.KL && ruler.KL > 0) {
		t.Errorf("KL nvfp4 %g, nvfp4+mse %g, floor %g", plain.KL, better.KL, ruler.KL)
	}
	if !(plain.KLErr > 0 && plain.KLErr < plain.KL/2) {
		t.Errorf("standard error %g of %g", plain.KLErr, plain.KL)
	}
	for _, g := range r.Gates {
		if !g.Passed {
			t.Errorf("%+v", g)
		}
	}
	if s := r.Sane; !s.Deterministic || !s.Grows || !s.Moved || len(s.Norms) != 6 || len(s.Same) != 0 {
		t.Errorf("%+v", s)
	}
	if len(r.Probes) == 0 || ProbeAgreement(r.Probes, 0).N < 10 {
		t.Errorf("%d probes", len(r.Probes))
	}
	for _, p := range r.Probes {
		if p.Candidate == 0 && strings.Contains(p.Name, "expert") && !(p.Output > 0.03 && p.Output < 0.3 && p.Weight > 0.05 && p.Weight < 0.15 && p.Rows > 0) {
			t.Errorf("%+v", p)
		}
	}
	again, err := Analyze(context.Background(), setup, scored, 1)
	if err != nil {
		t.Fatal(err)
	}
	if !sameResults(again.Results, r.Results) {
		t.Error("the report of the stored chunks differs")
	}
}

// sameResults compares figures bit for bit, NaN with NaN.
func sameResults(a, b []Result) bool {
	return reflect.DeepEqual(bits(reflect.ValueOf(a)), bits(reflect.ValueOf(b)))
}

// bits flattens a value to integers and strings.
func bits(v reflect.Value) (out []any) {
	switch v.Kind() {
	case reflect.Float64, reflect.Float32:
		return []any{math.Float64bits(v.Float())}
	case reflect.Slice, reflect.Array:
		out = append(out, v.Len())
		for i := range v.Len() {
			out = append(out, bits(v.Index(i))...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			out = append(out, bits(v.Field(i))...)
		}
	default:
		return []any{v.Interface()}
	}
	return out
}

// The scores do not depend on threads, groups, parties beside, a resumed run, or the
// cache.
func TestMeasureIsTheSame(t *testing.T) {
	ref := reference(t)
	cand := variant(t, ref, "nvfp4")
	corpora := texts(t, 2, 64, "prose", "chat")
	run := func(o Options, cands ...*candidate.Candidate) map[[2]int][]Row {
		out := map[[2]int][]Row{}
		o.NoFloor = len(cands) == 1
		o.Scored = func(c *Chunk) { out[[2]int{c.Corpus, c.Index}] = c.Rows[0] }
		if _, err := Measure(context.Background(), ref, cands, corpora, o); err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := run(Options{Threads: 1}, cand)
	dir := t.TempDir()
	for name, got := range map[string]map[[2]int][]Row{
		"two threads":       run(Options{Threads: 2}, cand),
		"small groups":      run(Options{Threads: 2, Group: 70}, cand),
		"another candidate": run(Options{Threads: 2}, cand, variant(t, ref, "fp8")),
		"cache being made":  run(Options{Threads: 2, Cache: dir}, cand),
		"cache being used":  run(Options{Threads: 2, Cache: dir}, cand),
	} {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: other scores", name)
		}
	}
	got := run(Options{Skip: func(corpus, chunk int) bool { return corpus == 0 }}, cand)
	if len(got) != 2 || !reflect.DeepEqual(got[[2]int{1, 1}], want[[2]int{1, 1}]) {
		t.Errorf("skipping: %d chunks", len(got))
	}
}

// Parties that are the same share hidden states; they must be their own.
func TestPartiesThatAreTheSame(t *testing.T) {
	ref := reference(t)
	fp8 := variant(t, ref, "fp8") // of experts, which layer 0 has none of
	kept, err := candidate.Keep(ref, fp8, "re:model.layers.0")
	if err != nil {
		t.Fatal(err)
	}
	cands := []*candidate.Candidate{fp8, variant(t, ref, "nvfp4@linear"), kept, variant(t, ref, "ref")}
	r, err := Measure(context.Background(), ref, cands, texts(t, 2, 64, "prose", "chat"), Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := r.Results[0].All, r.Results[2].All; a.KL != b.KL || a.KL == 0 || r.Results[3].All.KL != 0 || r.Results[1].All.KL <= a.KL {
		t.Errorf("fp8 %g, the same in other words %g, nvfp4 %g, the reference %g", a.KL, b.KL, r.Results[1].All.KL, r.Results[3].All.KL)
	}
}

func TestSetsGiveTheSameScores(t *testing.T) {
	ref := reference(t)
	cand := variant(t, ref, "nvfp4")
	var want []*Chunk
	for _, set := range kernels.Available() {
		var got []*Chunk
		_, err := Measure(context.Background(), ref, []*candidate.Candidate{cand}, texts(t, 1, 12, "multi"), Options{Set: set, Scored: func(c *Chunk) { got = append(got, c) }})
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: other scores", set.Name)
		}
	}
}

func TestMeasureItself(t *testing.T) {
	ref := reference(t)
	r, err := Measure(context.Background(), ref, []*candidate.Candidate{variant(t, ref, "ref")}, texts(t, 2, 64, "code"), Options{NoFloor: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Results) != 1 {
		t.Errorf("%d rows without a floor", len(r.Results))
	}
	if s := r.Results[0].All; s.KL != 0 || s.Max != 0 || s.Reverse != 0 || s.DNLL != 0 || s.Top1 != 1 || s.NLL != s.RefNLL {
		t.Errorf("%+v", s)
	}
	if !reflect.DeepEqual(r.Sane.Same, []int{0}) || len(r.Results[0].Worst) != 0 {
		t.Errorf("same %v, worst %v", r.Sane.Same, r.Results[0].Worst)
	}
}

// spoiled is a source with one weight that is not a number.
type spoiled struct {
	model.Source
	at model.Place
}

func (s *spoiled) Weight(ctx context.Context, p model.Place) (model.Weight, error) {
	w, err := s.Source.Weight(ctx, p)
	if err != nil || p != s.at {
		return w, err
	}
	x := make([]float32, w.Rows*w.Cols)
	if err := kernels.Best().ExpandRows(x, w.Operand, 0); err != nil {
		return w, err
	}
	x[5] = float32(math.NaN())
	w.Operand = kernels.DenseOperand(kernels.Dense{Rows: w.Rows, Cols: w.Cols, Stride: w.Cols, Data: x})
	return w, nil
}

func TestNaNWeights(t *testing.T) {
	ref := reference(t)
	down := model.Place{Kind: topology.Expert, Layer: 2, Expert: 5, Projection: "down"}
	for _, at := range []model.Place{down, {Kind: topology.Head, Layer: -1, Expert: -1}} {
		if h := headOf(t, ref); at.Kind == topology.Head {
			at = h
		}
		bad := wrapped(ref, "spoiled", func(src model.Source) model.Source { return &spoiled{src, at} })
		r, err := Measure(context.Background(), ref, []*candidate.Candidate{bad, variant(t, ref, "fp8")}, texts(t, 2, 64, "prose", "code"), Options{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		s, good := r.Results[0].All, r.Results[1].All
		if s.NaN == 0 || s.NaN+s.Positions != r.Positions || good.NaN != 0 || good.Positions != r.Positions {
			t.Errorf("%s: %d NaN and %d with figures of %d; beside it %d NaN", at, s.NaN, s.Positions, r.Positions, good.NaN)
		}
		g := r.Gates[0]
		if g.Name != "finite" || g.Passed || at == down && !strings.Contains(g.Message, "layer 2") {
			t.Errorf("%+v", g)
		}
		_, err = Measure(context.Background(), bad, nil, texts(t, 2, 64, "prose", "code"), Options{Threads: 2})
		if !errors.Is(err, ErrReference) || !strings.Contains(err.Error(), "chunk ") || !strings.Contains(err.Error(), "position ") ||
			at == down && !strings.Contains(err.Error(), "layer 2") {
			t.Errorf("reference: %v", err)
		}
	}
}

func headOf(t *testing.T, c *candidate.Candidate) model.Place {
	t.Helper()
	src, err := c.Source()
	if err != nil {
		t.Fatal(err)
	}
	return model.HeadPlace(src)
}

func TestMemoryThatIsTooSmall(t *testing.T) {
	ref := reference(t)
	corpora := texts(t, 1, 64, "prose")
	var small *model.MemoryError
	if _, err := Measure(context.Background(), ref, nil, corpora, Options{Mem: 1 << 20}); !errors.As(err, &small) {
		t.Errorf("a mebibyte: %v", err)
	}
	// What it says is needed is enough, and a sixteenth less is not: no bound that was
	// given is exceeded without a word.
	need := small.Need
	if _, err := Measure(context.Background(), ref, nil, corpora, Options{Mem: need}); err != nil {
		t.Errorf("%d bytes, as asked for: %v", need, err)
	}
	if _, err := Measure(context.Background(), ref, nil, corpora, Options{Mem: need - need/16}); !errors.As(err, &small) || small.Need != need {
		t.Errorf("less than asked for: %v, want %d bytes again", err, need)
	}
}

func TestMeasureIsInterrupted(t *testing.T) {
	ref := reference(t)
	ctx, cancel := context.WithCancel(context.Background())
	scored := 0
	_, err := Measure(ctx, ref, []*candidate.Candidate{variant(t, ref, "fp8")}, texts(t, 2, 64, "prose", "code"), Options{
		Group: 64, Scored: func(*Chunk) { scored++; cancel() },
	})
	if !errors.Is(err, context.Canceled) || scored == 0 || scored == 4 {
		t.Errorf("%d chunks scored, then %v", scored, err)
	}
}

// BenchmarkFiveCandidates measures five candidates in one pass and each in a pass of
// its own; the ratio is of the two.
func BenchmarkFiveCandidates(b *testing.B) {
	ref := reference(b)
	var cands []*candidate.Candidate
	for _, spec := range []string{"nvfp4", "nvfp4+mse", "nvfp4+mse_ge1", "int4-g128", "fp8"} {
		cands = append(cands, variant(b, ref, spec))
	}
	corpora := texts(b, 2, 256, "prose", "code", "chat")
	for _, cached := range []bool{false, true} {
		name := "reference/computed"
		o := Options{NoFloor: true}
		if cached {
			name, o.Cache = "reference/cached", b.TempDir()
		}
		run := func(c []*candidate.Candidate) time.Duration {
			begin := time.Now()
			if _, err := Measure(context.Background(), ref, c, corpora, o); err != nil {
				b.Fatal(err)
			}
			return time.Since(begin)
		}
		run(cands) // fills the cache
		b.Run(name, func(b *testing.B) {
			var together, alone time.Duration
			for b.Loop() {
				together += run(cands)
				for _, c := range cands {
					alone += run([]*candidate.Candidate{c})
				}
			}
			b.ReportMetric(float64(together)/float64(alone), "together/alone")
		})
	}
}
