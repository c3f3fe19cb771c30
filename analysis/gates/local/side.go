package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"quantscope/analysis/gates/template"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/gguf"
)

// side are the files beside the weights that say how a model is talked to.
type side func(name string) ([]byte, bool)

// readSide finds the chat template and the tokens that end an answer.
func (e *Engine) readSide() error {
	e.ends = map[int32]bool{}
	read, done, err := e.sideFiles()
	if err != nil {
		return err
	}
	defer done()
	if e.template, e.noChat = template.FromFiles(read); e.noChat != nil {
		e.template = nil
	} else {
		e.style = e.template.Style()
	}
	e.marks = map[int32]bool{}
	for _, m := range callMarks {
		if id, ok := e.tok.ID(m); ok && e.tok.Special(id) {
			e.marks[id] = true
		}
	}
	for _, name := range []string{"generation_config.json", "config.json"} {
		text, ok := read(name)
		if !ok {
			continue
		}
		found, err := endIDs(text)
		if err != nil {
			return fmt.Errorf("local: %s/%s: %w", e.c.Path, name, err)
		}
		for _, id := range found {
			e.ends[id] = true
		}
		if len(found) > 0 {
			break // what generation is told goes before what the model says
		}
	}
	return nil
}

// callMarks are what tool calls are written with in the styles of package template.
var callMarks = []string{"<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"}

// endIDs are the eos_token_id of a config: a number, a list of them, or nothing.
func endIDs(text []byte) ([]int32, error) {
	var c struct {
		EOS  json.RawMessage `json:"eos_token_id"`
		Text struct {
			EOS json.RawMessage `json:"eos_token_id"`
		} `json:"text_config"`
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, err
	}
	raw := c.EOS
	if raw == nil {
		raw = c.Text.EOS
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var one int32
	if json.Unmarshal(raw, &one) == nil {
		return []int32{one}, nil
	}
	var list []int32
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, errors.New("eos_token_id is neither an id nor a list of ids")
	}
	return list, nil
}

// sideFiles opens the files beside the candidate's weights: for what is made of a
// reference, the reference's.
func (e *Engine) sideFiles() (read side, done func(), err error) {
	if isGGUF(e.c.Path) {
		return e.ggufSide()
	}
	if e.c.Path == "" {
		return func(string) ([]byte, bool) { return nil, false }, func() {}, nil
	}
	var ck *checkpoint.Checkpoint
	if e.c.Path == demo.Label {
		ck, err = demo.Open()
	} else {
		ck, err = checkpoint.Open(e.c.Path)
	}
	if err != nil {
		return nil, nil, err
	}
	return func(name string) ([]byte, bool) {
		if name == "config.json" {
			return ck.Config, ck.Config != nil
		}
		f, ok := ck.SideFile(name)
		if !ok {
			return nil, false
		}
		text, err := f.Read()
		return text, err == nil
	}, func() { _ = ck.Close() }, nil // it was only read
}

// isGGUF tells a GGUF file, which a candidate opened, by its name or first bytes.
func isGGUF(path string) bool {
	if strings.HasSuffix(path, ".gguf") {
		return true
	}
	f, _, err := checkpoint.OpenRegular(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 4)
	_, err = io.ReadFull(f, magic)
	return err == nil && string(magic) == "GGUF"
}

// turnEnds are tokens that end an answer wherever a vocabulary has them: GGUF files
// mostly name one token that ends a text, and llama.cpp adds these by their names.
var turnEnds = []string{"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>"}

// ggufSide gives what a GGUF file says of both in the words of a checkpoint's files.
func (e *Engine) ggufSide() (side, func(), error) {
	f, err := gguf.Open(e.c.Path)
	if err != nil {
		return nil, nil, err
	}
	files := map[string][]byte{}
	config := map[string]any{}
	word := func(key string) (string, bool) {
		s, ok := f.Metadata[key].V.(string)
		return s, ok
	}
	id := func(key string) (int32, bool) {
		switch v := f.Metadata[key].V.(type) {
		case uint64:
			return int32(v), v <= math.MaxInt32
		case int64:
			return int32(v), v >= 0 && v <= math.MaxInt32
		}
		return 0, false
	}
	if text, ok := word("tokenizer.chat_template"); ok {
		files["chat_template.jinja"] = []byte(text)
	}
	if text, ok := word("tokenizer.chat_template.tool_use"); ok {
		files["additional_chat_templates/tool_use.jinja"] = []byte(text)
	}
	var ends []int32
	for _, key := range []string{"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"} {
		if v, ok := id(key); ok {
			ends = append(ends, v)
		}
	}
	for _, t := range turnEnds {
		if v, ok := e.tok.ID(t); ok && e.tok.Special(v) {
			ends = append(ends, v)
		}
	}
	if len(ends) > 0 {
		if files["generation_config.json"], err = json.Marshal(map[string]any{"eos_token_id": ends}); err != nil {
			return nil, nil, err
		}
	}
	for key, name := range map[string]string{"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token"} {
		if v, ok := id("tokenizer.ggml." + key + "_token_id"); ok {
			config[name] = e.tok.Token(v)
		}
	}
	if files["tokenizer_config.json"], err = json.Marshal(config); err != nil {
		return nil, nil, err
	}
	if err := f.Close(); err != nil {
		return nil, nil, err
	}
	return func(name string) ([]byte, bool) { text, ok := files[name]; return text, ok }, func() {}, nil
}
