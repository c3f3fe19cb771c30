package model

import (
	"context"
	"testing"
	"time"

	"quantscope/kernels"
	"quantscope/quant/demo"
)

// flops are the multiplications and additions of a pass over chunks, the head
// left out: two a weight and token, and of attention those with keys that are
// seen.
func (s *Spec) flops(chunks [][]int32) float64 {
	var sum float64
	for _, c := range chunks {
		n := float64(len(c))
		for i := range s.Layers {
			l := &s.Layers[i]
			a := &l.Attn
			weights := float64(s.Hidden) * float64(a.Heads*(a.Dim+a.VDim)+a.KVHeads*(a.Dim+a.VDim))
			if l.MoE != nil {
				weights += 3 * float64(s.Hidden) * float64(l.MoE.TopK*l.MoE.Inner+l.MoE.Shared)
			} else {
				weights += 3 * float64(s.Hidden) * float64(l.MLP.Inner)
			}
			sum += 2*n*weights + n*n*float64(a.Heads*(a.Dim+a.VDim))
		}
	}
	return sum
}

// benchPass reports tokens/s, and GFLOP/s over the multiply-add peak of the same
// threads, taken in the same run.
func benchPass(b *testing.B, spec *Spec, chunks [][]int32, logits bool, sources func() []Source) {
	o := Options{Set: kernels.Best(), Threads: 2}
	tokens := 0
	for _, c := range chunks {
		tokens += len(c)
	}
	flops := spec.flops(chunks)
	if logits {
		flops += 2 * float64(tokens) * float64(spec.Hidden) * float64(spec.Vocab)
	}
	peak := o.Set.MeasureFMA(o.Threads, 50*time.Millisecond)
	best := time.Duration(1 << 62)
	var buf []float32
	b.ReportAllocs()
	for b.Loop() {
		begin := time.Now()
		src := sources()
		h, err := Run(context.Background(), spec, src, chunks, o)
		if err != nil {
			b.Fatal(err)
		}
		if logits {
			for c := range src {
				head, err := NewHead(context.Background(), spec, src[c], o)
				if err != nil {
					b.Fatal(err)
				}
				const rows = 1024
				for at := 0; at < tokens; at += rows {
					n := min(rows, tokens-at)
					if buf, err = head.Logits(buf, h[c].X[at*spec.Hidden:(at+n)*spec.Hidden], n); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
		best = min(best, time.Since(begin))
	}
	n := float64(len(sources()))
	peak = max(peak, o.Set.MeasureFMA(o.Threads, 50*time.Millisecond))
	b.ReportMetric(n*float64(tokens)/best.Seconds(), "best-tokens/s")
	b.ReportMetric(n*flops/best.Seconds()/1e9, "best-GFLOP/s")
	b.ReportMetric(n*flops/best.Seconds()/1e9/peak, "peak")
}

// BenchmarkPass takes texts through the demo, with logits, and through a model
// of SmolLM2-135M's shape, without.
func BenchmarkPass(b *testing.B) {
	b.Run("demo", func(b *testing.B) {
		f := openedDemo(b)
		benchPass(b, f.spec, demoChunks(b, 11), true, func() []Source { return []Source{f.source()} })
	})
	b.Run("SmolLM2/pp512", func(b *testing.B) {
		spec := smolLM2()
		src := newRandom(spec, 1).keep()
		benchPass(b, spec, texts(spec, 1, 512), false, func() []Source { return []Source{src.Fork()} })
	})
	b.Run("SmolLM2/8x512", func(b *testing.B) {
		spec := smolLM2()
		src := newRandom(spec, 1).keep()
		benchPass(b, spec, texts(spec, 1, 512, 512, 512, 512, 512, 512, 512, 512), false, func() []Source { return []Source{src.Fork()} })
	})
}

// demoChunks are chunks of the demo's prose.
func demoChunks(tb testing.TB, n int) [][]int32 {
	tb.Helper()
	corpora, err := demo.Corpora()
	if err != nil {
		tb.Fatal(err)
	}
	var chunks [][]int32
	for i := range corpora {
		for k := 0; corpora[i].Name != demo.Calibration && k < corpora[i].Chunks && len(chunks) < n; k++ {
			chunks = append(chunks, corpora[i].Chunk(k))
		}
	}
	return chunks
}

// BenchmarkParties measures five candidates in one pass against five passes, each
// with the reference beside its candidate or, as where the reference's hidden
// states are cached, alone. Candidates differ from the reference in all layers, or
// from the middle on. "ratio" is one pass over five.
func BenchmarkParties(b *testing.B) {
	spec := moeSpec(6, 256, 4, 2, 64, 256, 16, 2, 1000)
	ref := newRandom(spec, 1).keep()
	chunks := texts(spec, 1, 256, 256, 256, 256)
	for _, c := range []struct {
		name  string
		first int // layer that differs
		with  bool
	}{{"all/reference", 0, true}, {"all/cached", 0, false}, {"half/reference", 3, true}, {"half/cached", 3, false}} {
		b.Run(c.name, func(b *testing.B) {
			var cands []Source
			for k := range 5 {
				s := newRandom(spec, 1).keep()
				s.seeds = map[int]uint64{}
				for i := c.first; i < len(spec.Layers); i++ {
					s.seeds[i] = uint64(10 + k)
				}
				cands = append(cands, s)
			}
			run := func(sources ...Source) time.Duration {
				begin := time.Now()
				if _, err := Run(context.Background(), spec, sources, chunks, Options{Set: kernels.Best(), Threads: 2}); err != nil {
					b.Fatal(err)
				}
				return time.Since(begin)
			}
			five := func(cand Source) []Source {
				if c.with {
					return []Source{ref, cand}
				}
				return []Source{cand}
			}
			together := append([]Source{}, cands...)
			if c.with {
				together = append([]Source{ref}, cands...)
			}
			run(together...) // makes the weights
			one, each := time.Duration(1<<62), time.Duration(1<<62)
			for b.Loop() {
				one = min(one, run(together...))
				var sum time.Duration
				for _, s := range cands {
					sum += run(five(s)...)
				}
				each = min(each, sum)
			}
			b.ReportMetric(one.Seconds()/each.Seconds(), "ratio")
		})
	}
}

// BenchmarkDecode takes a text of SmolLM2-135M's shape on token by token.
func BenchmarkDecode(b *testing.B) {
	spec := smolLM2()
	d, err := NewDecoder(b.Context(), spec, NewResident(newRandom(spec, 1)), Options{Set: kernels.Best(), Threads: 2})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := d.Feed(b.Context(), texts(spec, 1, 128)[0]); err != nil {
		b.Fatal(err)
	}
	var logits []float32
	b.ReportAllocs()
	for b.Loop() {
		x, err := d.Feed(b.Context(), []int32{1})
		if err != nil {
			b.Fatal(err)
		}
		if logits, err = d.Logits(logits, x, 1); err != nil {
			b.Fatal(err)
		}
		if d.Len() > 512 {
			d.Cut(128)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
}
