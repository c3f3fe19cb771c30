package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// piece is handed over by a splitter: a part of a text, and whether it begins the
// text.
type piece func(s string, first bool)

// splitter cuts a piece into smaller ones, in order.
type splitter func(m *matcher, s string, first bool, emit piece)

// gpt2Pattern is what ByteLevel splits by where use_regex is set.
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// parseSplitter reads a pre-tokenizer. asBytes says that it ends with writing bytes as
// characters, which is left to the model, so that it can keep words as they are.
func parseSplitter(raw json.RawMessage) (list []splitter, asBytes bool, err error) {
	name, err := kind(raw)
	if err != nil || name == "" {
		return nil, false, err
	}
	one := func(s splitter, err error) ([]splitter, bool, error) { return []splitter{s}, false, err }
	switch name {
	case "Sequence":
		return parseSplitters(raw)
	case "ByteLevel":
		return parseByteLevel(raw)
	case "Split":
		return one(parseSplit(raw))
	case "Digits":
		var d struct {
			Individual bool `json:"individual_digits"`
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			return nil, false, err
		}
		how := contiguous
		if d.Individual {
			how = isolated
		}
		return one(cut(matching(&runeSet{tables: []*unicode.RangeTable{unicode.N}}), how, false), nil)
	case "Punctuation":
		p := struct {
			Behavior string `json:"behavior"`
		}{"Isolated"}
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, false, err
		}
		how, err := behaviorNamed(p.Behavior)
		return one(cut(matching(&runeSet{tables: []*unicode.RangeTable{unicode.P}, runes: []rune("$+<=>^`|~")}), how, false), err)
	case "Whitespace":
		f, err := (&patternField{Regex: &whitespacePattern}).finder()
		return one(cut(f, removed, true), err)
	case "WhitespaceSplit":
		return one(cut(matching(spaceSet), removed, false), nil)
	case "CharDelimiterSplit":
		var d struct {
			Delimiter string `json:"delimiter"`
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			return nil, false, err
		}
		if utf8.RuneCountInString(d.Delimiter) != 1 {
			return nil, false, fmt.Errorf("delimiter %q is not one character", d.Delimiter)
		}
		return one(cut(&finder{text: d.Delimiter}, removed, false), nil)
	case "Metaspace":
		return one(parseMetaspace(raw))
	}
	return nil, false, unknown("pre-tokenizer", name, "Sequence", "ByteLevel", "Split", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit", "CharDelimiterSplit", "Metaspace")
}

// whitespacePattern is the library's; its \w has the joiners among it.
var whitespacePattern = `[\w\x{200C}\x{200D}]+|[^\w\s\x{200C}\x{200D}]+`

// matching finds one rune of a set.
func matching(set *runeSet) *finder {
	seq := []item{{min: 1, max: 1, set: set.settle()}}
	prog := []inst{{op: opSet, set: set}, {op: opMatch}}
	return &finder{re: (&pattern{alts: []alternative{{prog: prog, first: firstBytes(seq)}}}).settle()}
}

func parseSplitters(raw json.RawMessage) (all []splitter, asBytes bool, err error) {
	var s struct {
		List []json.RawMessage `json:"pretokenizers"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, false, err
	}
	for _, r := range s.List {
		if asBytes { // more is cut after it: written out now
			all = append(all, byteChars)
		}
		var n []splitter
		if n, asBytes, err = parseSplitter(r); err != nil {
			return nil, false, err
		}
		all = append(all, n...)
	}
	return all, asBytes, nil
}

// byteChars writes bytes as characters.
func byteChars(_ *matcher, s string, first bool, emit piece) { emit(toByteChars(s), first) }

func parseByteLevel(raw json.RawMessage) ([]splitter, bool, error) {
	b := struct {
		Prefix bool `json:"add_prefix_space"`
		Regex  bool `json:"use_regex"`
	}{true, true}
	if err := json.Unmarshal(raw, &b); err != nil {
		return nil, false, err
	}
	var all []splitter
	if b.Prefix {
		all = append(all, func(_ *matcher, s string, first bool, emit piece) {
			if !strings.HasPrefix(s, " ") {
				s = " " + s
			}
			emit(s, first)
		})
	}
	if b.Regex {
		p, err := compile(gpt2Pattern)
		if err != nil {
			return nil, false, err
		}
		all = append(all, cut(&finder{re: p}, isolated, false))
	}
	return all, true, nil
}

func parseSplit(raw json.RawMessage) (splitter, error) {
	var s struct {
		Pattern  patternField `json:"pattern"`
		Behavior string       `json:"behavior"`
		Invert   bool         `json:"invert"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	f, err := s.Pattern.finder()
	if err != nil {
		return nil, err
	}
	how, err := behaviorNamed(s.Behavior)
	return cut(f, how, s.Invert), err
}

func parseMetaspace(raw json.RawMessage) (splitter, error) {
	m := struct {
		Replacement string `json:"replacement"`
		Prepend     string `json:"prepend_scheme"`
		AddPrefix   *bool  `json:"add_prefix_space"`
		Split       bool   `json:"split"`
	}{Split: true}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	switch { // add_prefix_space is the older form
	case m.AddPrefix != nil && !*m.AddPrefix && m.Prepend != "" && m.Prepend != "never":
		return nil, fmt.Errorf("add_prefix_space false and prepend_scheme %q contradict each other", m.Prepend)
	case m.AddPrefix != nil && !*m.AddPrefix:
		m.Prepend = "never"
	case m.Prepend == "":
		m.Prepend = "always"
	}
	switch m.Prepend {
	case "always", "first", "never":
	default:
		return nil, unknown("prepend_scheme", m.Prepend, "always", "first", "never")
	}
	if utf8.RuneCountInString(m.Replacement) != 1 {
		return nil, fmt.Errorf("replacement %q is not one character", m.Replacement)
	}
	next := cut(&finder{text: m.Replacement}, mergedWithNext, false)
	return func(mm *matcher, s string, first bool, emit piece) {
		s = strings.ReplaceAll(s, " ", m.Replacement)
		if !strings.HasPrefix(s, m.Replacement) && (m.Prepend == "always" || m.Prepend == "first" && first) {
			s = m.Replacement + s
		}
		if !m.Split {
			emit(s, first)
			return
		}
		next(mm, s, first, emit)
	}, nil
}
