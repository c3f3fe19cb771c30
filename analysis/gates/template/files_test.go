package template

import (
	"errors"
	"strings"
	"testing"

	"quantscope/analysis/gates/chat"
	"quantscope/quant/demo"
)

func from(files map[string]string) func(string) ([]byte, bool) {
	return func(name string) ([]byte, bool) {
		b, ok := files[name]
		return []byte(b), ok
	}
}

var hello = []chat.Message{{Role: chat.User, Content: "Hi"}}

// TestFromFiles: the order of files, named templates, special tokens in both forms.
func TestFromFiles(t *testing.T) {
	tools := []chat.Tool{{Name: "f"}}
	config := `{"bos_token": "<b>", "eos_token": {"content": "<e>", "lstrip": false}, "pad_token": null, "chat_template": "{{ bos_token }}c{{ eos_token }}{{ pad_token }}"}`
	for _, c := range []struct {
		name        string
		files       map[string]string
		plain, tool string
	}{
		{"config", map[string]string{"tokenizer_config.json": config}, "<b>c<e>", "<b>c<e>"},
		{"json before config", map[string]string{"tokenizer_config.json": config, "chat_template.json": `{"chat_template": "{{ eos_token }}j"}`}, "<e>j", "<e>j"},
		{"jinja first", map[string]string{"tokenizer_config.json": config, "chat_template.json": `{"chat_template": "j"}`, "chat_template.jinja": "x{{ bos_token }}\n"}, "x<b>", "x<b>"},
		{"named", map[string]string{"tokenizer_config.json": `{"chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t{{ tools[0].function.name }}"}]}`}, "d", "tf"},
		{"additional", map[string]string{"chat_template.jinja": "d", "additional_chat_templates/tool_use.jinja": "t"}, "d", "t"},
		{"json without", map[string]string{"tokenizer_config.json": config, "chat_template.json": `{"other": 1}`}, "<b>c<e>", "<b>c<e>"},
	} {
		p, err := FromFiles(from(c.files))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		plain, err1 := p.Render(hello, nil, nil)
		tool, err2 := p.Render(hello, tools, nil)
		if err1 != nil || err2 != nil || plain != c.plain || tool != c.tool {
			t.Errorf("%s: %q, %q, %v, %v", c.name, plain, tool, err1, err2)
		}
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		files map[string]string
		want  string
	}{
		{map[string]string{}, "there is no chat template"},
		{map[string]string{"tokenizer_config.json": `{"eos_token": "<e>"}`}, "there is no chat template"},
		{map[string]string{"tokenizer_config.json": `{`}, "tokenizer_config.json: unexpected end of JSON input"},
		{map[string]string{"tokenizer_config.json": `{"chat_template": 5}`}, "neither a text nor a list"},
		{map[string]string{"tokenizer_config.json": `{"chat_template": [{"name": "rag", "template": "x"}]}`}, "none named default (named: rag)"},
		{map[string]string{"chat_template.jinja": "{% include 'x' %}"}, "chat_template.jinja: chat template: line 1: tag include is not offered"},
		{map[string]string{"chat_template.jinja": "d", "additional_chat_templates/tool_use.jinja": "{{ x | nope }}"}, "tool_use: chat template: line 1: filter nope is not known"},
	} {
		_, err := FromFiles(from(c.files))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %s", c.files, err, c.want)
		}
		if len(c.files) == 0 && !errors.Is(err, ErrNone) {
			t.Errorf("%v is not ErrNone", err)
		}
	}
}

// TestDemo: the embedded model's own template, and its style by its special tokens.
func TestDemo(t *testing.T) {
	ck, err := demo.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	p, err := FromFiles(func(name string) ([]byte, bool) {
		side, ok := ck.SideFile(name)
		if !ok {
			return nil, false
		}
		b, err := side.Read()
		return b, err == nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Render(append(hello, chat.Message{Role: chat.Assistant, Content: "서울"}, chat.Message{Role: chat.User, Content: "?"}), nil, nil)
	if want := "<|user|>Hi<|assistant|>서울<|user|>?<|assistant|>"; err != nil || got != want || p.Style() != Hermes {
		t.Errorf("%q, %q, %v", got, p.Style(), err)
	}
}

// TestRender: what a caller gives that cannot be given is an error that names it.
func TestRender(t *testing.T) {
	p, err := Parse("{{ tools | tojson }}{{ x }}{{ messages[0].tool_calls[0].function.arguments }}", nil)
	if err != nil {
		t.Fatal(err)
	}
	call := []chat.Message{{Role: chat.Assistant, ToolCalls: []chat.ToolCall{{Name: "f", Arguments: `{"b": 1, "a": [2]}`}}}}
	broken := []chat.Message{{Role: chat.Assistant, ToolCalls: []chat.ToolCall{{Name: "f", Arguments: `{"b": 1`}}}}
	for _, c := range []struct {
		messages   []chat.Message
		tools      []chat.Tool
		args       map[string]any
		want, fail string
	}{
		{call, nil, map[string]any{"x": map[string]any{"b": 1, "a": 2.5}}, "null{'a': 2.5, 'b': 1}{'b': 1, 'a': [2]}", ""},
		{broken, []chat.Tool{{Name: "f", Description: "d", Parameters: []byte(`{"z": 1, "a": 2}`)}}, nil,
			`[{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"z": 1, "a": 2}}}]{"b": 1`, ""},
		{call, []chat.Tool{{Name: "f", Parameters: []byte(`{`)}}, nil, "", "tool f: its parameters are no JSON"},
		{call, nil, map[string]any{"x": func() {}}, "", "argument x"},
	} {
		got, err := p.Render(c.messages, c.tools, c.args)
		if got != c.want || (err == nil) != (c.fail == "") || err != nil && !strings.Contains(err.Error(), c.fail) {
			t.Errorf("%q, %v; want %q, %s", got, err, c.want, c.fail)
		}
	}
}
