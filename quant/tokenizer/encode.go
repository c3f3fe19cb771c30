package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// encoder is a model: it turns one piece of normalized, split text into ids.
type encoder interface {
	encode(dst []int32, piece string) []int32
}

// scratch is what one Encode works with; it is used again by the next.
type scratch struct {
	m     matcher
	words map[string][]int32 // ids of short pieces met before
	arena []int32            // what words point into
}

// Words that are kept: short ones, of which text has few, and not without bound.
const (
	maxWord  = 48
	maxWords = 1 << 16
)

func (t *Tokenizer) scratch() *scratch {
	if s, ok := t.pool.Get().(*scratch); ok {
		return s
	}
	return &scratch{words: map[string][]int32{}}
}

// encode appends the ids of a piece.
func (s *scratch) encode(e encoder, dst []int32, piece string) []int32 {
	if len(piece) > maxWord {
		if m, ok := e.(seamed); ok && m.parts(piece, func(part string) {
			if len(part) > maxWord {
				dst = e.encode(dst, part)
			} else {
				dst = s.encode(e, dst, part)
			}
		}) {
			return dst
		}
		return e.encode(dst, piece)
	}
	if ids, ok := s.words[piece]; ok {
		return append(dst, ids...)
	}
	from := len(dst)
	dst = e.encode(dst, piece)
	if len(s.words) >= maxWords {
		clear(s.words)
		s.arena = nil
	}
	start := len(s.arena)
	s.arena = append(s.arena, dst[from:]...)
	s.words[strings.Clone(piece)] = s.arena[start:len(s.arena):len(s.arena)]
	return dst
}

// Encode turns text into ids. special adds what the template puts around a text.
// Text is taken as UTF-8; each maximal part that is not is read as one U+FFFD.
func (t *Tokenizer) Encode(text string, special bool) []int32 {
	if !utf8.ValidString(text) {
		text = lossy([]byte(text))
	}
	ids := make([]int32, 0, len(text)/3+8)
	s := t.scratch()
	if t.longestFirst {
		ids = t.encodeFragments(ids, s, text)
	} else {
		t.raw.split(text, func(from, to int, id int32) {
			if id >= 0 {
				ids = append(ids, id)
				return
			}
			ids = t.encodePart(ids, s, text[from:to], from == 0)
		})
	}
	t.pool.Put(s)
	if !special || t.post == nil {
		return ids
	}
	var out []int32
	for _, p := range t.post {
		if p.text {
			out = append(out, ids...)
		}
		out = append(out, p.ids...)
	}
	return out
}

// encodePart encodes what stands between added tokens.
func (t *Tokenizer) encodePart(ids []int32, s *scratch, part string, first bool) []int32 {
	for _, n := range t.norms {
		part = n(&s.m, part)
	}
	t.normal.split(part, func(from, to int, id int32) {
		if id >= 0 {
			ids = append(ids, id)
			return
		}
		ids = t.encodePieces(ids, s, part[from:to], first && from == 0)
	})
	return ids
}

// encodePieces splits, one splitter after the other, and encodes what comes out.
func (t *Tokenizer) encodePieces(ids []int32, s *scratch, part string, first bool) []int32 {
	last := piece(func(p string, _ bool) {
		if p != "" {
			ids = s.encode(t.model, ids, p)
		}
	})
	for i := len(t.splits) - 1; i >= 0; i-- {
		cut, next := t.splits[i], last
		last = func(p string, first bool) { cut(&s.m, p, first, next) }
	}
	last(part, first)
	return ids
}
