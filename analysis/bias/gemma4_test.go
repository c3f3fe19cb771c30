package bias

import (
	"math"
	"path/filepath"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/kernels"
)

// TestLentAndOwn: of a model whose last layers borrow keys and values and whose layers
// have embeddings of their own, a candidate that differs in a lender or in what stands
// before the layers parts from the reference just there, and not before it.
func TestLentAndOwn(t *testing.T) {
	ref, err := candidate.Open(t.Context(), filepath.Join("..", "model", "testdata", "gemma4_ple"), candidate.Options{Set: kernels.Best()})
	must(t, err)
	t.Cleanup(func() { _ = ref.Close() })
	text := &corpus.Corpus{Name: "ids", Chunks: [][]int32{{5, 9, 100, 31, 7, 7, 90, 14}, {3, 4, 5, 6, 7, 8, 9, 10}}}
	cands := variants(t, ref, "ref", "v=int4-g32@*layers.1.self_attn.v_proj", "o=int4-g32@*layers.3.self_attn.o_proj", "p=int4-g32@*per_layer_model_projection")
	f := looked(t, ref, cands, []*corpus.Corpus{text}, Options{Threads: 2})
	first := map[int]int{1: 1, 2: 3, 3: 0} // layer after which the stream differs
	seen := 0
	for _, row := range f.rows {
		if row.Candidate >= len(cands) || row.Part != Residual {
			continue
		}
		seen++
		from, differs := first[row.Candidate]
		if differs = differs && row.Layer >= from; differs != (row.Rel > 0) || math.IsNaN(row.Rel) {
			t.Errorf("candidate %d, layer %d: the stream is off by %g", row.Candidate, row.Layer, row.Rel)
		}
	}
	if want := 4 * 5; seen != want {
		t.Errorf("%d rows of the stream, want %d", seen, want)
	}
	for c, n := range []int{0, 1, 1, 1} {
		if w := f.report().Total(c); w == nil || w.Tensors != n {
			t.Errorf("candidate %d: weights %+v, want %d matrix that differs", c, w, n)
		}
	}
}
