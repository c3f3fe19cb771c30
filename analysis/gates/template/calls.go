package template

import (
	"encoding/json"
	"fmt"
	"strings"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/template/jinja"
)

// span is a part of a text that a model began as calls.
type span struct {
	from, to int // in bytes
	calls    []chat.ToolCall
	bad      string // why it is none
}

// Calls takes the calls out of a text. What is left of it is content: text before,
// between and after calls, and whatever was begun as one and is none, whole; white
// space between and after calls goes. Arguments of JSON are as the model wrote them;
// arguments that are tagged one by one become a JSON object.
func (s Style) Calls(text string) (content string, calls []chat.ToolCall) {
	return s.CallsOf(text, nil)
}

// CallsOf is Calls with the tools that were offered, whose schemas say of GLM's and
// Qwen's tagged arguments which are text and which are numbers or others. Without
// them GLM's arguments are what they read as, Qwen's are text.
func (s Style) CallsOf(text string, tools []chat.Tool) (content string, calls []chat.ToolCall) {
	var rest strings.Builder
	at := 0
	for _, p := range s.spans(text, tools) {
		if p.bad != "" {
			continue
		}
		keep(&rest, text[at:p.from], len(calls) > 0)
		calls = append(calls, p.calls...)
		at = p.to
	}
	if len(calls) == 0 {
		return text, nil
	}
	keep(&rest, text[at:], true)
	if content = rest.String(); strings.TrimSpace(content) == "" {
		content = ""
	}
	return content, calls
}

func keep(to *strings.Builder, part string, afterCall bool) {
	if !afterCall || strings.TrimSpace(part) != "" {
		to.WriteString(part)
	}
}

// Malformed says what in a text was begun as a call and is none; "" where nothing was.
func (s Style) Malformed(text string) string {
	for _, p := range s.spans(text, nil) {
		if p.bad != "" {
			return fmt.Sprintf("a call at byte %d: %s", p.from, p.bad)
		}
	}
	return ""
}

func (s Style) spans(text string, tools []chat.Tool) []span {
	switch s {
	case Hermes:
		return tagged(text, hermesCall)
	case GLM:
		return tagged(text, func(rest string) (span, int) { return glmCall(rest, tools) })
	case QwenCode:
		return qwenSpans(text, tools)
	case Mistral:
		return mistralSpans(text)
	case Llama:
		return llamaSpans(text)
	}
	return nil
}

const (
	callStart = "<tool_call>"
	callEnd   = "</tool_call>"
)

// tagged finds calls between <tool_call> and </tool_call>. one is given what follows
// the first and says what it is and how many bytes it takes, the second included.
func tagged(text string, one func(rest string) (span, int)) []span {
	var out []span
	for at := 0; ; {
		i := strings.Index(text[at:], callStart)
		if j := strings.Index(text[at:], callEnd); j >= 0 && (i < 0 || j < i) {
			out = append(out, span{from: at + j, to: at + j + len(callEnd), bad: callEnd + " has no beginning"})
			at += j + len(callEnd)
			continue
		}
		if i < 0 {
			return out
		}
		from := at + i
		body := from + len(callStart)
		s, n := one(text[body:])
		s.from, s.to = from, body+n
		out = append(out, s)
		at = s.to
	}
}

// upTo is the length of a broken call: to its end tag, else to the next beginning,
// else all.
func upTo(rest string) int {
	i, j := strings.Index(rest, callEnd), strings.Index(rest, callStart)
	switch {
	case i >= 0 && (j < 0 || i < j):
		return i + len(callEnd)
	case j >= 0:
		return j
	}
	return len(rest)
}

// hermesCall is a JSON object with name and arguments. The end tag may lack at the
// end of the text.
func hermesCall(rest string) (span, int) {
	lead := len(rest) - len(strings.TrimLeft(rest, jsonSpace))
	n, why := objectEnd(rest[lead:])
	if why != "" {
		return span{bad: why}, upTo(rest)
	}
	end := lead + n
	tail := strings.TrimLeft(rest[end:], jsonSpace)
	taken := len(rest) - len(tail)
	switch {
	case strings.HasPrefix(tail, callEnd):
		taken += len(callEnd)
	case tail != "":
		return span{bad: "something follows its JSON"}, upTo(rest)
	}
	c, why := objectCall(rest[lead:end])
	if why != "" {
		return span{bad: why}, taken
	}
	return span{calls: []chat.ToolCall{c}}, taken
}

