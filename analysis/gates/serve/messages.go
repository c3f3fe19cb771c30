package serve

import (
	"encoding/json"
	"fmt"
	"strings"

	"quantscope/analysis/gates/chat"
)

// Bounds of a conversation.
const (
	maxMessages = 4096
	maxTools    = 512
)

// messages takes the conversation.
func (b *body) messages() []chat.Message {
	list, ok := take[[]json.RawMessage](b, "messages", "a list of messages")
	switch {
	case !ok:
		b.fail(bad("messages", "messages are missing"))
	case len(list) == 0 || len(list) > maxMessages:
		b.fail(bad("messages", "there are %d messages: want 1 to %d", len(list), maxMessages))
		return nil
	}
	var out []chat.Message
	for i, raw := range list {
		at := fmt.Sprintf("messages[%d]", i)
		inner, err := parseBody(raw)
		if err != nil {
			b.fail(bad(at, "%s is no object", at))
			return nil
		}
		m := inner.message()
		if err := inner.end(neutralMessage); err != nil {
			err.Message, err.Param = at+": "+err.Message, at+"."+err.Param
			b.fail(err)
			return nil
		}
		out = append(out, m)
	}
	return out
}

// neutralMessage are fields of messages that are taken only where they say nothing.
var neutralMessage = map[string][]string{
	"refusal": {`""`}, "annotations": {"[]"}, "audio": {}, "function_call": {},
}

// message takes the fields of one message.
func (b *body) message() chat.Message {
	var m chat.Message
	m.Role, _ = take[string](b, "role", "a text")
	switch m.Role {
	case chat.System, chat.User, chat.Assistant, chat.ToolRole:
	case "developer": // what newer clients call the system's
		m.Role = chat.System
	default:
		b.fail(bad("role", "role is %q, none of system, developer, user, assistant, tool", shorten(m.Role)))
	}
	content := b.content(&m)
	m.Name, _ = take[string](b, "name", "a text")
	m.Reasoning, _ = take[string](b, "reasoning_content", "a text")
	if r, ok := take[string](b, "reasoning", "a text"); ok {
		m.Reasoning = r
	}
	m.ToolCallID, _ = take[string](b, "tool_call_id", "a text")
	m.ToolCalls = b.toolCalls()
	switch {
	case len(m.ToolCalls) > 0 && m.Role != chat.Assistant:
		b.fail(bad("tool_calls", "tool_calls are the assistant's, not the %s's", m.Role))
	case m.ToolCallID != "" && m.Role != chat.ToolRole:
		b.fail(bad("tool_call_id", "tool_call_id is of a tool's message, not of the %s's", m.Role))
	case !content && m.Role != chat.Assistant:
		b.fail(bad("content", "content is missing"))
	}
	return m
}

// content takes a text, or parts that are texts, which are lines then.
func (b *body) content(m *chat.Message) bool {
	raw, ok := b.raw("content")
	if !ok {
		return false
	}
	if json.Unmarshal(raw, &m.Content) == nil {
		return true
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		b.fail(bad("content", "content is neither a text nor a list of parts"))
		return true
	}
	var lines []string
	for i, p := range parts {
		if p.Type != "text" || p.Text == nil {
			b.fail(bad("content", "part %d of the content is %q, and only text is taken", i, shorten(p.Type)))
			return true
		}
		lines = append(lines, *p.Text)
	}
	m.Content = strings.Join(lines, "\n")
	return true
}

// wireCall is a call as OpenAI writes it.
type wireCall struct {
	Index    *int         `json:"index,omitempty"` // of streams
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// toolCalls takes calls that the model made before.
func (b *body) toolCalls() []chat.ToolCall {
	list, _ := take[[]wireCall](b, "tool_calls", "a list of calls")
	var out []chat.ToolCall
	for i, c := range list {
		if c.Function.Name == "" || (c.Type != "function" && c.Type != "") {
			b.fail(bad("tool_calls", "call %d is no function with a name", i))
			return nil
		}
		out = append(out, chat.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	return out
}

// tools takes the functions that the model may call, none where it may not. What the
// model must call cannot be promised without constrained decoding, and is refused.
func (b *body) tools() []chat.Tool {
	list, _ := take[[]json.RawMessage](b, "tools", "a list of tools")
	if len(list) > maxTools {
		b.fail(bad("tools", "there are %d tools, and at most %d are taken", len(list), maxTools))
		return nil
	}
	var out []chat.Tool
	for i, raw := range list {
		t, err := oneTool(raw)
		if err != nil {
			at := fmt.Sprintf("tools[%d]", i)
			err.Message, err.Param = at+": "+err.Message, at
			b.fail(err)
			return nil
		}
		out = append(out, t)
	}
	switch b.choice(len(out)) {
	case "none":
		return nil
	default:
		return out
	}
}

// choice takes tool_choice: auto or none.
func (b *body) choice(tools int) string {
	raw, ok := b.raw("tool_choice")
	if !ok {
		return "auto"
	}
	switch v := compact(raw); {
	case v == `"none"`:
		return "none"
	case tools == 0:
		b.fail(bad("tool_choice", "tool_choice is given, and tools are not"))
	case v == `"auto"`:
	default:
		b.fail(bad("tool_choice", "tool_choice %s is not supported: a call cannot be forced here; known are auto and none", shorten(v)))
	}
	return "auto"
}

// oneTool reads a function.
func oneTool(raw json.RawMessage) (chat.Tool, *apiError) {
	var t chat.Tool
	outer, err := parseBody(raw)
	if err != nil {
		return t, bad("", "is no object")
	}
	kind, given := take[string](outer, "type", "a text")
	if given && kind != "function" {
		return t, bad("", "its type is %q, and only functions are taken", shorten(kind))
	}
	inner, ok := outer.raw("function")
	if !ok {
		return t, bad("", "has no function")
	}
	if err := outer.end(nil); err != nil {
		return t, err
	}
	f, err := parseBody(inner)
	if err != nil {
		return t, bad("", "its function is no object")
	}
	t.Name, _ = take[string](f, "name", "a text")
	t.Description, _ = take[string](f, "description", "a text")
	if t.Parameters, ok = f.raw("parameters"); ok {
		var schema map[string]any
		if json.Unmarshal(t.Parameters, &schema) != nil {
			return t, bad("", "its parameters are no JSON schema")
		}
	}
	if err := f.end(map[string][]string{"strict": {"false"}}); err != nil {
		return t, err
	}
	if t.Name == "" {
		return t, bad("", "has no name")
	}
	return t, nil
}
