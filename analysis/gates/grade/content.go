package grade

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"quantscope/analysis/gates/suite"
)

// has says whether a text has a word. Where the word begins or ends with a digit,
// no further digit may stand there: 42 is not in 142.
func has(text, word string, fold bool) (at [2]int, ok bool) {
	if fold {
		text, word = strings.ToLower(text), strings.ToLower(word)
	}
	if word == "" {
		return at, false
	}
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return at, false
		}
		i += from
		to := i + len(word)
		if !(digit(word[0]) && i > 0 && digit(text[i-1])) && !(digit(word[len(word)-1]) && to < len(text) && digit(text[to])) {
			return [2]int{i, to}, true
		}
		from = i + 1
	}
}

func digit(b byte) bool { return b >= '0' && b <= '9' }

// holds checks Text, Any, All and Absent.
func (s *sheet) holds(t *turn, w *suite.Want, fold bool) finding {
	for _, word := range append([]string{w.Text}, w.All...) {
		if word == "" {
			continue
		}
		if _, ok := has(t.text, word, fold); !ok {
			return found(WrongAnswer, "lacks %s: %s", quote(word), quote(t.text))
		}
	}
	if len(w.Any) > 0 {
		there := false
		for _, word := range w.Any {
			_, ok := has(t.text, word, fold)
			there = there || ok
		}
		if !there {
			return found(WrongAnswer, "has none of %d words, the first %s: %s", len(w.Any), quote(w.Any[0]), quote(t.text))
		}
	}
	for _, word := range w.Absent {
		if at, ok := has(t.text, word, fold); ok {
			if !fold { // folding may move places
				s.mark(t.i, [2]int{t.off + at[0], t.off + at[1]}, WrongAnswer)
			}
			return found(WrongAnswer, "has %s, which it must not: %s", quote(word), quote(t.text))
		}
	}
	return finding{}
}

// length checks MinRunes and MaxRunes of what can be seen.
func (s *sheet) length(t *turn) finding {
	if t.want == nil {
		return finding{}
	}
	n := utf8.RuneCountInString(strings.TrimSpace(t.text))
	switch {
	case n < t.want.MinRunes:
		return found(WrongAnswer, "%s%s, want %d: %s", s.at(t.i), counted(n, "character", "characters"), t.want.MinRunes, quote(t.text))
	case t.want.MaxRunes > 0 && n > t.want.MaxRunes:
		return found(WrongAnswer, "%s%s, want at most %d", s.at(t.i), counted(n, "character", "characters"), t.want.MaxRunes)
	}
	return finding{}
}

func (s *sheet) contains() (finding, string) {
	return s.each(func(t *turn) (finding, string) {
		return s.holds(t, t.want, s.flag("fold")), "has what is wanted: " + quote(t.text)
	})
}

func (s *sheet) exact() (finding, string) {
	return s.each(func(t *turn) (finding, string) {
		got, want := strings.TrimSpace(t.text), strings.TrimSpace(t.want.Text)
		if got == want || s.flag("fold") && strings.EqualFold(got, want) {
			return finding{}, "is " + quote(got)
		}
		at := common(got, want)
		from := t.off + strings.Index(t.text, got) + at
		s.mark(t.i, [2]int{from, t.off + strings.Index(t.text, got) + len(got)}, WrongAnswer)
		return found(WrongAnswer, "differs at byte %d: %s, want %s", at, quote(got[at:]), quote(want[at:])), ""
	})
}

// common is how many bytes two texts begin with alike, whole runes.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	for n > 0 && (n < len(a) && !utf8.RuneStart(a[n]) || n < len(b) && !utf8.RuneStart(b[n])) {
		n--
	}
	return n
}

func (s *sheet) needle() (finding, string) {
	return s.each(func(t *turn) (finding, string) {
		text, want := strings.ToLower(squeezed(t.text)), strings.ToLower(squeezed(t.want.Text))
		words, there := strings.Fields(want), 0
		for _, w := range words {
			if _, ok := has(text, w, false); ok {
				there++
			}
		}
		s.figures["words"] = float64(there) / float64(max(len(words), 1))
		if _, ok := has(text, want, false); ok {
			return finding{}, "says " + quote(t.want.Text)
		}
		return found(WrongAnswer, "%d of the %d words of %s: %s", there, len(words), quote(t.want.Text), quote(t.text)), ""
	})
}

func (s *sheet) budget() (finding, string) {
	return s.each(func(t *turn) (finding, string) {
		s.figures["tokens"] = float64(max(t.reply.CompletionTokens, 0))
		if want, ok := value(t.want.Text); ok {
			return s.valued(t, want)
		}
		return s.holds(t, t.want, s.flag("fold")), fmt.Sprintf("answers within %d tokens: %s", s.p.Set.MaxTokens, quote(t.text))
	})
}

func (s *sheet) clean() (finding, string) {
	for i := range s.turns {
		if f := s.length(&s.turns[i]); f.fault != "" {
			return f, ""
		}
	}
	return finding{}, s.told("every character is one")
}

// told is the reason of a pass that is about the whole text.
func (s *sheet) told(what string) string {
	return fmt.Sprintf("%s in %.0f characters: %s", what, s.figures["runes"], quote(s.turns[len(s.turns)-1].text))
}
