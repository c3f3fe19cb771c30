package template

import (
	"slices"
	"strings"

	"quantscope/analysis/gates/chat"
)

// Style is how a model writes tool calls.
type Style string

// Styles of calls.
const (
	NoCalls  Style = ""
	Hermes   Style = "hermes"   // <tool_call>{"name": …, "arguments": …}</tool_call>
	GLM      Style = "glm"      // <tool_call>name <arg_key>…</arg_key><arg_value>…</arg_value></tool_call>
	Mistral  Style = "mistral"  // [TOOL_CALLS][{…}]
	Llama    Style = "llama"    // {"name": …, "parameters": …}
	QwenCode Style = "qwencode" // <tool_call><function=name><parameter=…>…
)

// detect goes by what a template shows the model of calls, and where it shows
// nothing by the markers among the special tokens.
func detect(text string, special []string) Style {
	has := func(parts ...string) bool {
		for _, p := range parts {
			if !strings.Contains(text, p) {
				return false
			}
		}
		return true
	}
	switch {
	case has("<arg_key>", "<arg_value>"):
		return GLM
	case has("<function=", "<parameter="):
		return QwenCode
	case has("[TOOL_CALLS]"):
		return Mistral
	case has("<tool_call>"):
		return Hermes
	case has("<|python_tag|>") || has(`"parameters"`, "ipython") || has(`{"name": function name, "parameters"`):
		return Llama
	}
	for _, m := range []struct {
		token string
		style Style
	}{{"<arg_key>", GLM}, {"[TOOL_CALLS]", Mistral}, {"<tool_call>", Hermes}, {"<|python_tag|>", Llama}} {
		if slices.Contains(special, m.token) {
			return m.style
		}
	}
	return NoCalls
}

// Calls takes the calls out of a text. What is left of it is content.
func (s Style) Calls(text string) (content string, calls []chat.ToolCall) { return text, nil }

// Malformed says what in a text was begun as a call and is none; "" where nothing was.
func (s Style) Malformed(text string) string { return "" }
