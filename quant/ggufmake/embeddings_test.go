package ggufmake

import (
	"slices"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/demo"
	"quantscope/quant/gguf"
)

// An MTP layer's own embedding has no inputs either, so that no imatrix has an entry
// of it: it is no fallback.
func TestImatrixOfMTPEmbedding(t *testing.T) {
	ck, err := demo.Open()
	if err != nil {
		t.Fatal(err)
	}
	s, err := FromCheckpoint(ck, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := Request{Type: kernels.GGUFIQ4NL}
	p, err := NewPlan(s, r)
	if err != nil {
		t.Fatal(err)
	}
	embeddings := []string{"token_embd.weight", "blk.5.nextn.embed_tokens.weight"}
	m := &gguf.Imatrix{Datasets: []string{"text.txt"}, ChunkCount: 1, ChunkSize: 512}
	for i := range p.Targets {
		w := &p.Targets[i]
		if w.Kept != "" || slices.Contains(embeddings, w.Name) {
			continue
		}
		e := gguf.ImatrixEntry{Name: w.Name, Cols: w.Cols(), Matrices: w.Matrices(), Counts: make([]float32, w.Matrices()), Sum2: make([]float32, w.Matrices()*w.Cols())}
		for k := range e.Counts {
			e.Counts[k] = 1
		}
		for k := range e.Sum2 {
			e.Sum2[k] = 1
		}
		m.Entries = append(m.Entries, e)
	}
	r.Importance, r.Imatrix, r.ImatrixFile = true, m, "m.imatrix"
	if p, err = NewPlan(s, r); err != nil {
		t.Fatal(err)
	}
	slices.Sort(embeddings)
	slices.Sort(p.Unweighted)
	if len(p.Fallbacks) != 0 || !slices.Equal(p.Unweighted, embeddings) {
		t.Errorf("unweighted %q, fallbacks %+v", p.Unweighted, p.Fallbacks)
	}
}
