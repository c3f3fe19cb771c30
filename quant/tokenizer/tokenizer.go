package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUnknown is wrapped by errors about parts of a tokenizer.json that are not
// known here.
var ErrUnknown = errors.New("not known")

// Tokenizer is a compiled tokenizer.json.
type Tokenizer struct {
	vocab  []string // by id; "" where an id is free
	ids    map[string]int32
	model  encoder
	added  []addedToken // the longest first
	norms  []normalizer
	splits []splitter
	post   []templatePart
	decode []decoder
	adds   map[int32]bool // added tokens
	silent map[int32]bool // special ones
	spell  spelling
	bos    int32 // known begin token, -1 for none

	identity string
	rules    []string // the parts that are told by their text, for Differences
	sum      []byte   // of the model
}

// encoder is a model: it turns one piece of normalized, split text into ids.
type encoder interface {
	encode(dst []int32, piece string) []int32
}

// addedToken is found in the text as it is.
type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// file is a tokenizer.json. What has a type of its own stays raw.
type file struct {
	AddedTokens   []addedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         json.RawMessage `json:"model"`
}

// maxVocab bounds ids; the largest vocabularies have a few hundred thousand.
const maxVocab = 1 << 22

// Parse compiles a tokenizer.json. Truncation and padding that it may have are
// for batches, not for text, and are left out. Errors name the part; those about
// parts that are not known wrap ErrUnknown.
func Parse(data []byte) (*Tokenizer, error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	t := &Tokenizer{ids: map[string]int32{}, adds: map[int32]bool{}, silent: map[int32]bool{}, bos: -1}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"model", func() error { return t.parseModel(f.Model) }},
		{"added_tokens", func() error { return t.parseAdded(f.AddedTokens) }},
		{"normalizer", func() (err error) { t.norms, err = parseNormalizer(f.Normalizer); return }},
		{"pre_tokenizer", func() (err error) { t.splits, err = parseSplitter(f.PreTokenizer); return }},
		{"post_processor", func() (err error) { t.post, err = t.parsePost(f.PostProcessor); return }},
		{"decoder", func() (err error) { t.decode, err = t.parseDecoder(f.Decoder); return }},
	} {
		if err := step.do(); err != nil {
			return nil, fmt.Errorf("tokenizer.json: %s: %w", step.name, err)
		}
	}
	t.seal(t.sum, []string{canonical(f.Normalizer), canonical(f.PreTokenizer), canonical(f.PostProcessor)})
	return t, nil
}

// kind is the type of a part; "" where there is none.
func kind(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var k struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &k); err != nil {
		return "", err
	}
	if k.Type == "" {
		return "", errors.New("a part without a type")
	}
	return k.Type, nil
}

func unknown(what, name string, known ...string) error {
	return fmt.Errorf("%s %q is %w; known are %s", what, name, ErrUnknown, strings.Join(known, ", "))
}

func (t *Tokenizer) setToken(token string, id int32) error {
	if id < 0 || id >= maxVocab {
		return fmt.Errorf("token %q has id %d, outside 0 to %d", token, id, maxVocab-1)
	}
	for int(id) >= len(t.vocab) {
		t.vocab = append(t.vocab, "")
	}
	t.vocab[id] = token
	t.ids[token] = id
	return nil
}

func (t *Tokenizer) parseAdded(list []addedToken) error {
	for _, a := range list {
		if a.Content == "" {
			return errors.New("an added token without content")
		}
		if err := t.setToken(a.Content, a.ID); err != nil {
			return err
		}
		t.adds[a.ID] = true
		if a.Special {
			t.silent[a.ID] = true
		}
	}
	t.added = slices.Clone(list)
	slices.SortStableFunc(t.added, func(a, b addedToken) int { return len(b.Content) - len(a.Content) })
	return nil
}

// Vocab is one more than the largest id.
func (t *Tokenizer) Vocab() int { return len(t.vocab) }

// Token is the text of an id as the vocabulary spells it, "" for a free one.
func (t *Tokenizer) Token(id int32) string {
	if id < 0 || int(id) >= len(t.vocab) {
		return ""
	}
	return t.vocab[id]
}

// ID finds a token as the vocabulary spells it.
func (t *Tokenizer) ID(token string) (int32, bool) {
	id, ok := t.ids[token]
	return id, ok
}

// Special says whether an id is a special token.
func (t *Tokenizer) Special(id int32) bool { return t.silent[id] }

// Encode turns text into ids. special adds what the template puts around a text.
func (t *Tokenizer) Encode(text string, special bool) []int32 {
	var ids []int32
	t.split(text, false, func(part string, id int32) {
		if id >= 0 {
			ids = append(ids, id)
			return
		}
		first := len(part) == len(text) || strings.HasPrefix(text, part) && len(ids) == 0
		for _, n := range t.norms {
			part = n(part)
		}
		t.split(part, true, func(part string, id int32) {
			if id >= 0 {
				ids = append(ids, id)
				return
			}
			pieces := []string{part}
			for _, s := range t.splits {
				pieces = s(pieces, first)
			}
			for _, p := range pieces {
				if p != "" {
					ids = t.model.encode(ids, p)
				}
			}
			first = false
		})
	})
	if !special || t.post == nil {
		return ids
	}
	var out []int32
	for _, p := range t.post {
		if p.text {
			out = append(out, ids...)
		}
		out = append(out, p.ids...)
	}
	return out
}

// split finds added tokens, of those that start first the longest, and hands
// over what stands between.
func (t *Tokenizer) split(text string, normalized bool, emit func(part string, id int32)) {
	from := 0
	for at := 0; at < len(text); {
		a := t.addedAt(text, at, normalized)
		if a == nil {
			at++
			continue
		}
		start, end := at, at+len(a.Content)
		if a.LStrip {
			start = from + len(strings.TrimRightFunc(text[from:start], isSpace))
		}
		if a.RStrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], isSpace))
		}
		if start > from {
			emit(text[from:start], -1)
		}
		emit("", a.ID)
		at, from = end, end
	}
	if from < len(text) {
		emit(text[from:], -1)
	}
}

func (t *Tokenizer) addedAt(text string, at int, normalized bool) *addedToken {
	for i := range t.added {
		a := &t.added[i]
		if a.Normalized == normalized && strings.HasPrefix(text[at:], a.Content) && (!a.SingleWord || wordAlone(text, at, at+len(a.Content))) {
			return a
		}
	}
	return nil
}
