package tokenizer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Vocabulary is a tokenizer as GGUF metadata describe it (keys tokenizer.ggml.*).
type Vocabulary struct {
	Model  string // gpt2, llama, …
	Pre    string // pre-tokenizer: llama-bpe, qwen2, smollm, …; "" where the key is absent
	Tokens []string
	Scores []float32 // of model llama; nil else
	Types  []int32   // 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte; nil: all normal
	Merges []string  // of model gpt2

	BOS, EOS, UNK int32 // -1 where there is none
	AddBOS        bool
	AddEOS        bool
	BOSStated     bool // the file says AddBOS
	AddSpace      bool // add_space_prefix; true where the file does not say
	TrimSpaces    bool // remove_extra_whitespaces
	Charsmap      []byte
}

// Types of tokens in GGUF files.
const (
	typeUnknown = 2
	typeControl = 3
	typeUser    = 4
	typeUnused  = 5
)

// lowLine stands for a space in sentencepiece's vocabularies.
const lowLine = "\u2581"

// FromVocabulary makes a tokenizer of a GGUF vocabulary: ids are those of
// llama.cpp with special tokens parsed. A model or a pre-tokenizer that is not known
// is refused by name, with the known ones.
func FromVocabulary(v Vocabulary) (*Tokenizer, error) {
	t := &Tokenizer{ids: map[string]int32{}, adds: map[int32]bool{}, silent: map[int32]bool{}, bos: -1, longestFirst: true}
	if err := t.fromVocabulary(&v); err != nil {
		return nil, fmt.Errorf("tokenizer.ggml: %w", err)
	}
	return t, nil
}

func (t *Tokenizer) fromVocabulary(v *Vocabulary) error {
	if err := t.setTokens(v); err != nil {
		return err
	}
	var rules []string
	var err error
	model := v.Model
	if model == "gpt2" && v.Pre == "gemma4" {
		model = "gemma4"
	}
	switch model {
	case "gpt2", "gemma4":
		rules, err = t.bytePairs(v)
	case "llama":
		rules, err = t.sentencePieces(v)
	default:
		return unknown("model", v.Model, "gpt2", "llama", "gemma4")
	}
	if err != nil {
		return err
	}
	if err := t.around(v); err != nil {
		return err
	}
	t.index()
	t.seal(t.sum, append(rules, fmt.Sprint(t.post)))
	return nil
}

// setTokens takes in the tokens, of which those that are found as they are in the
// text are added ones.
func (t *Tokenizer) setTokens(v *Vocabulary) error {
	n := len(v.Tokens)
	switch {
	case n == 0 || n > maxVocab:
		return fmt.Errorf("%d tokens, and a vocabulary has from 1 to %d", n, maxVocab)
	case v.Types != nil && len(v.Types) < n:
		return fmt.Errorf("%d token types for %d tokens", len(v.Types), n)
	case len(v.Merges) > maxMerges:
		return fmt.Errorf("%d merges, and at most %d are read", len(v.Merges), maxMerges)
	}
	t.vocab = make([]string, n)
	for i, tok := range v.Tokens {
		id := int32(i)
		kind := int32(1)
		if v.Types != nil {
			kind = v.Types[i]
		}
		if tok == "" || kind == typeUnused && tok == fmt.Sprintf("[PAD%d]", i) { // made up to fill the head's rows
			continue
		}
		if old, ok := t.ids[tok]; ok {
			return fmt.Errorf("token %q is id %d and id %d", tok, old, id)
		}
		t.vocab[i], t.ids[tok] = tok, id
		switch kind {
		case typeControl, typeUnknown, typeUser:
			special := kind != typeUser
			raw := false
			t.added = append(t.added, addedToken{ID: id, Content: tok, Special: special, Normalized: &raw})
			t.adds[id] = true
			if special {
				t.silent[id] = true
			}
		}
	}
	return nil
}

