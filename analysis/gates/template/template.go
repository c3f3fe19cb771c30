package template

import (
	"errors"

	"quantscope/analysis/gates/chat"
)

// Template is a parsed chat template. It may be used from many goroutines.
type Template struct{}

// Parse reads a chat template in Jinja's language. special are the texts of
// bos_token, eos_token and so on, which templates name.
func Parse(text string, special map[string]string) (*Template, error) {
	return nil, errors.New("template: not there")
}

// FromFiles finds the chat template of a checkpoint: chat_template.jinja, then
// chat_template.json, then tokenizer_config.json, in which a list has the named one
// default (and tool_use, where tools are given). read gives a side file, or false.
func FromFiles(read func(name string) ([]byte, bool)) (*Template, error) {
	return nil, errors.New("template: not there")
}

// Render is the prompt of a conversation, up to where the model goes on.
func (t *Template) Render(messages []chat.Message, tools []chat.Tool, args map[string]any) (string, error) {
	return "", errors.New("template: not there")
}

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

// Style is that of the model, by what its template and its special tokens show.
func (t *Template) Style() Style { return NoCalls }

// Calls takes the calls out of a text. What is left of it is content.
func (s Style) Calls(text string) (content string, calls []chat.ToolCall) { return text, nil }

// Malformed says what in a text was begun as a call and is none; "" where nothing was.
func (s Style) Malformed(text string) string { return "" }
