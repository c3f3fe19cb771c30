package tokenizer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decoder changes the texts of tokens before they are joined.
type decoder func(tokens []string) []string

// Decode turns ids into text. Ids that are none are left out; skipSpecial leaves
// out special tokens as well.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	var tokens []string
	for _, id := range ids {
		if id < 0 || int(id) >= len(t.vocab) || skipSpecial && t.silent[id] {
			continue
		}
		text, ok := t.shown[id]
		if !ok {
			text = t.vocab[id]
		}
		tokens = append(tokens, text)
	}
	if t.decode == nil {
		return strings.Join(tokens, " ")
	}
	if len(tokens) == 0 {
		return ""
	}
	for _, d := range t.decode {
		tokens = d(tokens)
	}
	return strings.Join(tokens, "")
}

func (t *Tokenizer) parseDecoder(raw json.RawMessage) ([]decoder, error) {
	name, err := kind(raw)
	if err != nil || name == "" {
		return nil, err
	}
	one := func(d decoder) ([]decoder, error) { return []decoder{d}, nil }
	switch name {
	case "Sequence":
		var s struct {
			List []json.RawMessage `json:"decoders"`
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		all := []decoder{}
		for _, r := range s.List {
			d, err := t.parseDecoder(r)
			if err != nil {
				return nil, err
			}
			all = append(all, d...)
		}
		return all, nil
	case "ByteLevel":
		t.spell.byteLevel = true
		return one(byteLevel)
	case "ByteFallback":
		t.spell.fallback = true
		return one(byteFallback)
	case "Fuse":
		return one(fuse)
	case "Replace":
		n, p, content, err := parseReplace(raw)
		if err != nil {
			return nil, err
		}
		if content == " " && p.String != nil {
			t.spell.space = *p.String
		}
		return one(func(tokens []string) []string {
			var m matcher
			for i := range tokens {
				tokens[i] = n(&m, tokens[i])
			}
			return tokens
		})
	case "Strip":
		var s struct {
			Content     string `json:"content"`
			Start, Stop int
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		if utf8.RuneCountInString(s.Content) != 1 {
			return nil, fmt.Errorf("content %q to strip is not one character", s.Content)
		}
		return one(func(tokens []string) []string {
			for i, tok := range tokens {
				for n := 0; n < s.Start && strings.HasPrefix(tok, s.Content); n++ {
					tok = tok[len(s.Content):]
				}
				for n := 0; n < s.Stop && strings.HasSuffix(tok, s.Content); n++ {
					tok = tok[:len(tok)-len(s.Content)]
				}
				tokens[i] = tok
			}
			return tokens
		})
	case "Metaspace":
		m := struct {
			Replacement string `json:"replacement"`
			Prepend     string `json:"prepend_scheme"`
			AddPrefix   *bool  `json:"add_prefix_space"`
		}{}
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, err
		}
		t.spell.space = m.Replacement
		never := m.Prepend == "never" || m.AddPrefix != nil && !*m.AddPrefix
		return one(func(tokens []string) []string {
			for i, tok := range tokens {
				if i == 0 && !never {
					tok = strings.TrimPrefix(tok, m.Replacement)
				}
				tokens[i] = strings.ReplaceAll(tok, m.Replacement, " ")
			}
			return tokens
		})
	}
	return nil, unknown("decoder", name, "Sequence", "ByteLevel", "ByteFallback", "Fuse", "Replace", "Strip", "Metaspace")
}

// byteLevel turns the characters of a byte-level vocabulary into bytes. A token
// with another character stands for its own text.
func byteLevel(tokens []string) []string {
	var out []byte
	for _, tok := range tokens {
		out = byteLevelBytes(out, tok)
	}
	return []string{lossy(out)}
}

func byteLevelBytes(dst []byte, token string) []byte {
	start := len(dst)
	for _, r := range token {
		b, ok := charBytes[r]
		if !ok {
			return append(dst[:start], token...)
		}
		dst = append(dst, b)
	}
	return dst
}

// byteToken reads a token of the form <0x0A>.
func byteToken(token string) (byte, bool) {
	if len(token) != 6 || !strings.HasPrefix(token, "<0x") || token[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(token[3:5], 16, 8)
	return byte(b), err == nil
}

// byteFallback turns runs of <0x…> tokens into text; of a run that is no UTF-8
// every byte is U+FFFD.
func byteFallback(tokens []string) []string {
	var out []string
	var run []byte
	flush := func() {
		if len(run) == 0 {
			return
		}
		if utf8.Valid(run) {
			out = append(out, string(run))
		} else {
			for range run {
				out = append(out, "\uFFFD")
			}
		}
		run = run[:0]
	}
	for _, tok := range tokens {
		if b, ok := byteToken(tok); ok {
			run = append(run, b)
			continue
		}
		flush()
		out = append(out, tok)
	}
	flush()
	return out
}
