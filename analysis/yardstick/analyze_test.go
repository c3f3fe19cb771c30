package yardstick

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// made is a measurement with figures drawn at random: chunks differ from one
// another, and candidate i has (i+1) times the divergence of the first.
func made(r *rand.Rand, corpora, chunks, length, cands int) (*Setup, []*Chunk) {
	s := &Setup{Positions: "all", Texts: map[int32]string{0: "a", 1: "7", 2: "é", 3: "<end>", 4: " b"}, Special: []int32{3}}
	for range cands {
		s.Candidates = append(s.Candidates, Party{Label: string(rune('A' + len(s.Candidates))), Baseline: -1, Of: -1})
	}
	var out []*Chunk
	for c := range corpora {
		ref := CorpusRef{Name: string(rune('p' + c))}
		for k := range chunks {
			ids := make([]int32, length)
			for i := range ids {
				ids[i] = int32(r.IntN(5))
			}
			ref.IDs = append(ref.IDs, ids)
			level := math.Exp(r.NormFloat64() / 2)
			chunk := &Chunk{Corpus: c, Index: k, Ref: make([]RefRow, length-1), Rows: make([][]Row, cands)}
			for i := range chunk.Ref {
				chunk.Ref[i] = RefRow{NLL: r.ExpFloat64(), MaxP: r.Float32(), Top: int32(r.IntN(5))}
			}
			for j := range chunk.Rows {
				chunk.Rows[j] = make([]Row, length-1)
				for i := range chunk.Rows[j] {
					kl := 0.01 * level * r.ExpFloat64() * float64(j+1)
					chunk.Rows[j][i] = Row{KL: kl, Reverse: kl * (0.5 + r.Float64()), NLL: chunk.Ref[i].NLL + kl*r.NormFloat64(), Top: int32(r.IntN(5))}
				}
			}
			out = append(out, chunk)
		}
		s.Corpora = append(s.Corpora, ref)
	}
	return s, out
}

func analyze(t testing.TB, s *Setup, chunks []*Chunk) *Report {
	t.Helper()
	r, err := Analyze(context.Background(), s, chunks, 7)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The order in which chunks were scored does not matter to the last bit, the parts
// of a candidate add up to the whole, and percentiles are in order.
func TestReportProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		r := rand.New(rand.NewPCG(seed, 1))
		s, chunks := made(r, rapid.IntRange(1, 4).Draw(rt, "corpora"), rapid.IntRange(1, 4).Draw(rt, "chunks"), rapid.IntRange(2, 70).Draw(rt, "length"), rapid.IntRange(1, 3).Draw(rt, "candidates"))
		spoil := rapid.IntRange(0, 3).Draw(rt, "spoilt")
		for range spoil {
			c := chunks[r.IntN(len(chunks))]
			row := &c.Rows[0][r.IntN(len(c.Ref))]
			if r.IntN(2) == 0 {
				*row = Row{math.NaN(), math.NaN(), math.NaN(), -1}
			} else {
				row.KL, row.NLL = math.Inf(1), math.Inf(1)
			}
		}
		want := analyze(t, s, chunks)
		mixed := slices.Clone(chunks)
		r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		if got := analyze(t, s, mixed); !sameResults(got.Results, want.Results) {
			rt.Fatal("the order of chunks matters")
		}
		for _, x := range want.Results {
			var hist int64
			for _, n := range x.Histogram.Counts {
				hist += n
			}
			if hist+x.Histogram.Infinite != x.All.Positions {
				rt.Fatalf("histogram holds %d of %d", hist, x.All.Positions)
			}
			for what, parts := range map[string][]Summary{"corpora": x.Corpora, "buckets": x.Buckets, "classes": x.Classes, "places": x.ByPlace} {
				var n, nan, inf int64
				var sum float64
				for _, p := range parts {
					n, nan, inf = n+p.Positions, nan+p.NaN, inf+p.Infinite
					if p.Positions > p.Infinite {
						sum += p.KL * float64(p.Positions-p.Infinite)
					}
				}
				if n != x.All.Positions || nan != x.All.NaN || inf != x.All.Infinite {
					rt.Fatalf("%s: %d positions, %d NaN, %d infinite of %+v", what, n, nan, inf, x.All)
				}
				if k := x.All.KL * float64(n-inf); n > inf && math.Abs(k-sum) > 1e-9*k {
					rt.Fatalf("%s: mean %g of %g", what, sum, k)
				}
			}
			a := x.All
			if a.Positions > 0 && !(a.Median <= a.P90 && a.P90 <= a.P99 && a.P99 <= a.P999 && a.P999 <= a.Max) {
				rt.Fatalf("percentiles %+v", a)
			}
			if !slices.IsSortedFunc(x.Worst, func(p, q Place) int { return cmp.Compare(q.KL, p.KL) }) || len(x.Worst) > maxWorst || len(x.Worst) > 0 && x.Worst[0].KL != a.Max {
				rt.Fatalf("worst %+v", x.Worst)
			}
		}
		if a := want.Results[0].All; a.NaN+a.Infinite > 0 && (a.Why == "" || want.Gates[0].Passed) {
			rt.Fatalf("%+v, %+v", a, want.Gates[0])
		}
	})
}

