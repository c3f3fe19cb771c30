package template

import (
	"encoding/json"
	"fmt"
	"time"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/template/jinja"
)

// Template is a parsed chat template. It may be used from many goroutines.
type Template struct {
	text    string
	parsed  *jinja.Template
	tool    *Template         // for conversations with tools; nil: the same
	special map[string]string // bos_token and others
	style   Style
	now     func() time.Time
}

// Parse reads a chat template in Jinja's language. special are the texts of
// bos_token, eos_token and so on, which templates name.
func Parse(text string, special map[string]string) (*Template, error) {
	p, err := jinja.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	t := &Template{text: text, parsed: p, special: special, now: time.Now}
	t.style = detect(text, nil)
	return t, nil
}

// Text is the template itself.
func (t *Template) Text() string { return t.text }

// Style is that of the model, by what its template and its special tokens show.
func (t *Template) Style() Style { return t.style }

// Render is the prompt of a conversation, up to where the model goes on; with
// add_generation_prompt false in args, up to the end of its last message. args are
// other variables of the template. A conversation that the template itself refuses is
// an error that wraps *jinja.Raised.
func (t *Template) Render(messages []chat.Message, tools []chat.Tool, args map[string]any) (string, error) {
	if len(tools) > 0 && t.tool != nil {
		t = t.tool
	}
	vars := map[string]any{"add_generation_prompt": true, "documents": nil, "tools": nil}
	for k, v := range t.special {
		vars[k] = v
	}
	for k, v := range args {
		x, err := jinja.From(v)
		if err != nil {
			return "", fmt.Errorf("chat template: argument %s: %w", k, err)
		}
		vars[k] = x
	}
	list := jinja.NewList()
	for _, m := range messages {
		list.Items = append(list.Items, message(m))
	}
	vars["messages"] = list
	if len(tools) > 0 {
		list := jinja.NewList()
		for _, tool := range tools {
			v, err := function(tool)
			if err != nil {
				return "", err
			}
			list.Items = append(list.Items, v)
		}
		vars["tools"] = list
	}
	text, err := t.parsed.Render(vars, t.now)
	if err != nil {
		return "", fmt.Errorf("chat template: %w", err)
	}
	return text, nil
}

// message is what templates see of a message: arguments of calls as mappings where
// they are JSON objects, as servers give them.
func message(m chat.Message) *jinja.Dict {
	d := jinja.NewDict().Set("role", m.Role).Set("content", m.Content)
	if m.Name != "" {
		d.Set("name", m.Name)
	}
	if m.ToolCallID != "" {
		d.Set("tool_call_id", m.ToolCallID)
	}
	if len(m.ToolCalls) > 0 {
		calls := jinja.NewList()
		for _, c := range m.ToolCalls {
			var arguments any = c.Arguments
			if v, err := jinja.FromJSON([]byte(c.Arguments)); err == nil {
				if o, ok := v.(*jinja.Dict); ok {
					arguments = o
				}
			}
			f := jinja.NewDict().Set("name", c.Name).Set("arguments", arguments)
			calls.Items = append(calls.Items, jinja.NewDict().Set("id", c.ID).Set("type", "function").Set("function", f))
		}
		d.Set("tool_calls", calls)
	}
	if m.Reasoning != "" {
		d.Set("reasoning_content", m.Reasoning)
	}
	return d
}

func function(t chat.Tool) (*jinja.Dict, error) {
	f := jinja.NewDict().Set("name", t.Name)
	if t.Description != "" {
		f.Set("description", t.Description)
	}
	if len(t.Parameters) > 0 {
		if !json.Valid(t.Parameters) {
			return nil, fmt.Errorf("tool %s: its parameters are no JSON", t.Name)
		}
		p, err := jinja.FromJSON(t.Parameters)
		if err != nil {
			return nil, fmt.Errorf("tool %s: its parameters: %w", t.Name, err)
		}
		f.Set("parameters", p)
	}
	return jinja.NewDict().Set("type", "function").Set("function", f), nil
}
