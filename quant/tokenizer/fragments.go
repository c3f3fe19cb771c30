package tokenizer

import (
	"cmp"
	"slices"
)

// found is an added token in a text.
type found struct {
	from, to int
	id       int32
}

// fragments hands over added tokens and what stands between them. A longer token
// is looked for before a shorter one, of equal length the one with the lower id, so
// it counts even where a shorter one begins before it.
func (t *Tokenizer) fragments(text string, emit func(from, to int, id int32)) {
	// All places of all tokens; each lies in a first byte's list.
	var all []found
	for at := range len(text) {
		for _, n := range t.raw.byStart[text[at]] {
			if end := at + len(n.text); end <= len(text) && text[at:end] == n.text {
				all = append(all, found{at, end, n.tok.ID})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(b.to-b.from, a.to-a.from), cmp.Compare(a.id, b.id), cmp.Compare(a.from, b.from))
	})
	taken := make([]bool, 0)
	if len(all) > 0 {
		taken = make([]bool, len(text))
	}
	kept := all[:0]
	for _, f := range all {
		// Those taken before are at least as long, so an end shows an overlap.
		if taken[f.from] || taken[f.to-1] {
			continue
		}
		for i := f.from; i < f.to; i++ {
			taken[i] = true
		}
		kept = append(kept, f)
	}
	slices.SortFunc(kept, func(a, b found) int { return cmp.Compare(a.from, b.from) })
	done := 0
	for _, f := range kept {
		if f.from > done {
			emit(done, f.from, -1)
		}
		emit(f.from, f.to, f.id)
		done = f.to
	}
	if done < len(text) {
		emit(done, len(text), -1)
	}
}