const jsonSpace = " \t\r\n"

// objectEnd is the length of the JSON object that a text begins with, or why it is
// none.
func objectEnd(s string) (int, string) { return valueEnd(s, '{', '}', "object") }

func valueEnd(s string, open, end byte, what string) (int, string) {
	if s == "" || s[0] != open {
		return 0, "no JSON " + what + " follows"
	}
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth > 0 {
				continue
			}
			if c != end || !json.Valid([]byte(s[:i+1])) {
				return 0, "its JSON is not valid"
			}
			return i + 1, ""
		}
	}
	return 0, "its JSON is cut off"
}

// objectCall reads {"name": …, "arguments": {…}}; parameters is another word for
// arguments.
func objectCall(text string) (chat.ToolCall, string) {
	var o struct {
		Name       *string         `json:"name"`
		ID         any             `json:"id"`
		Arguments  json.RawMessage `json:"arguments"`
		Parameters json.RawMessage `json:"parameters"`
	}
	if err := json.Unmarshal([]byte(text), &o); err != nil || o.Name == nil {
		return chat.ToolCall{}, "it has no name"
	}
	if *o.Name == "" {
		return chat.ToolCall{}, "its name is empty"
	}
	a := o.Arguments
	if a == nil {
		a = o.Parameters
	}
	if len(a) == 0 {
		return chat.ToolCall{}, "it has no arguments"
	}
	if a[0] != '{' {
		return chat.ToolCall{}, "its arguments are no JSON object"
	}
	c := chat.ToolCall{Name: *o.Name, Arguments: string(a)}
	if id, ok := o.ID.(string); ok {
		c.ID = id
	}
	return c, ""
}

const (
	keyStart, keyEnd     = "<arg_key>", "</arg_key>"
	valueStart, valueTag = "<arg_value>", "</arg_value>"
)

// glmCall is a name and pairs of keys and values in tags.
func glmCall(rest string, tools []chat.Tool) (span, int) {
	end := strings.Index(rest, callEnd)
	if next := strings.Index(rest, callStart); end < 0 || next >= 0 && next < end {
		return span{bad: "it has no end"}, upTo(rest)
	}
	body, taken := rest[:end], end+len(callEnd)
	name, pairs := body, ""
	if i := strings.Index(body, keyStart); i >= 0 {
		name, pairs = body[:i], body[i:]
	}
	if name = strings.TrimSpace(name); name == "" || strings.ContainsAny(name, "\n<>{}") {
		return span{bad: "it has no name"}, taken
	}
	schema := properties(tools, name)
	args := jinja.NewDict()
	for pairs = strings.TrimSpace(pairs); pairs != ""; pairs = strings.TrimSpace(pairs) {
		key, ok1 := cutTag(&pairs, keyStart, keyEnd)
		pairs = strings.TrimSpace(pairs)
		value, ok2 := cutTag(&pairs, valueStart, valueTag)
		if !ok1 || !ok2 {
			return span{bad: "its arguments are not pairs of " + keyStart + " and " + valueStart}, taken
		}
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if kindOf(schema, key) == "string" {
			args.Set(key, value)
			continue
		}
		args.Set(key, read(value))
	}
	return madeCall(name, args), taken
}

func cutTag(s *string, start, end string) (string, bool) {
	rest, ok := strings.CutPrefix(*s, start)
	if !ok {
		return "", false
	}
	inner, rest, ok := strings.Cut(rest, end)
	*s = rest
	return inner, ok
}

// read is what a value reads as: JSON, or one of Python's words, or text.
func read(s string) any {
	if v, err := jinja.FromJSON([]byte(s)); err == nil {
		return v
	}
	switch s {
	case "True":
		return true
	case "False":
		return false
	case "None":
		return nil
	}
	return s
}

func madeCall(name string, args *jinja.Dict) span {
	text, err := jinja.ToJSON(args)
	if err != nil {
		return span{bad: err.Error()}
	}
	return span{calls: []chat.ToolCall{{Name: name, Arguments: text}}}
}
