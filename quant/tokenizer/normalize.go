package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// normalizer changes text before it is split.
type normalizer func(m *matcher, s string) string

// plain is a normalizer that needs no matcher.
func plain(f func(string) string) normalizer {
	return func(_ *matcher, s string) string { return f(s) }
}

// finder finds the matches of a text or of a pattern.
type finder struct {
	text string
	re   *pattern // nil: text
}

// next is the first match from a place on.
func (f *finder) next(m *matcher, s string, at int) (start, end int, ok bool) {
	if f.re != nil {
		return f.re.find(m, s, at)
	}
	i := strings.Index(s[at:], f.text)
	return at + i, at + i + len(f.text), i >= 0
}

// each hands over what matches and what stands between, in order. An empty match
// is one, and parts the text, but not directly after another match.
func (f *finder) each(m *matcher, s string, do func(from, to int, match bool)) {
	done := 0 // all before it is handed over
	for at := 0; at <= len(s); {
		start, end, ok := f.next(m, s, at)
		if !ok {
			break
		}
		if start == end && start == done && done > 0 {
			at = max(at, start) + sizeAt(s, start)
			continue
		}
		if start > done {
			do(done, start, false)
		}
		do(start, end, true)
		done, at = end, end
		if start == end {
			at += sizeAt(s, end)
		}
	}
	if done < len(s) {
		do(done, len(s), false)
	}
}

// sizeAt is how far the next place is, also behind the end.
func sizeAt(s string, at int) int {
	n := 1
	for at+n < len(s) && s[at+n]&0xC0 == 0x80 {
		n++
	}
	return n
}

// patternField is a pattern as files have it: {"String": …} or {"Regex": …}.
type patternField struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

func (p *patternField) finder() (*finder, error) {
	switch {
	case p.String != nil && *p.String == "":
		return nil, fmt.Errorf("an empty text to look for is %w", ErrUnknown)
	case p.String != nil:
		return &finder{text: *p.String}, nil
	case p.Regex == nil:
		return nil, fmt.Errorf("a pattern that is neither String nor Regex is %w", ErrUnknown)
	}
	re, err := compile(*p.Regex)
	return &finder{re: re}, err
}

// parseReplace reads a Replace of normalizers and decoders.
func parseReplace(raw json.RawMessage) (normalizer, *patternField, string, error) {
	var r struct {
		Pattern patternField `json:"pattern"`
		Content string       `json:"content"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, nil, "", err
	}
	f, err := r.Pattern.finder()
	if err != nil {
		return nil, nil, "", err
	}
	if n := len(r.Content); n > maxGrowth*max(len(f.text), 1) {
		return nil, nil, "", fmt.Errorf("a replacement by %d bytes is %w", n, ErrUnknown)
	}
	if f.re == nil {
		return plain(func(s string) string { return strings.ReplaceAll(s, f.text, r.Content) }), &r.Pattern, r.Content, nil
	}
	if f.re.mayBeEmpty() {
		return nil, nil, "", fmt.Errorf("a replacement of what may be empty, %q, is %w", *r.Pattern.Regex, ErrUnknown)
	}
	return func(m *matcher, s string) string {
		var b strings.Builder
		f.each(m, s, func(from, to int, match bool) {
			if match {
				b.WriteString(r.Content)
			} else {
				b.WriteString(s[from:to])
			}
		})
		return b.String()
	}, &r.Pattern, r.Content, nil
}

// maxGrowth is how many times as long replacements may make a text; a space written
// as ▁ takes three.
const maxGrowth = 64

// grows multiplies what the replacements of a normalizer do to the length of a text.
func grows(raw json.RawMessage) float64 {
	var n struct {
		List    []json.RawMessage `json:"normalizers"`
		Pattern patternField      `json:"pattern"`
		Content string            `json:"content"`
	}
	if json.Unmarshal(raw, &n) != nil { // parseNormalizer has said so
		return 1
	}
	least := 1
	if n.Pattern.String != nil {
		least = max(len(*n.Pattern.String), 1)
	}
	product := max(float64(len(n.Content))/float64(least), 1)
	for _, r := range n.List {
		product *= grows(r)
	}
	return product
}

func parseNormalizer(raw json.RawMessage) ([]normalizer, error) {
	all, err := parseNormalizers(raw)
	if g := grows(raw); err == nil && g > maxGrowth {
		return nil, fmt.Errorf("replacements that make a text %.3g times as long are %w", g, ErrUnknown)
	}
	return all, err
}

func parseNormalizers(raw json.RawMessage) ([]normalizer, error) {
	name, err := kind(raw)
	if err != nil || name == "" {
		return nil, err
	}
	one := func(n normalizer) ([]normalizer, error) { return []normalizer{n}, nil }
	switch name {
	case "Sequence":
		var s struct {
			List []json.RawMessage `json:"normalizers"`
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		var all []normalizer
		for _, r := range s.List {
			n, err := parseNormalizers(r)
			if err != nil {
				return nil, err
			}
			all = append(all, n...)
		}
		return all, nil
	case "NFC":
		return one(plain(composed(norm.NFC)))
	case "NFD":
		return one(plain(composed(norm.NFD)))
	case "NFKC":
		return one(plain(composed(norm.NFKC)))
	case "NFKD":
		return one(plain(composed(norm.NFKD)))
	case "Lowercase":
		return one(plain(lower))
	case "StripAccents":
		return one(plain(func(s string) string {
			return strings.Map(func(r rune) rune {
				if unicode.Is(unicode.M, r) {
					return -1
				}
				return r
			}, s)
		}))
	case "ByteLevel":
		return one(plain(toByteChars))
	case "Prepend":
		var p struct {
			Prepend string `json:"prepend"`
		}
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, err
		}
		return one(plain(func(s string) string {
			if s == "" {
				return s
			}
			return p.Prepend + s
		}))
	case "Replace":
		n, _, _, err := parseReplace(raw)
		if err != nil {
			return nil, err
		}
		return one(n)
	case "Strip":
		s := struct {
			Left  bool `json:"strip_left"`
			Right bool `json:"strip_right"`
		}{true, true}
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		return one(plain(func(text string) string {
			if s.Left {
				text = strings.TrimLeftFunc(text, isSpace)
			}
			if s.Right {
				text = strings.TrimRightFunc(text, isSpace)
			}
			return text
		}))
	}
	return nil, unknown("normalizer", name, "Sequence", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "ByteLevel", "Prepend", "Replace", "Strip")
}

// lower maps each rune by itself, whatever stands beside it, to all that it becomes.
func lower(s string) string {
	return strings.ToLower(strings.ReplaceAll(s, "\u0130", "i\u0307"))
}
