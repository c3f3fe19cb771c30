package tokenizer

import (
	"sync"
	"unicode/utf8"
)

// seams are places where no merge can reach across: between two characters that
// stand side by side in no token that merging can make. A text that is not
// split into words falls into parts there, mostly words after all, whose ids are those of
// the whole.
type seams struct {
	once  sync.Once
	pairs map[uint64]struct{}
}

// learn takes in the pairs of all tokens that are handed over.
func (s *seams) learn(tokens func(yield func(string))) {
	s.once.Do(func() {
		s.pairs = map[uint64]struct{}{}
		tokens(func(tok string) {
			last := rune(-1)
			for _, r := range tok {
				if last >= 0 {
					s.pairs[pairOf(last, r)] = struct{}{}
				}
				last = r
			}
		})
	})
}

// cut hands over the parts of a text. known says whether a character is a token of its own;
// beside one that is not nothing is cut.
func (s *seams) cut(text string, known func(string) bool, emit func(string)) {
	from := 0
	last, lastKnown := rune(-1), false
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		if last >= 0 {
			if _, joined := s.pairs[pairOf(last, r)]; !joined && lastKnown && known(text[at:at+size]) {
				emit(text[from:at])
				from = at
			}
		}
		last, at = r, at+size
		lastKnown = known(text[at-size : at])
	}
	if from < len(text) {
		emit(text[from:])
	}
}

// seamed is a model whose long pieces may be cut at seams.
type seamed interface {
	parts(piece string, emit func(string)) bool
}

func (b *bpe) parts(piece string, emit func(string)) bool {
	if b.asBytes || b.ignoreMerges || b.lines {
		return false // a piece is looked up as a whole, or is a word already
	}
	b.seams.learn(func(yield func(string)) {
		for _, m := range b.ranks {
			yield(b.vocab[m.into])
		}
	})
	b.seams.cut(piece, func(char string) bool { _, ok := b.ids[char]; return ok }, emit)
	return true
}

func (e *spm) parts(piece string, emit func(string)) bool {
	e.seams.learn(func(yield func(string)) {
		for tok := range e.ids {
			yield(tok)
		}
	})
	e.seams.cut(piece, func(string) bool { return true }, emit)
	return true
}
