package grade

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

func (s *sheet) coherence() (finding, string) {
	tokens, told := 0, true
	for i := range s.turns {
		t := &s.turns[i]
		if told = told && t.reply.CompletionTokens > 0; told {
			tokens += t.reply.CompletionTokens
		}
	}
	if !told { // about four bytes are a token
		tokens = 0
		for i := range s.turns {
			tokens += len(s.turns[i].text) / 4
		}
	}
	s.figures["tokens"] = float64(tokens)
	for _, check := range []func() finding{s.noLoop, s.noBleeding, s.noCollapse, s.ownWants} {
		if f := check(); f.fault != "" {
			return f, ""
		}
	}
	if least := int(s.num("tokens")); tokens < least {
		return found(Collapse, "%d tokens in all, want %d", tokens, least), ""
	}
	return finding{}, fmt.Sprintf("%d turns, %d tokens: %s", len(s.turns), tokens, quote(s.turns[len(s.turns)-1].text))
}

func (s *sheet) ownWants() finding {
	for i := range s.turns {
		t := &s.turns[i]
		if t.want == nil {
			continue
		}
		f := s.holds(t, t.want, s.flag("fold"))
		if f.fault == "" && t.want.Script != "" {
			f, _ = inScript(t.text, t.want.Script, 0.5)
		}
		if f.fault != "" {
			f.reason = s.at(i) + f.reason
			return f
		}
		if f = s.length(t); f.fault != "" {
			return f
		}
	}
	return finding{}
}

// noCollapse holds the median length of the later half of the answers against that of
// the first half.
func (s *sheet) noCollapse() finding {
	var n []int
	for i := range s.turns {
		n = append(n, utf8.RuneCountInString(s.turns[i].text))
	}
	if len(n) < 2 {
		return finding{}
	}
	first, later := median(n[:len(n)/2]), median(n[len(n)/2:])
	s.figures["length_ratio"] = later / max(first, 1)
	if later < s.num("collapse")*first {
		return found(Collapse, "the later answers have %g characters in the median, the first %g", later, first)
	}
	return finding{}
}

func median(n []int) float64 {
	n = slices.Sorted(slices.Values(n))
	if m := len(n) / 2; len(n)%2 == 0 {
		return float64(n[m-1]+n[m]) / 2
	}
	return float64(n[len(n)/2])
}

// noBleeding finds rows of words that an earlier answer had.
func (s *sheet) noBleeding() finding {
	n := int(s.num("bleed"))
	if n <= 0 {
		return finding{}
	}
	seen := map[string]int{} // row of words → the first turn that has it
	for i := range s.turns {
		text := s.turns[i].text
		all := spoken(text)
		for j := 0; j+n <= len(all); j++ {
			if earlier, there := seen[row(text, all[j:j+n])]; there {
				at := [2]int{all[j][0], all[j+n-1][1]}
				s.mark(i, [2]int{s.turns[i].off + at[0], s.turns[i].off + at[1]}, Bleeding)
				return found(Bleeding, "%s%d words of turn %d again: %s", s.at(i), n, earlier+1, quote(text[at[0]:at[1]]))
			}
		}
		for j := 0; j+n <= len(all); j++ {
			key := row(text, all[j:j+n])
			if _, there := seen[key]; !there {
				seen[key] = i
			}
		}
	}
	return finding{}
}

// spoken are the places of words; of scripts without spaces each character is one.
func spoken(text string) [][2]int {
	text = text[:min(len(text), bleedLength)]
	var out [][2]int
	from := -1
	end := func(i int) {
		if from >= 0 {
			out = append(out, [2]int{from, i})
		}
		from = -1
	}
	for i, r := range text {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			end(i)
			out = append(out, [2]int{i, i + utf8.RuneLen(r)})
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
			if from < 0 {
				from = i
			}
		default:
			end(i)
		}
	}
	end(len(text))
	return out
}

func row(text string, at [][2]int) string {
	var b strings.Builder
	for _, w := range at {
		b.WriteString(strings.ToLower(text[w[0]:w[1]]))
		b.WriteByte(' ')
	}
	return b.String()
}
