package tui

import "strings"

// fuzzy says whether the letters of text stand in s in this order, ignoring
// case, and how well: matches at the start of words and in a row count more,
// and so do short texts.
func fuzzy(text, s string) (score int, ok bool) {
	text, s = strings.ToLower(strings.TrimSpace(text)), strings.ToLower(s)
	if text == "" {
		return 0, true
	}
	if at := strings.Index(s, text); at >= 0 { // as it stands, best of all at a word's start
		score = 1000 - len(s)
		if at == 0 || s[at-1] == ' ' || s[at-1] == '+' || s[at-1] == '_' {
			score += 1000
		}
		return score, true
	}
	rest := []rune(text)
	row, start := 0, true
	for _, r := range s {
		if len(rest) == 0 {
			break
		}
		if r == rest[0] {
			rest = rest[1:]
			row++
			score += row
			if start {
				score += 8
			}
		} else {
			row = 0
		}
		start = r == ' ' || r == '+' || r == '_' || r == '-'
	}
	if len(rest) > 0 {
		return 0, false
	}
	return score - len(s)/8, true
}
