package template

import (
	"slices"
	"strings"
)

// Style is how a model writes tool calls.
type Style string

// Styles lists those that are known.
func Styles() []Style { return []Style{Hermes, GLM, Mistral, Llama, QwenCode} }

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
