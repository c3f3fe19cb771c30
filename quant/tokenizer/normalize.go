package tokenizer

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizer changes text before it is split.
type normalizer func(string) string

func isSpace(r rune) bool { return unicode.Is(spaces, r) }

// wordAlone says whether no letter, digit or underscore touches a part.
func wordAlone(s string, from, to int) bool {
	word := func(r rune, size int) bool {
		return size > 0 && (r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r))
	}
	return !word(utf8.DecodeLastRuneInString(s[:from])) && !word(utf8.DecodeRuneInString(s[to:]))
}

// replaced is a Replace of normalizers, splits and decoders.
type replaced struct {
	Pattern struct {
		String *string `json:"String"`
		Regex  *string `json:"Regex"`
	} `json:"pattern"`
	Content string `json:"content"`
}

func (r *replaced) compile() (normalizer, error) {
	if r.Pattern.String != nil {
		old := *r.Pattern.String
		return func(s string) string {
			if old == "" {
				return s
			}
			return strings.ReplaceAll(s, old, r.Content)
		}, nil
	}
	if r.Pattern.Regex == nil {
		return nil, unknown("a pattern that is neither", "", "String", "Regex")
	}
	p, err := compile(*r.Pattern.Regex)
	if err != nil {
		return nil, err
	}
	return func(s string) string {
		var b strings.Builder
		for at := 0; at < len(s); {
			if end, ok := p.match(s, at); ok && end > at {
				b.WriteString(r.Content)
				at = end
				continue
			}
			_, size := utf8.DecodeRuneInString(s[at:])
			b.WriteString(s[at : at+size])
			at += size
		}
		return b.String()
	}, nil
}

func parseNormalizer(raw json.RawMessage) ([]normalizer, error) {
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
			n, err := parseNormalizer(r)
			if err != nil {
				return nil, err
			}
			all = append(all, n...)
		}
		return all, nil
	case "NFC":
		return one(norm.NFC.String)
	case "NFD":
		return one(norm.NFD.String)
	case "NFKC":
		return one(norm.NFKC.String)
	case "NFKD":
		return one(norm.NFKD.String)
	case "Lowercase":
		return one(strings.ToLower)
	case "Prepend":
		var p struct {
			Prepend string `json:"prepend"`
		}
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, err
		}
		return one(func(s string) string {
			if s == "" {
				return s
			}
			return p.Prepend + s
		})
	case "Replace":
		r := &replaced{}
		if err := json.Unmarshal(raw, r); err != nil {
			return nil, err
		}
		n, err := r.compile()
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
		return one(func(text string) string {
			if s.Left {
				text = strings.TrimLeftFunc(text, isSpace)
			}
			if s.Right {
				text = strings.TrimRightFunc(text, isSpace)
			}
			return text
		})
	}
	return nil, unknown("normalizer", name, "Sequence", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Prepend", "Replace", "Strip")
}
