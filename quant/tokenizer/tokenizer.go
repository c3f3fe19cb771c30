package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// ErrUnknown is wrapped by errors about parts of a tokenizer.json that are not
// known here.
var ErrUnknown = errors.New("not known")

// Tokenizer is a compiled tokenizer.json.
type Tokenizer struct {
	vocab  []string // by id; "" where an id is free
	ids    map[string]int32
	model  encoder
	added  []addedToken
	raw    search           // added tokens that are looked for in the text as it is
	normal search           // and in normalized text
	shown  map[int32]string // what these are decoded to: their normalized text
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
	notes    []string // see Notes

	longestFirst bool // added tokens are cut out as llama.cpp does: the longest first, wherever it stands
	prefixSpace  bool // then, and with longestFirst, parts that follow one get a space before them

	pool sync.Pool // of *scratch
}

// file is a tokenizer.json. What has a type of its own stays raw.
type file struct {
	Truncation *struct {
		MaxLength int `json:"max_length"`
	} `json:"truncation"`
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
	if depth(data) > maxDepth {
		return nil, fmt.Errorf("tokenizer.json: parts nest more than %d deep", maxDepth)
	}
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
		{"pre_tokenizer", func() error { return t.parsePre(f.PreTokenizer) }},
		{"post_processor", func() error { return t.setPost(f.PostProcessor) }},
		{"decoder", func() (err error) { t.decode, err = t.parseDecoder(f.Decoder); return }},
	} {
		if err := step.do(); err != nil {
			return nil, fmt.Errorf("tokenizer.json: %s: %w", step.name, err)
		}
	}
	if f.Truncation != nil {
		t.notes = append(t.notes, fmt.Sprintf("tokenizer.json has a truncation to %d tokens baked in, which is for batches and is ignored here; a server that heeds it cuts longer prompts", f.Truncation.MaxLength))
	}
	t.index()
	t.seal(t.sum, []string{canonical(f.Normalizer), canonical(f.PreTokenizer), canonical(f.PostProcessor)})
	return t, nil
}

// maxDepth bounds parts in parts; those in use nest six deep.
const maxDepth = 32

// depth is how deep objects and lists of a JSON text nest.
func depth(data []byte) int {
	n, most, text := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			n++
			most = max(most, n)
		case c == '}' || c == ']':
			n--
		}
	}
	return most
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
	if int(id) >= len(t.vocab) {
		t.vocab = append(t.vocab, make([]string, int(id)+1-len(t.vocab))...)
	}
	if old := t.vocab[id]; old != "" && old != token {
		return fmt.Errorf("id %d is both %q and %q", id, old, token)
	}
	t.vocab[id] = token
	t.ids[token] = id
	return nil
}

// parsePre reads the pre-tokenizer. Where it ends with writing bytes as characters,
// a BPE model does that.
func (t *Tokenizer) parsePre(raw json.RawMessage) error {
	splits, asBytes, err := parseSplitter(raw)
	if err != nil {
		return err
	}
	if b, ok := t.model.(*bpe); ok {
		b.asBytes = asBytes
	} else if asBytes {
		splits = append(splits, byteChars)
	}
	t.splits = splits
	return nil
}

// Notes are what a file has that does not change ids here: truncation, which is for batches.
func (t *Tokenizer) Notes() []string { return t.notes }

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
