package ggufmake

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"quantscope/quant/gguf"
	"quantscope/quant/tokenizer"
)

// errVocabulary is wrapped by reasons why a tokenizer cannot be written.
var errVocabulary = errors.New("--no-tokenizer leaves it out")

// Types of tokens.
const (
	tokenNormal  = 1
	tokenControl = 3
	tokenUser    = 4
	tokenUnused  = 5
)

// vocabulary writes the tokenizer into the metadata. What is written is read back,
// and must give the ids of the checkpoint's own on the texts on which rules part.
func (c *converter) vocabulary(o Options) error {
	side, ok := c.ck.SideFile("tokenizer.json")
	if !ok || o.NoTokenizer {
		c.set("model", gguf.Word("none"))
		why := "the folder has no tokenizer.json"
		if ok {
			why = "--no-tokenizer"
		}
		c.note("no tokenizer is written (%s): llama.cpp loads the file, and cannot turn texts into tokens with it", why)
		return nil
	}
	text, err := side.Read()
	if err != nil {
		return err
	}
	var config []byte
	if side, ok := c.ck.SideFile("tokenizer_config.json"); ok {
		if config, err = side.Read(); err != nil {
			return err
		}
	}
	v := &vocabulary{converter: c}
	if err := v.read(text, config); err != nil {
		return c.fail("tokenizer.json: %v; %v", err, errVocabulary)
	}
	return v.write()
}

func (c *converter) set(key string, v gguf.Value) {
	c.Pairs = gguf.SetPair(c.Pairs, "tokenizer.ggml."+key, v)
}

// vocabulary is a tokenizer on its way into a file.
type vocabulary struct {
	*converter
	tok     *tokenizer.Tokenizer
	tokens  []string
	types   []int64
	merges  []string
	pre     string
	special map[string]int32 // by the key's name: bos, eos, …
	addBOS  bool
	addEOS  bool
	config  tokenizerConfig
}

