package grade

import (
	"fmt"
	"strings"
	"unicode"
)

// fenced is what stands in the first code fence of a text, the text itself where
// there is none. A fence that is not closed ends with the text.
func fenced(text string) string {
	_, rest, ok := strings.Cut(text, "```")
	if !ok {
		return strings.TrimSpace(text)
	}
	if _, body, ok := strings.Cut(rest, "\n"); ok {
		rest = body
	}
	body, _, _ := strings.Cut(rest, "```")
	return strings.TrimSpace(body)
}

// lines are those of code with something in them, blanks within them made one and
// those around them dropped.
func lines(code string) []string {
	var out []string
	for _, l := range strings.Split(code, "\n") {
		if l = squeezed(l); l != "" {
			out = append(out, l)
		}
	}
	return out
}

func (s *sheet) edit() (finding, string) {
	return s.each(func(t *turn) (finding, string) {
		got := lines(fenced(t.text))
		if t.want.Text != "" {
			want := lines(fenced(t.want.Text))
			for i := range max(len(got), len(want)) {
				switch {
				case i >= len(got):
					return found(WrongAnswer, "ends before line %d, want %s", i+1, quote(want[i])), ""
				case i >= len(want):
					return found(WrongAnswer, "goes on after the end: %s", quote(got[i])), ""
				case got[i] != want[i]:
					return found(WrongAnswer, "line %d is %s, want %s", i+1, quote(got[i]), quote(want[i])), ""
				}
			}
		}
		whole := strings.Join(got, "\n")
		for _, l := range t.want.All {
			if !strings.Contains(whole, squeezed(l)) {
				return found(WrongAnswer, "lacks %s", quote(l)), ""
			}
		}
		for _, l := range t.want.Absent {
			if strings.Contains(whole, squeezed(l)) {
				return found(WrongAnswer, "still has %s", quote(l)), ""
			}
		}
		return finding{}, fmt.Sprintf("%d lines as wanted", len(got))
	})
}

// words are the identifiers of a text.
func words(text string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		out[w] = true
	}
	return out
}

func (s *sheet) callsites() (finding, string) {
	return s.each(func(t *turn) (finding, string) {
		said := words(t.text)
		right, wrong, missing, extra := 0, 0, "", ""
		for _, f := range t.want.All {
			if said[f] {
				right++
			} else if missing == "" {
				missing = f
			}
		}
		for _, f := range t.want.Absent {
			if said[f] {
				if wrong++; extra == "" {
					extra = f
				}
			}
		}
		recall, precision := 1.0, 1.0
		if n := len(t.want.All); n > 0 {
			recall = float64(right) / float64(n)
		}
		if right+wrong > 0 {
			precision = float64(right) / float64(right+wrong)
		}
		s.figures["recall"], s.figures["precision"] = recall, precision
		told := fmt.Sprintf("%d of %d named, %d others", right, len(t.want.All), wrong)
		if t.want.Text != "" {
			if _, ok := has(t.text, t.want.Text, true); !ok {
				return found(WrongAnswer, "%s; lacks %s: %s", told, quote(t.want.Text), quote(t.text)), ""
			}
		}
		switch {
		case recall < s.num("recall"):
			return found(WrongAnswer, "%s; lacks %s: %s", told, quote(missing), quote(t.text)), ""
		case precision < s.num("precision"):
			return found(WrongAnswer, "%s; %s is none: %s", told, quote(extra), quote(t.text)), ""
		case len(t.want.All) > 0 && right == 0: // whatever shares the suite is content with
			return found(WrongAnswer, "%s: %s", told, quote(t.text)), ""
		}
		return finding{}, told
	})
}
