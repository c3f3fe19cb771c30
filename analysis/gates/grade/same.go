package grade

import (
	"fmt"
	"unicode/utf8"

	"quantscope/analysis/gates/chat"
)

func (s *sheet) same() (finding, string) {
	switch {
	case s.base == nil:
		return found(Different, "there is no answer of the baseline to hold it against"), ""
	case s.base.Error != "":
		return found(Different, "the baseline has no answer: %s", oneLine(s.base.Error)), ""
	case len(s.base.Replies) < len(s.turns):
		return found(Different, "the baseline answered %d of %d turns", len(s.base.Replies), len(s.turns)), ""
	}
	s.figures["same"] = 1
	for i := range s.turns {
		got, want := whole(s.turns[i].reply), whole(&s.base.Replies[i])
		if got == want {
			continue
		}
		at := common(got, want)
		s.figures["same"] = float64(at) / float64(max(len(got), len(want)))
		if n := len(s.turns[i].reply.Text); at < n {
			s.mark(i, [2]int{at, n}, Different)
		}
		return found(Different, "%sdiffers from character %d (byte %d): %s, the baseline %s", s.at(i), utf8.RuneCountInString(got[:at]), at, quote(got[at:]), quote(want[at:])), ""
	}
	return finding{}, s.told("the baseline's text")
}

// whole is what is compared: the text, then calls.
func whole(r *chat.Reply) string {
	s := r.Text
	for _, c := range r.ToolCalls {
		s += fmt.Sprintf("\n[call %s %s]", c.Name, c.Arguments)
	}
	return s
}