func TestSummaryByHand(t *testing.T) {
	s := &Setup{Candidates: []Party{{Label: "a", Baseline: -1, Of: -1}}, Corpora: []CorpusRef{{Name: "x"}, {Name: "y"}}}
	chunk := func(corpus, index int, kl ...float64) *Chunk {
		c := &Chunk{Corpus: corpus, Index: index, Ref: make([]RefRow, len(kl)), Rows: [][]Row{make([]Row, len(kl))}}
		for i, v := range kl {
			c.Rows[0][i] = Row{KL: v, NLL: 1}
		}
		return c
	}
	// x: chunk means 1 and 3; y: 10 and 14, of two positions each.
	r := analyze(t, s, []*Chunk{chunk(0, 0, 0, 2), chunk(0, 1, 2, 4), chunk(1, 0, 9, 11), chunk(1, 1, 13, 15)})
	x, all := r.Results[0].Corpora[0], r.Results[0].All
	// m = 2, r = ∓2, C/(C−1)·Σr² = 2·8 = 16, √16/4 = 1: that of two independent means.
	if x.KL != 2 || math.Abs(x.KLErr-1) > 1e-12 || x.Chunks != 2 {
		t.Errorf("x: %g ± %g", x.KL, x.KLErr)
	}
	// m = 7: r = −12, −8 | 6, 14; within x Σ(r−r̄)² = 8, in y 32: √(2·8+2·32)/8 = √80/8.
	if all.KL != 7 || math.Abs(all.KLErr-math.Sqrt(80)/8) > 1e-12 {
		t.Errorf("all: %g ± %g", all.KL, all.KLErr)
	}
	// A chunk each of NLL 2, 4, 6 and 8: within the corpora r−r̄ is ∓2, and e^5 times √(2·8+2·8)/8.
	chunks := []*Chunk{chunk(0, 0, 0, 2), chunk(0, 1, 2, 4), chunk(1, 0, 9, 11), chunk(1, 1, 13, 15)}
	for k, c := range chunks {
		c.Rows[0][0].NLL, c.Rows[0][1].NLL = float64(2*k+2), float64(2*k+2)
	}
	if p := analyze(t, s, chunks).Results[0].All; math.Abs(p.PPL-math.Exp(5)) > 1e-9 || math.Abs(p.PPLErr-math.Exp(5)*math.Sqrt(32)/8) > 1e-9 {
		t.Errorf("perplexity %g ± %g", p.PPL, p.PPLErr)
	}
	if all.Median != 6.5 || all.Max != 15 || all.PPL != math.E || all.RefPPL != 1 {
		t.Errorf("%+v", all)
	}
	// Corpora of one chunk each are put together: r = −2, 2 and m = 3.
	r = analyze(t, s, []*Chunk{chunk(0, 0, 2), chunk(1, 0, 4)})
	if all := r.Results[0].All; all.KL != 3 || math.Abs(all.KLErr-1) > 1e-12 {
		t.Errorf("a chunk each: %g ± %g", all.KL, all.KLErr)
	}
	if one := r.Results[0].Corpora[0]; !math.IsNaN(one.KLErr) || one.Why == "" {
		t.Errorf("one chunk: ± %g, %q", one.KLErr, one.Why)
	}
}

func TestInfiniteDivergence(t *testing.T) {
	s, chunks := made(rand.New(rand.NewPCG(1, 1)), 2, 3, 20, 2)
	chunks[1].Rows[0][4].KL = math.Inf(1)
	chunks[1].Rows[0][4].NLL = math.Inf(1)
	r := analyze(t, s, chunks)
	a := r.Results[0].All
	if a.Infinite != 1 || !math.IsInf(a.Max, 1) || !math.IsInf(a.P999, 1) || math.IsInf(a.KL, 0) || !math.IsInf(a.PPL, 1) || a.Why == "" {
		t.Errorf("%+v", a)
	}
	var reverse float64 // is finite everywhere, and over all positions
	for _, c := range chunks {
		for _, row := range c.Rows[0] {
			reverse += row.Reverse / float64(a.Positions)
		}
	}
	if math.Abs(a.Reverse-reverse) > 1e-12 {
		t.Errorf("reverse %g, want %g", a.Reverse, reverse)
	}
	if w := r.Results[0].Worst[0]; !math.IsInf(w.KL, 1) || w.Corpus != 0 || w.Chunk != 1 || w.At != 4 {
		t.Errorf("%+v", w)
	}
	for _, p := range r.Pairs {
		if p.Left != 1 || math.IsNaN(p.DKL) || math.IsInf(p.DKL, 0) {
			t.Errorf("%+v", p)
		}
	}
	if r.Gates[0].Passed || !strings.Contains(r.Gates[0].Message, "1 have an infinite KL") {
		t.Errorf("%+v", r.Gates[0])
	}
}

