package grade

import "unicode/utf8"

const (
	loopRunes   = 1 << 16 // a longer text is looked at from its end
	loopPeriod  = 1024    // runes of the longest block
	loopTimes   = 3       // that a block is said in a row before it is a loop
	loopLeast   = 24      // runes that a loop covers: fewer are a number or a rule under a heading
	bleedLength = 1 << 20 // bytes of an answer that are compared
)

// loopOf is the largest share of a text that one block takes which is said three
// times or more in a row, and where that is, in bytes.
func loopOf(text string) (share float64, at [2]int) {
	runes := []rune(text)
	skip := max(len(runes)-loopRunes, 0)
	r := runes[skip:]
	n := len(r)
	best, from := 0, 0
	for period := 1; period <= min(n/loopTimes, loopPeriod); period++ {
		run := 0
		for i := period; i <= n; i++ {
			if i < n && r[i] == r[i-period] {
				run++
				continue
			}
			if covers := run + period; run >= (loopTimes-1)*period && covers >= loopLeast && covers > best {
				best, from = covers, i-covers
			}
			run = 0
		}
	}
	if best == 0 {
		return 0, at
	}
	at[0] = bytesOf(text, skip+from)
	at[1] = at[0] + bytesOf(text[at[0]:], best)
	return float64(best) / float64(n), at
}

// bytesOf is how many bytes the first n runes take. Of invalid text each byte that
// decodes alone is a rune, as in a conversion to runes.
func bytesOf(s string, n int) int {
	i := 0
	for ; n > 0 && i < len(s); n-- {
		_, w := utf8.DecodeRuneInString(s[i:])
		i += w
	}
	return i
}

func (s *sheet) loop() (finding, string) {
	if f := s.noLoop(); f.fault != "" {
		return f, ""
	}
	for i := range s.turns {
		if f := s.length(&s.turns[i]); f.fault != "" {
			return f, ""
		}
	}
	return finding{}, s.told("no loop")
}

// noLoop finds answers of which a loop takes more than the argument repeat.
func (s *sheet) noLoop() finding {
	for i := range s.turns {
		t := &s.turns[i]
		if t.repeat > s.num("repeat") {
			s.mark(i, [2]int{t.off + t.loop[0], t.off + t.loop[1]}, Loop)
			return found(Loop, "%s%.0f %% of the answer is one block again and again: %s", s.at(i), 100*t.repeat, quote(t.text[t.loop[0]:t.loop[1]]))
		}
	}
	return finding{}
}
