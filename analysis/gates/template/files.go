package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrNone is the error of a checkpoint without a chat template.
var ErrNone = errors.New("there is no chat template: no chat_template.jinja, chat_template.json, and none in tokenizer_config.json")

// maxFile bounds the files that are read.
const maxFile = 64 << 20

// FromFiles finds the chat template of a checkpoint: chat_template.jinja, then
// chat_template.json, then tokenizer_config.json, in which a list has the named one
// default (and tool_use, where tools are given). read gives a side file, or false.
func FromFiles(read func(name string) ([]byte, bool)) (*Template, error) {
	var config tokenizerConfig
	special := map[string]string{}
	if b, ok := read("tokenizer_config.json"); ok {
		if err := decode("tokenizer_config.json", b, &config); err != nil {
			return nil, err
		}
		special = config.special()
	}
	file, named := "", templates(nil)
	if b, ok := read("chat_template.jinja"); ok {
		file, named = "chat_template.jinja", map[string]string{"default": string(b)}
		if tool, ok := read("additional_chat_templates/tool_use.jinja"); ok {
			named["tool_use"] = string(tool)
		}
	} else if b, ok := read("chat_template.json"); ok {
		var c struct {
			ChatTemplate templates `json:"chat_template"`
		}
		if err := decode("chat_template.json", b, &c); err != nil {
			return nil, err
		}
		file, named = "chat_template.json", c.ChatTemplate
	}
	if len(named) == 0 {
		file, named = "tokenizer_config.json", config.ChatTemplate
	}
	if len(named) == 0 {
		return nil, ErrNone
	}
	t, err := choose(named, special)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	tokens := slices.Collect(maps.Keys(config.Added))
	if b, ok := read("tokenizer.json"); ok && len(b) <= maxFile {
		tokens = append(tokens, addedTokens(b)...)
	}
	t.see(tokens)
	return t, nil
}

func choose(named map[string]string, special map[string]string) (*Template, error) {
	text, ok := named["default"]
	if !ok {
		return nil, fmt.Errorf("chat template: there is none named default (named: %s)", strings.Join(slices.Sorted(maps.Keys(named)), ", "))
	}
	t, err := Parse(text, special)
	if err != nil {
		return nil, err
	}
	if text, ok := named["tool_use"]; ok {
		if t.tool, err = Parse(text, special); err != nil {
			return nil, fmt.Errorf("tool_use: %w", err)
		}
		t.style = t.tool.style
	}
	return t, nil
}

// see takes note of special tokens, which may tell the style.
func (t *Template) see(tokens []string) {
	text := t.text
	if t.tool != nil {
		text = t.tool.text
	}
	t.style = detect(text, tokens)
}

// templates is one template, or several by their names.
type templates map[string]string

func (t *templates) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = templates{"default": one}
		return nil
	}
	var many []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if err := json.Unmarshal(b, &many); err != nil {
		var m map[string]string
		if json.Unmarshal(b, &m) != nil {
			return errors.New("chat_template is neither a text nor a list of named ones")
		}
		*t = m
		return nil
	}
	*t = templates{}
	for _, m := range many {
		(*t)[m.Name] = m.Template
	}
	return nil
}

// tokenText is a token as configs write it: a text, or an object with its content.
type tokenText string

func (t *tokenText) UnmarshalJSON(b []byte) error {
	var o struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(b, (*string)(t)) == nil {
		return nil
	}
	if err := json.Unmarshal(b, &o); err != nil {
		return nil // another form of token is not named by templates
	}
	*t = tokenText(o.Content)
	return nil
}

type tokenizerConfig struct {
	ChatTemplate templates        `json:"chat_template"`
	BOS          tokenText        `json:"bos_token"`
	EOS          tokenText        `json:"eos_token"`
	UNK          tokenText        `json:"unk_token"`
	SEP          tokenText        `json:"sep_token"`
	PAD          tokenText        `json:"pad_token"`
	CLS          tokenText        `json:"cls_token"`
	Mask         tokenText        `json:"mask_token"`
	Added        map[string]any   `json:"-"`
	Decoder      map[string]token `json:"added_tokens_decoder"`
	More         []tokenText      `json:"additional_special_tokens"`
}

type token struct {
	Content string `json:"content"`
}

func (c *tokenizerConfig) special() map[string]string {
	out := map[string]string{}
	for name, t := range map[string]tokenText{"bos_token": c.BOS, "eos_token": c.EOS, "unk_token": c.UNK, "sep_token": c.SEP,
		"pad_token": c.PAD, "cls_token": c.CLS, "mask_token": c.Mask} {
		if t != "" {
			out[name] = string(t)
		}
	}
	c.Added = map[string]any{}
	for _, t := range c.Decoder {
		c.Added[t.Content] = nil
	}
	for _, t := range c.More {
		c.Added[string(t)] = nil
	}
	return out
}

func addedTokens(tokenizer []byte) []string {
	var c struct {
		Added []token `json:"added_tokens"`
	}
	if json.Unmarshal(tokenizer, &c) != nil {
		return nil
	}
	var out []string
	for _, t := range c.Added {
		out = append(out, t.Content)
	}
	return out
}

func decode(name string, b []byte, into any) error {
	if len(b) > maxFile {
		return fmt.Errorf("%s: is longer than %d bytes", name, maxFile)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
