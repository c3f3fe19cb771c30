package tokenizer

import (
	"maps"
	"slices"
)

// PreTokenizers are the names of tokenizer.ggml.pre that FromVocabulary knows.
func PreTokenizers() []string { return slices.Sorted(maps.Keys(preTokenizers)) }

// pieces are what a text is split into before the model sees it.
func (t *Tokenizer) pieces(text string) []string {
	var out []string
	s := t.scratch()
	defer t.pool.Put(s)
	emit := func(p string, _ bool) { out = append(out, p) }
	for i := len(t.splits) - 1; i >= 0; i-- {
		cut, next := t.splits[i], emit
		emit = func(p string, first bool) { cut(&s.m, p, first, next) }
	}
	emit(text, true)
	return out
}

// SplitAlike says whether two tokenizers split trial texts, on which rules part, into
// the same pieces, whatever tokens these have. Normalizers and added tokens are left
// out.
func SplitAlike(a, b *Tokenizer) bool {
	for _, p := range probes {
		if !slices.Equal(a.pieces(p), b.pieces(p)) {
			return false
		}
	}
	return true
}
