package calibrate

import (
	"testing"
	"time"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/demo"
)

// BenchmarkCollect takes the demo's calibration text through all its layers, MTP
// and the head: passed only; looked at by a hook that does nothing and passed;
// measured, with all Hessians, in the pass itself; and measured in a look before
// it, as where what is passed was quantized. Each says its best time over that of
// the passes.
func BenchmarkCollect(b *testing.B) {
	o := openModel(b, "demo")
	corpora, err := demo.Corpora()
	must(b, err)
	var chunks [][]int32
	tokens, most := 0, 1<<20
	if testing.Short() { // that it runs at all
		most = 16
	}
	for i := range corpora {
		for k := 0; corpora[i].Name == demo.Calibration && k < min(corpora[i].Chunks, most); k++ {
			chunks = append(chunks, corpora[i].Chunk(k))
			tokens += len(chunks[len(chunks)-1])
		}
	}
	idle := model.Looks{Input: func(model.Place, []float32, int) {}}
	give := func(Wave) error { return nil }
	passes := time.Duration(1 << 62)
	for _, c := range []struct {
		name  string
		layer func(*Collector, *model.Walk, model.Source, []Want) error
	}{
		{"pass", func(_ *Collector, w *model.Walk, src model.Source, _ []Want) error { return w.Pass(b.Context(), src) }},
		{"look+pass", func(_ *Collector, w *model.Walk, src model.Source, _ []Want) error {
			if err := w.Look(b.Context(), src, idle); err != nil {
				return err
			}
			return w.Pass(b.Context(), src)
		}},
		{"measured pass", func(c *Collector, w *model.Walk, src model.Source, wants []Want) error {
			return c.LayerPass(b.Context(), w, src, wants, give)
		}},
		{"measured look+pass", func(c *Collector, w *model.Walk, src model.Source, wants []Want) error {
			if err := c.Layer(b.Context(), w, src, wants, give); err != nil {
				return err
			}
			return w.Pass(b.Context(), src)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			best := time.Duration(1 << 62)
			for b.Loop() {
				begin := time.Now()
				src := o.source()
				w, err := model.NewWalk(b.Context(), o.spec, src, chunks, model.WalkOptions{Set: kernels.Best(), Threads: 2})
				must(b, err)
				col := NewCollector(CollectOptions{Set: kernels.Best(), Threads: 2})
				for l, ok := w.At(); ok; l, ok = w.At() {
					must(b, c.layer(col, w, src, wantsOf(o, l, nil)))
				}
				must(b, col.Head(b.Context(), w, src, Want{Input: HeadInput(o.spec, src), Hessian: true}, give))
				must(b, w.Close())
				best = min(best, time.Since(begin))
			}
			if c.name == "pass" {
				passes = best
			}
			b.ReportMetric(best.Seconds(), "best-s")
			b.ReportMetric(float64(tokens)/best.Seconds(), "best-tokens/s")
			b.ReportMetric(best.Seconds()/passes.Seconds(), "of-passes")
		})
	}
}