// tokenizerJSON is what is written of a tokenizer.json.
type tokenizerJSON struct {
	Model struct {
		Merges []json.RawMessage `json:"merges"`
	} `json:"model"`
	Added []struct {
		ID         int32  `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		LStrip     bool   `json:"lstrip"`
		RStrip     bool   `json:"rstrip"`
		Special    bool   `json:"special"`
	} `json:"added_tokens"`
}

// tokenizerConfig is what is written of a tokenizer_config.json.
type tokenizerConfig struct {
	BOS, EOS, UNK, PAD tokenText
	Template           json.RawMessage
}

// tokenText is a token, spelled alone or with its properties.
type tokenText string

// UnmarshalJSON reads both.
func (t *tokenText) UnmarshalJSON(data []byte) error {
	var s string
	var o struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(data, &s) != nil {
		if err := json.Unmarshal(data, &o); err != nil {
			return err
		}
		s = o.Content
	}
	*t = tokenText(s)
	return nil
}

func (v *vocabulary) read(text, config []byte) error {
	text, normalized, err := withoutNFC(text)
	if err != nil {
		return err
	}
	if normalized {
		v.note("tokenizer.json brings texts into the composed form (NFC) first, and llama.cpp does not: texts that are not have other tokens")
	}
	if v.tok, err = tokenizer.ParseWithConfig(text, config); err != nil {
		return err
	}
	if err := v.model(text); err != nil {
		return err
	}
	if config != nil {
		if err := json.Unmarshal(config, &struct {
			BOS *tokenText       `json:"bos_token"`
			EOS *tokenText       `json:"eos_token"`
			UNK *tokenText       `json:"unk_token"`
			PAD *tokenText       `json:"pad_token"`
			T   *json.RawMessage `json:"chat_template"`
		}{&v.config.BOS, &v.config.EOS, &v.config.UNK, &v.config.PAD, &v.config.Template}); err != nil {
			return fmt.Errorf("tokenizer_config.json: %w", err)
		}
	}
	var j tokenizerJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	if err := v.list(&j); err != nil {
		return err
	}
	if err := v.around(); err != nil {
		return err
	}
	return v.choose()
}

// withoutNFC takes a normalizer away that does nothing but compose characters.
func withoutNFC(text []byte) (out []byte, had bool, err error) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil {
		return nil, false, err
	}
	var n struct{ Type string }
	if json.Unmarshal(parts["normalizer"], &n) != nil || n.Type != "NFC" {
		return text, false, nil
	}
	delete(parts, "normalizer")
	out, err = json.Marshal(parts)
	return out, true, err
}

// model wants the one that can be written.
func (v *vocabulary) model(text []byte) error {
	var j struct {
		Model struct {
			Type         string `json:"type"`
			ByteFallback bool   `json:"byte_fallback"`
		} `json:"model"`
	}
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	if j.Model.Type != "BPE" || j.Model.ByteFallback {
		kind := j.Model.Type
		if j.Model.ByteFallback {
			kind += " with bytes to fall back on"
		}
		return fmt.Errorf("model %s cannot be written; only BPE over bytes can", kind)
	}
	return nil
}

// list fills tokens, their types and merges. Ids that are free are marked unused.
func (v *vocabulary) list(j *tokenizerJSON) error {
	n := max(v.cfg.Vocab, 0)
	if v.tok.Vocab() > n {
		return fmt.Errorf("%d tokens, and the config's vocab_size is %d", v.tok.Vocab(), n)
	}
	v.tokens, v.types = make([]string, n), make([]int64, n)
	for i := range v.tokens {
		v.tokens[i], v.types[i] = v.tok.Token(int32(i)), tokenNormal
		if v.tokens[i] == "" {
			v.tokens[i], v.types[i] = fmt.Sprintf("[PAD%d]", i), tokenUnused
		}
	}
	for _, a := range j.Added {
		switch {
		case a.ID < 0 || int(a.ID) >= n:
			return fmt.Errorf("added token %q has id %d, and the config's vocab_size is %d", a.Content, a.ID, n)
		case a.SingleWord || a.LStrip || a.RStrip:
			return fmt.Errorf("added token %q takes blanks around it, or is a single word, which the format cannot say", a.Content)
		}
		v.types[a.ID] = tokenUser
		if a.Special {
			v.types[a.ID] = tokenControl
		}
	}
	for i, raw := range j.Model.Merges {
		var pair []string
		var one string
		if json.Unmarshal(raw, &pair) == nil && len(pair) == 2 {
			one = pair[0] + " " + pair[1]
		} else if json.Unmarshal(raw, &one) != nil {
			return fmt.Errorf("merge %d is no pair", i)
		}
		if strings.Count(one, " ") != 1 {
			return fmt.Errorf("merge %d, %q, cannot be told apart at its blank", i, one)
		}
		v.merges = append(v.merges, one)
	}
	return nil
}

// around finds what the tokenizer puts before and after a text, and the tokens that
// have a key of their own.
func (v *vocabulary) around() error {
	v.special = map[string]int32{}
	for key, t := range map[string]tokenText{"bos": v.config.BOS, "eos": v.config.EOS, "unknown": v.config.UNK, "padding": v.config.PAD} {
		if id, ok := v.tok.ID(string(t)); ok && t != "" {
			v.special[key] = id
		}
	}
	for key, name := range map[string]string{"bos": "bos_token_id", "eos": "eos_token_id", "padding": "pad_token_id"} {
		var ids []any
		switch x := v.cfg.Text[name].(type) {
		case []any:
			ids = x
		case json.Number:
			ids = []any{x}
		}
		for i, x := range ids {
			n, ok := x.(json.Number)
			if !ok {
				continue
			}
			id, err := n.Int64()
			if err != nil || id < 0 || int(id) >= len(v.tokens) {
				continue
			}
			if _, have := v.special[key]; !have {
				v.special[key] = int32(id)
			} else if i > 0 && key == "eos" { // texts end with either
				v.special["eot"] = int32(id)
			}
		}
	}
	plain, whole := v.tok.Encode("a", false), v.tok.Encode("a", true)
	at := len(whole) - len(plain)
	switch {
	case slices.Equal(whole, plain):
	case at == 1 && slices.Equal(whole[1:], plain):
		v.addBOS, v.special["bos"] = true, whole[0]
	case at == 1 && slices.Equal(whole[:len(plain)], plain):
		v.addEOS, v.special["eos"] = true, whole[len(plain)]
	case at == 2 && slices.Equal(whole[1:len(plain)+1], plain):
		v.addBOS, v.special["bos"] = true, whole[0]
		v.addEOS, v.special["eos"] = true, whole[len(plain)+1]
	default:
		return fmt.Errorf("the template makes %v of %v, which the format cannot say", whole, plain)
	}
	return nil
}

// firstTries are the names of pre-tokenizers in the order in which they are tried;
// many stand for the same rules.
var firstTries = []string{
	"qwen2", "llama-bpe", "smollm", "gpt-2", "gpt-4o", "glm4", "deepseek-v3", "deepseek-llm", "deepseek-coder", "qwen35", "tekken", "starcoder", "falcon", "dbrx",
}

// choose finds the pre-tokenizer whose rules give the checkpoint's own ids.
func (v *vocabulary) choose() error {
	tries := slices.Clone(firstTries)
	if v.Arch == "glm4moe" {
		tries = append([]string{"glm4"}, tries...)
	}
	for _, name := range tokenizer.PreTokenizers() {
		if !slices.Contains(tries, name) {
			tries = append(tries, name)
		}
	}
	want := v.tok.Behaviour()
	for _, name := range tries {
		t, err := tokenizer.FromVocabulary(tokenizer.Vocabulary{
			Model: "gpt2", Pre: name, Tokens: v.tokens, Types: int32s(v.types), Merges: v.merges, BOS: v.id("bos"), EOS: v.id("eos"), UNK: v.id("unknown"),
			AddBOS: v.addBOS, BOSStated: true, AddEOS: v.addEOS,
		})
		if err == nil && t.Behaviour() == want && tokenizer.SplitAlike(t, v.tok) && slices.Equal(t.Encode("a", true), v.tok.Encode("a", true)) {
			v.pre = name
			return nil
		}
	}
	return errors.New("none of the pre-tokenizers that llama.cpp has a name for gives its ids")
}

func (v *vocabulary) id(key string) int32 {
	if id, ok := v.special[key]; ok {
		return id
	}
	return -1
}

func int32s(x []int64) []int32 {
	out := make([]int32, len(x))
	for i, n := range x {
		out[i] = int32(n)
	}
	return out
}

// write adds the keys.
func (v *vocabulary) write() error {
	v.set("model", gguf.Word("gpt2"))
	v.set("pre", gguf.Word(v.pre))
	v.set("tokens", gguf.Words(v.tokens...))
	v.set("token_type", gguf.Value{Type: gguf.Array, Elem: gguf.Int32, List: v.types})
	v.set("merges", gguf.Words(v.merges...))
	for _, key := range []string{"bos", "eos", "unknown", "padding", "eot"} {
		if id, ok := v.special[key]; ok {
			v.set(key+"_token_id", gguf.Count(uint32(id)))
		}
	}
	v.set("add_bos_token", gguf.Value{Type: gguf.Bool, V: v.addBOS})
	v.set("add_eos_token", gguf.Value{Type: gguf.Bool, V: v.addEOS})
	return v.template()
}

// template writes the chat template: that of a file of its own, of which the other
// is an old copy, else that of tokenizer_config.json.
func (v *vocabulary) template() error {
	if side, ok := v.ck.SideFile("chat_template.jinja"); ok {
		text, err := side.Read()
		if err != nil {
			return err
		}
		v.Pairs = gguf.SetPair(v.Pairs, "tokenizer.chat_template", gguf.Word(string(text)))
		return nil
	}
	var one string
	var many []struct{ Name, Template string }
	switch {
	case len(v.config.Template) == 0:
	case json.Unmarshal(v.config.Template, &one) == nil:
		if one != "" {
			v.Pairs = gguf.SetPair(v.Pairs, "tokenizer.chat_template", gguf.Word(one))
		}
	case json.Unmarshal(v.config.Template, &many) == nil:
		var names []string
		for _, t := range many {
			if t.Name == "default" {
				v.Pairs = gguf.SetPair(v.Pairs, "tokenizer.chat_template", gguf.Word(t.Template))
				continue
			}
			names = append(names, t.Name)
			v.Pairs = gguf.SetPair(v.Pairs, "tokenizer.chat_template."+t.Name, gguf.Word(t.Template))
		}
		if names != nil {
			v.Pairs = gguf.SetPair(v.Pairs, "tokenizer.chat_templates", gguf.Words(names...))
		}
	default:
		return v.fail("tokenizer_config.json: chat_template is neither a text nor a list of named ones")
	}
	return nil
}
