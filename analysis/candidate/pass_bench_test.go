package candidate

import (
	"testing"
	"time"

	"quantscope/analysis/model"
	"quantscope/kernels"
)

// BenchmarkPass is a pass over 4,096 tokens of the demo by one candidate: how many
// tokens a second, and how much longer than the reference takes in the same run.
func BenchmarkPass(b *testing.B) {
	ref := open(b, "demo")
	var chunks [][]int32
	for c := range 8 {
		ids := make([]int32, 512)
		for i := range ids {
			ids[i] = int32((c*7919 + i*104729) % 1024)
		}
		chunks = append(chunks, ids)
	}
	pass := func(b *testing.B, c *Candidate) time.Duration {
		begin := time.Now()
		if _, err := model.Run(b.Context(), c.Arch, []model.Source{source(b, c)}, chunks, model.Options{Set: kernels.Best()}); err != nil {
			b.Fatal(err)
		}
		return time.Since(begin)
	}
	for _, spec := range []string{"ref", "fp8@linear", "fp8-block128@linear", "nvfp4@linear", "nvfp4+mse@linear", "mxfp4@linear", "int4-g128@linear", "int4-g128+range@linear"} {
		for _, mem := range []int64{-1, 1 << 30} {
			name := spec + "/anew"
			if mem > 0 {
				name = spec + "/kept"
			}
			b.Run(name, func(b *testing.B) {
				c := mustParse(b, ref, spec, Options{Mem: mem})
				pass(b, c)
				own, theirs := time.Duration(1<<62), time.Duration(1<<62)
				for b.Loop() {
					own, theirs = min(own, pass(b, c)), min(theirs, pass(b, ref))
				}
				b.ReportMetric(4096/own.Seconds(), "tokens/s")
				b.ReportMetric(own.Seconds()/theirs.Seconds(), "of-reference")
			})
		}
	}
}
