package grade

import "fmt"

// acceptance wants all tokens that were asked for, since a rate over fewer is one of
// another text. What was accepted is not graded: an answer whose drafts are not told
// passes and says so.
func (s *sheet) acceptance() (finding, string) {
	made, want := 0, s.p.Set.MaxTokens*max(len(s.c.Turns), 1)
	for i := range s.turns {
		n := s.turns[i].reply.CompletionTokens
		if n < 0 {
			return found(WrongAnswer, "how many tokens it has is not told, of %d that were asked for", want), ""
		}
		made += n
	}
	s.figures["tokens"] = float64(made)
	if made < want {
		return found(WrongAnswer, "%d of %d tokens: it ended before its budget", made, want), ""
	}
	d := s.turns[0].reply.Drafts
	switch {
	case d == nil:
		return finding{}, s.told(fmt.Sprintf("%d tokens; what was drafted is not told", made))
	case d.Drafted == 0:
		return finding{}, s.told(fmt.Sprintf("%d tokens, none of them drafted", made))
	}
	s.figures["drafted"], s.figures["accepted"] = float64(d.Drafted), float64(d.Accepted)
	return finding{}, s.told(fmt.Sprintf("%d tokens: %d of %d drafted ones accepted", made, d.Accepted, d.Drafted))
}
