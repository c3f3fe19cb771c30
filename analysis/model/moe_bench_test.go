package model

import (
	"fmt"
	"testing"
	"time"

	"quantscope/kernels"
)

// BenchmarkMoE takes tokens through one layer of 256 experts, of which each has 8,
// and through the dense layer of as many parameters as are active, with the router.
// "ratio" is the time of the one over that of the other in one run, the best of both;
// "rows" are what an expert has on average. Attention is next to nothing, and the
// weights are in memory.
func BenchmarkMoE(b *testing.B) {
	const hidden, inner, experts, topK, chunk = 1024, 256, 256, 8, 64
	sparse := moeSpec(2, hidden, 1, 1, 32, inner, experts, topK, 100)
	sparse.Layers = sparse.Layers[1:]
	sparse.Layers[0].Index, sparse.Layers[0].MoE.Shared = 0, 0
	dense := llamaSpec(1, hidden, 1, 1, 32, topK*inner, 100)
	of, as := newRandom(sparse, 1).keep(), newRandom(dense, 1).keep()
	counts := []int{512, 4096, 16384}
	if testing.Short() {
		counts = counts[:1]
	}
	for _, tokens := range counts {
		b.Run(fmt.Sprint(tokens), func(b *testing.B) {
			lengths := make([]int, tokens/chunk)
			for i := range lengths {
				lengths[i] = chunk
			}
			chunks := texts(dense, 1, lengths...)
			take := func(spec *Spec, src Source) time.Duration {
				begin := time.Now()
				if _, err := Run(b.Context(), spec, []Source{src}, chunks, Options{Set: kernels.Best(), Threads: 2, Wave: 1 << 30}); err != nil {
					b.Fatal(err)
				}
				return time.Since(begin)
			}
			take(sparse, of) // makes the weights
			take(dense, as)
			one, other := time.Duration(1<<62), time.Duration(1<<62)
			for b.Loop() {
				one, other = min(one, take(sparse, of)), min(other, take(dense, as))
			}
			b.ReportMetric(one.Seconds()/other.Seconds(), "ratio")
			b.ReportMetric(float64(tokens*topK)/experts, "rows")
			b.ReportMetric(2*float64(tokens)*3*hidden*topK*inner/one.Seconds()/1e9, "GFLOP/s")
		})
	}
}
