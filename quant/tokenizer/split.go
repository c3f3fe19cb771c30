package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// splitter cuts pieces into smaller ones; first says that the first piece begins
// the text.
type splitter func(pieces []string, first bool) []string

// gpt2Pattern is what ByteLevel splits by where use_regex is set.
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// each applies a cut to every piece.
func each(cut func(s string, first bool) []string) splitter {
	return func(pieces []string, first bool) []string {
		var out []string
		for i, p := range pieces {
			out = append(out, cut(p, first && i == 0)...)
		}
		return out
	}
}

// isolated cuts at matches, which become pieces of their own.
func (p *pattern) isolated(s string) []string {
	var out []string
	from := 0
	for at := 0; at < len(s); {
		end, ok := p.match(s, at)
		if !ok || end == at {
			_, size := utf8.DecodeRuneInString(s[at:])
			at += size
			continue
		}
		if at > from {
			out = append(out, s[from:at])
		}
		out = append(out, s[at:end])
		at, from = end, end
	}
	if from < len(s) {
		out = append(out, s[from:])
	}
	return out
}

func parseSplitter(raw json.RawMessage) ([]splitter, error) {
	name, err := kind(raw)
	if err != nil || name == "" {
		return nil, err
	}
	switch name {
	case "Sequence":
		var s struct {
			List []json.RawMessage `json:"pretokenizers"`
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		var all []splitter
		for _, r := range s.List {
			n, err := parseSplitter(r)
			if err != nil {
				return nil, err
			}
			all = append(all, n...)
		}
		return all, nil
	case "ByteLevel":
		return parseByteLevel(raw)
	case "Split":
		return parseSplit(raw)
	case "Digits":
		var d struct {
			Individual bool `json:"individual_digits"`
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			return nil, err
		}
		repeat := item{min: 1, max: -1, set: &class{tables: []*unicode.RangeTable{unicode.N}}}
		if d.Individual {
			repeat.max = 1
		}
		p := &pattern{alts: [][]item{{repeat}}}
		return []splitter{each(func(s string, _ bool) []string { return p.isolated(s) })}, nil
	case "Metaspace":
		return parseMetaspace(raw)
	}
	return nil, unknown("pre-tokenizer", name, "Sequence", "ByteLevel", "Split", "Digits", "Metaspace")
}

func parseByteLevel(raw json.RawMessage) ([]splitter, error) {
	b := struct {
		Prefix bool `json:"add_prefix_space"`
		Regex  bool `json:"use_regex"`
	}{true, true}
	if err := json.Unmarshal(raw, &b); err != nil {
		return nil, err
	}
	p, err := compile(gpt2Pattern)
	if err != nil {
		return nil, err
	}
	return []splitter{each(func(s string, _ bool) []string {
		if b.Prefix && !strings.HasPrefix(s, " ") {
			s = " " + s
		}
		parts := []string{s}
		if b.Regex {
			parts = p.isolated(s)
		}
		for i := range parts {
			parts[i] = toByteChars(parts[i])
		}
		return parts
	})}, nil
}

func parseSplit(raw json.RawMessage) ([]splitter, error) {
	var s struct {
		replaced
		Behavior string `json:"behavior"`
		Invert   bool   `json:"invert"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	var p *pattern
	switch {
	case s.Pattern.String != nil && *s.Pattern.String != "":
		p = literal(*s.Pattern.String)
	case s.Pattern.Regex != nil:
		var err error
		if p, err = compile(*s.Pattern.Regex); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("a split without a pattern")
	}
	switch {
	case s.Behavior == "Isolated", s.Behavior == "Removed" && s.Invert:
		// Inverted and removed, what matches stays and the rest goes.
		drop := s.Invert
		return []splitter{each(func(text string, _ bool) []string { return p.cut(text, drop) })}, nil
	case s.Behavior == "MergedWithPrevious" && !s.Invert:
		return []splitter{each(func(text string, _ bool) []string { return p.mergedWithPrevious(text) })}, nil
	case s.Behavior == "MergedWithNext" && !s.Invert:
		return []splitter{each(func(text string, _ bool) []string { return p.mergedWithNext(text) })}, nil
	}
	what := s.Behavior
	if s.Invert {
		what += ", inverted"
	}
	return nil, unknown("split behaviour", what, "Isolated", "Removed, inverted", "MergedWithPrevious", "MergedWithNext")
}

// literal matches a text.
func literal(text string) *pattern {
	var seq []item
	for _, r := range text {
		seq = append(seq, item{min: 1, max: 1, set: &class{runes: []rune{r}}})
	}
	return &pattern{alts: [][]item{seq}}
}

// cut is isolated, without what does not match where drop is set.
func (p *pattern) cut(s string, drop bool) []string {
	if !drop {
		return p.isolated(s)
	}
	var out []string
	for at := 0; at < len(s); {
		end, ok := p.match(s, at)
		if !ok || end == at {
			_, size := utf8.DecodeRuneInString(s[at:])
			at += size
			continue
		}
		out = append(out, s[at:end])
		at = end
	}
	return out
}

func (p *pattern) mergedWithPrevious(s string) []string {
	var out []string
	from := 0
	for at := 0; at < len(s); {
		end, ok := p.match(s, at)
		if !ok || end == at {
			_, size := utf8.DecodeRuneInString(s[at:])
			at += size
			continue
		}
		out = append(out, s[from:end])
		at, from = end, end
	}
	if from < len(s) {
		out = append(out, s[from:])
	}
	return out
}

func (p *pattern) mergedWithNext(s string) []string {
	var out []string
	from := 0
	for at := 0; at < len(s); {
		end, ok := p.match(s, at)
		if !ok || end == at {
			_, size := utf8.DecodeRuneInString(s[at:])
			at += size
			continue
		}
		if at > from {
			out = append(out, s[from:at])
		}
		at, from = end, at
	}
	if from < len(s) {
		out = append(out, s[from:])
	}
	return out
}

func parseMetaspace(raw json.RawMessage) ([]splitter, error) {
	m := struct {
		Replacement string `json:"replacement"`
		Prepend     string `json:"prepend_scheme"`
		AddPrefix   *bool  `json:"add_prefix_space"`
		Split       bool   `json:"split"`
	}{Split: true}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	if m.Prepend == "" { // the older form
		m.Prepend = "always"
		if m.AddPrefix != nil && !*m.AddPrefix {
			m.Prepend = "never"
		}
	}
	switch m.Prepend {
	case "always", "first", "never":
	default:
		return nil, unknown("prepend_scheme", m.Prepend, "always", "first", "never")
	}
	p := literal(m.Replacement)
	return []splitter{each(func(s string, first bool) []string {
		s = strings.ReplaceAll(s, " ", m.Replacement)
		if !strings.HasPrefix(s, m.Replacement) && (m.Prepend == "always" || m.Prepend == "first" && first) {
			s = m.Replacement + s
		}
		if !m.Split {
			return []string{s}
		}
		return p.mergedWithNext(s)
	})}, nil
}
