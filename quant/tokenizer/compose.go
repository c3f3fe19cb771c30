package tokenizer

import (
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxMarks is from how many marks in a row on the norm package puts a joiner
// between them (the stream-safe format), which nobody else does.
const maxMarks = 30

// composed is a normalization form without the stream-safe format.
func composed(f norm.Form) func(string) string {
	return func(s string) string {
		if f.IsNormalString(s) && !manyMarks(s) {
			return s
		}
		if !manyMarks(s) {
			return f.String(s)
		}
		return byHand(f, s)
	}
}

// manyMarks says whether combining characters stand in so long a row that a form
// may treat them as a stream. A decomposition has at most 18 runes.
func manyMarks(s string) bool {
	if len(s) < maxMarks/2 {
		return false
	}
	n := 0
	for _, r := range s {
		if r < 0x300 {
			n = 0
			continue
		}
		p := norm.NFKD.PropertiesString(string(r))
		switch {
		case p.CCC() != 0 || p.TrailCCC() != 0:
			n += max(utf8.RuneCount(p.Decomposition()), 1)
		default:
			n = 0
		}
		if n >= maxMarks/2 {
			return true
		}
	}
	return false
}

// byHand decomposes, orders and composes as the Unicode standard says (3.11), in
// runs between characters that neither combine nor compose.
func byHand(f norm.Form, s string) string {
	parts := norm.NFD
	if f == norm.NFKC || f == norm.NFKD {
		parts = norm.NFKD
	}
	var out []rune
	for _, r := range s {
		if d := parts.PropertiesString(string(r)).Decomposition(); d != nil {
			out = append(out, []rune(string(d))...)
		} else {
			out = append(out, []rune(parts.String(string(r)))...) // Hangul
		}
	}
	class := func(r rune) uint8 { return norm.NFD.PropertiesString(string(r)).CCC() }
	for from := 0; from < len(out); {
		to := from + 1
		if class(out[from]) != 0 {
			for to < len(out) && class(out[to]) != 0 {
				to++
			}
			slices.SortStableFunc(out[from:to], func(a, b rune) int { return int(class(a)) - int(class(b)) })
		}
		from = to
	}
	if f == norm.NFD || f == norm.NFKD {
		return string(out)
	}
	return string(compose(out, class))
}

// compose joins each character with the last starter where nothing that blocks it
// stands between, and the pair has a composite.
func compose(in []rune, class func(rune) uint8) []rune {
	var out []rune
	starter := -1
	last := uint8(0)
	for _, r := range in {
		c := class(r)
		if starter >= 0 && (last < c || len(out) == starter+1) {
			pair := []rune(norm.NFC.String(string([]rune{out[starter], r})))
			if len(pair) == 1 {
				out[starter] = pair[0]
				continue
			}
		}
		if c == 0 {
			starter = len(out)
		}
		last = c
		out = append(out, r)
	}
	return out
}