func TestClassesAndBuckets(t *testing.T) {
	s := &Setup{
		Candidates: []Party{{Label: "a", Baseline: -1, Of: -1}}, Special: []int32{4},
		Texts:   map[int32]string{0: " word", 1: "12", 2: "ü", 3: "\xc3", 4: "<|end|>"},
		Corpora: []CorpusRef{{Name: "x", IDs: [][]int32{{0, 0, 1, 2, 3, 4, 9}}}},
	}
	c := &Chunk{Ref: make([]RefRow, 6), Rows: [][]Row{make([]Row, 6)}}
	for i, p := range []float32{0.29, 0.3, 0.6, 0.9, 0.99, 1} {
		c.Ref[i].MaxP = p
	}
	r := analyze(t, s, []*Chunk{c}).Results[0]
	var names []string
	for _, k := range r.Classes {
		names = append(names, k.Name)
		if want := map[string]int64{"ascii": 1, "digits": 1, "non-ascii": 2, "special": 1, "not known": 1}[k.Name]; k.Positions != want {
			t.Errorf("%s: %d positions, want %d", k.Name, k.Positions, want)
		}
	}
	if len(names) != 5 {
		t.Errorf("classes %v", names)
	}
	for i, want := range []int64{1, 1, 1, 1, 2} {
		if got := r.Buckets[i].Positions; got != want {
			t.Errorf("bucket %s: %d positions, want %d", r.Buckets[i].Name, got, want)
		}
	}
	if len(r.ByPlace) != 6 || r.ByPlace[5].Name != "5" {
		t.Errorf("%d places", len(r.ByPlace))
	}
	if r.Corpora[0].Positions != 6 || len(r.Worst) != 0 {
		t.Errorf("%+v", r.Corpora[0])
	}
}

func TestHistogramBins(t *testing.T) {
	for kl, want := range map[float64]int{0: 0, 1e-12: 0, 1.1e-9: 0, 1.1 * math.Pow(10, -8.75): 1, 1.01: 36, 0.99: 35, 99: 43, 1e6: 43} {
		var h Histogram
		h.add(kl)
		if h.Counts[want] != 1 {
			t.Errorf("%g is in bin %d, want %d", kl, slices.Index(h.Counts[:], 1), want)
		}
	}
}

func TestChunksThatDoNotFit(t *testing.T) {
	s, chunks := made(rand.New(rand.NewPCG(1, 1)), 1, 2, 8, 2)
	bad := func(change func(c *Chunk)) []*Chunk {
		c := *chunks[0]
		change(&c)
		return []*Chunk{&c, chunks[1]}
	}
	for want, list := range map[string][]*Chunk{
		"there twice":     {chunks[0], chunks[0]},
		"none of the":     bad(func(c *Chunk) { c.Corpus = 3 }),
		"of 1 candidates": bad(func(c *Chunk) { c.Rows = c.Rows[:1] }),
		"6 rows of B":     bad(func(c *Chunk) { c.Rows = [][]Row{c.Rows[0], c.Rows[1][:6]} }),
		"not in it":       bad(func(c *Chunk) { c.Index = 9 }),
		"shorter there":   bad(func(c *Chunk) { c.First = 1 }),
	} {
		if _, err := Analyze(context.Background(), s, list, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if _, err := Analyze(context.Background(), s, []*Chunk{nil}, 1); err == nil {
		t.Error("no chunk was taken for one")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Analyze(ctx, s, chunks, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestNothingScoredYet(t *testing.T) {
	s, _ := made(rand.New(rand.NewPCG(1, 1)), 2, 2, 8, 2)
	r := analyze(t, s, nil)
	if r.Positions != 0 || r.Of != 28 || len(r.Gates) != 0 || !math.IsNaN(r.Results[0].All.KL) || r.Results[0].All.Why == "" {
		t.Errorf("%+v", r)
	}
}

func BenchmarkAnalyze(b *testing.B) {
	s, chunks := made(rand.New(rand.NewPCG(1, 1)), 5, 175, 384, 6)
	b.ReportMetric(float64(s.Positions64()), "positions")
	for b.Loop() {
		if _, err := Analyze(context.Background(), s, chunks, 1); err != nil {
			b.Fatal(err)
		}
	}
}