// bytePairs is model gpt2.
func (t *Tokenizer) bytePairs(v *Vocabulary) ([]string, error) {
	pre := v.Pre
	switch {
	case v.Model == "gemma4":
		pre = "gemma4"
	case pre == "":
		pre = "default"
		t.notes = append(t.notes, "the file does not say tokenizer.ggml.pre, and what llama.cpp takes then, default, is seldom what the model was trained with")
	}
	rules, ok := preTokenizers[pre]
	if !ok {
		return nil, unknown("pre-tokenizer", v.Pre, slices.Sorted(maps.Keys(preTokenizers))...)
	}
	b := newBPE(t.ids, t.vocab)
	b.ignoreMerges, b.asBytes = rules.ignoreMerges, !rules.plain
	if rules.plain {
		b.bytes, b.lines = true, true
		t.norms = []normalizer{plain(func(s string) string { return strings.ReplaceAll(s, " ", lowLine) })}
		t.spell = spelling{fallback: true, space: lowLine}
		t.decode = []decoder{spaces(lowLine), byteFallback, fuse}
	} else {
		t.spell.byteLevel = true
		t.decode = []decoder{byteLevel}
	}
	list := make([][]string, len(v.Merges))
	for i, m := range v.Merges {
		at := 0
		if m != "" { // a merge may begin with a space
			at = strings.IndexByte(m[1:], ' ') + 1
		}
		if at == 0 {
			return nil, fmt.Errorf("merge %d, %q, is no pair", i, m)
		}
		list[i] = []string{m[:at], m[at+1:]}
	}
	if err := b.setMerges(list); err != nil {
		return nil, err
	}
	for _, p := range rules.patterns {
		re, err := compile(p)
		if err != nil {
			return nil, err
		}
		t.splits = append(t.splits, cut(&finder{re: re}, isolated, false))
	}
	t.model, t.sum = b, b.sum
	return append([]string{fmt.Sprintf("gguf plain %t", rules.plain)}, rules.patterns...), nil
}

// sentencePieces is model llama.
func (t *Tokenizer) sentencePieces(v *Vocabulary) ([]string, error) {
	if len(v.Scores) < len(v.Tokens) {
		return nil, fmt.Errorf("%d scores for %d tokens", len(v.Scores), len(v.Tokens))
	}
	e := &spm{ids: t.ids, scores: v.Scores, unk: v.UNK}
	if e.unk < 0 {
		e.unk = 0
	}
	for i := range e.fallback {
		id, ok := t.ids[fmt.Sprintf("<0x%02X>", i)]
		if !ok {
			id = -1
		}
		e.fallback[i] = id
	}
	d := newDigest()
	for i, s := range v.Scores[:len(v.Tokens)] {
		if s != s {
			return nil, fmt.Errorf("score of token %d is NaN", i)
		}
		d.text(fmt.Sprint(s))
	}
	t.norms = []normalizer{plain(func(s string) string { return strings.ReplaceAll(s, " ", lowLine) })}
	t.spell = spelling{fallback: true, space: lowLine}
	t.decode = []decoder{spaces(lowLine), byteFallback, fuse}
	if v.AddSpace {
		t.prefixSpace = true
		t.decode = append(t.decode, func(tokens []string) []string {
			tokens[0] = strings.TrimPrefix(tokens[0], " ")
			return tokens
		})
	}
	t.model, t.sum = e, d.Sum(nil)
	return []string{fmt.Sprintf("gguf llama unk %d prefix %t", e.unk, v.AddSpace)}, nil
}

// around settles the tokens before and after a text.
func (t *Tokenizer) around(v *Vocabulary) error {
	addBOS, bos, eos := v.AddBOS, v.BOS, v.EOS
	if v.Model == "llama" { // what llama.cpp takes where the file does not say
		if bos < 0 {
			bos = 1
		}
		if eos < 0 {
			eos = 2
		}
		addBOS = addBOS || !v.BOSStated
	}
	if !v.BOSStated && v.Model == "gpt2" {
		addBOS = preTokenizers[v.Pre].addBOS
	}
	if v.Model == "gemma4" || v.Pre == "gemma4" {
		addBOS = true // llama.cpp adds it whatever the file says
	}
	if bos >= 0 && int(bos) < len(t.vocab) {
		t.bos = bos
	}
	parts := []templatePart{}
	if addBOS {
		if t.bos < 0 {
			return fmt.Errorf("a begin token is to be added, and bos_token_id %d is not one of %d tokens", v.BOS, len(t.vocab))
		}
		parts = append(parts, templatePart{ids: []int32{t.bos}})
	}
	parts = append(parts, templatePart{text: true})
	if v.AddEOS {
		if eos < 0 || int(eos) >= len(t.vocab) {
			return fmt.Errorf("an end token is to be added, and eos_token_id %d is not one of %d tokens", v.EOS, len(t.vocab))
		}
		parts = append(parts, templatePart{ids: []int32{eos}})
	}
	if len(parts) > 1 {
		t.post = parts
	}
	return nil
}

// spaces turns the sign for spaces into them.
func spaces(sign string) decoder {
	return func(tokens []string) []string {
		for i := range tokens {
			tokens[i] = strings.ReplaceAll(tokens[i], sign, " ")
		}
		return tokens
	}
}

// fuse makes one text of all.
func fuse(tokens []string) []string { return []string{strings.Join(tokens, "")} }
