package tokenizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"slices"
)

// digest hashes what decides ids: every field with its length before it, so that
// no two lists of fields give the same bytes.
type digest struct{ hash.Hash }

func newDigest() digest { return digest{sha256.New()} }

func (d digest) text(s string) {
	d.number(int64(len(s)))
	_, _ = d.Write([]byte(s)) // a hash never fails
}

func (d digest) number(n int64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	_, _ = d.Write(b[:])
}

// Identity is the SHA-256, in hexadecimal, over everything that decides ids: the
// vocabulary by id, the model with its merges or scores, added tokens, normalizer,
// pre-tokenizer and post-processor. Equal identities are equal tokenizers; the
// same tokenizer written in other words has another one, which Differences
// tells from one that gives other ids.
func (t *Tokenizer) Identity() string { return t.identity }

// Behaviour is the SHA-256, in hexadecimal, over the tokens by id and the ids of
// trial texts on which rules part. Tokenizers of equal behaviour are taken for one
// tokenizer written in two ways, as in a tokenizer.json and in a GGUF file.
func (t *Tokenizer) Behaviour() string {
	d := newDigest()
	n := len(t.vocab)
	for n > 0 && t.vocab[n-1] == "" {
		n--
	}
	for _, v := range t.vocab[:n] {
		d.text(v)
	}
	for _, p := range probes {
		ids := t.Encode(p, false)
		d.number(int64(len(ids)))
		for _, id := range ids {
			d.number(int64(id))
		}
	}
	return hex.EncodeToString(d.Sum(nil))
}

// seal computes the identity once all parts are there. rules are the parts that
// are told by their text.
func (t *Tokenizer) seal(model []byte, rules []string) {
	d := newDigest()
	d.number(int64(len(t.vocab)))
	for _, v := range t.vocab {
		d.text(v)
	}
	_, _ = d.Write(model)
	adds := slices.Clone(t.added)
	slices.SortFunc(adds, func(a, b addedToken) int { return int(a.ID - b.ID) })
	for _, a := range adds {
		d.text(fmt.Sprintf("%d %q %t %t %t %t %t", a.ID, a.Content, a.SingleWord, a.LStrip, a.RStrip, a.normalized(), a.Special))
	}
	for _, r := range rules {
		d.text(r)
	}
	t.rules = rules
	t.identity = hex.EncodeToString(d.Sum(nil))
}

// canonical is a part of a file with its keys in order and without spaces, so that
// formatting does not change an identity. trim_offsets moves offsets, not ids.
func canonical(raw json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || v == nil {
		return ""
	}
	dropKey(v, "trim_offsets")
	out, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(out)
}

func dropKey(v any, key string) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, key)
		for _, x := range v {
			dropKey(x, key)
		}
	case []any:
		for _, x := range v {
			dropKey(x, key)
		}
	}
}

// probes are texts on which the rules of tokenizers part: contractions, digits,
// runs of spaces and line ends, scripts, combining marks, emoji, code.
var probes = []string{
	"Hello, world!", " leading and trailing ", "I'm you're WE'LL he'd", "1 12 123 1234 12345678901234567890", "3.14159e-10",
	"a  b   c    d", "tabs\tand\t\ttabs", "one\ntwo\n\nthree\r\nfour\r\n\r\nfive", "  \n  \n", "\n", " ", "   ",
	"caf\u00e9 cafe\u0301 \ufb01 \u00bd \u2460", "\u00c4\u00d6\u00dc\u00df \u00e4\u00f6\u00fc", "\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440",
	"\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\ud55c\uae00 \uad6d\uc5b4", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0645\u0631\u062d\u0628\u0627", "\u3053\u3093\u306b\u3061\u306f",
	"\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \U0001f600", "\u00a0nbsp\u00a0", "x=1;y+=2//z", "for (int i = 0; i < n; i++) {\n\ta[i] = 0;\n}",
	"camelCaseWord ALLCAPS snake_case", "http://example.org/?a=b&c=d", "\u0660\u0661\u0662\u0663 \u0967\u0968", "_under_ *star* `tick`", "\u2581 lower block",
}

// Difference is what sets two tokenizers apart.
type Difference struct {
	Text       string // one sentence; "" where there is none
	Vocabulary bool   // some id stands for different tokens, or for a token on one side only
	Rules      bool   // a text is split in different ways: texts are encoded to different ids
	First      int32  // first id that differs; -1 for none
}

// Differences says in a sentence how two tokenizers differ, "" where they do not.
func Differences(a, b *Tokenizer) string { return Compare(a, b).Text }

// Compare finds out how two tokenizers differ: by identity, then id by id, then
// over texts that rules are apt to split differently. Where nothing but the way the
// rules are written differs, Text says so and neither flag is set.
func Compare(a, b *Tokenizer) Difference {
	d := Difference{First: -1}
	if a.identity == b.identity {
		return d
	}
	n := min(len(a.vocab), len(b.vocab))
	for id := range max(len(a.vocab), len(b.vocab)) {
		x, y := a.Token(int32(id)), b.Token(int32(id))
		if x == y || id >= n && x == "" && y == "" {
			continue
		}
		d.First, d.Vocabulary = int32(id), true
		if len(a.vocab) != len(b.vocab) {
			d.Text = fmt.Sprintf("%d tokens against %d, ", len(a.vocab), len(b.vocab))
		}
		d.Text += fmt.Sprintf("id %d is %s against %s", id, quoted(x), quoted(y))
		return d
	}
	for _, p := range probes {
		x, y := a.Encode(p, true), b.Encode(p, true)
		if slices.Equal(x, y) {
			continue
		}
		d.Rules = true
		i := 0
		for i < min(len(x), len(y)) && x[i] == y[i] {
			i++
		}
		d.Text = fmt.Sprintf("the same tokens, but other rules: %q has %d ids against %d, and they part at position %d", p, len(x), len(y), i)
		return d
	}
	d.Text = fmt.Sprintf("the same tokens and the same ids for %d trial texts, from rules that are written differently", len(probes))
	return d
}

func quoted(token string) string {
	if token == "" {
		return "free"
	}
	return fmt.Sprintf("%q", token)
}
