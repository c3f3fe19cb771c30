package template

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/template/jinja"
)

const (
	functionStart, functionEnd = "<function=", "</function>"
	parameterStart             = "<parameter="
	parameterEnd               = "</parameter>"
)

// qwenSpans finds functions with tagged parameters, in <tool_call> tags or, as its
// models also write them, without.
func qwenSpans(text string, tools []chat.Tool) []span {
	if strings.Contains(text, callStart) {
		return tagged(text, func(rest string) (span, int) {
			t := strings.TrimLeft(rest, jsonSpace)
			lead := len(rest) - len(t)
			s, n := qwenCall(t, tools)
			if s.bad != "" {
				return s, upTo(rest)
			}
			tail := strings.TrimLeft(t[n:], jsonSpace)
			end := lead + len(t) - len(tail)
			switch {
			case strings.HasPrefix(tail, callEnd):
				return s, end + len(callEnd)
			case tail != "":
				return span{bad: "something follows its function"}, upTo(rest)
			}
			return s, end
		})
	}
	var out []span
	for at := 0; ; {
		i := strings.Index(text[at:], functionStart)
		if i < 0 {
			return out
		}
		from := at + i
		s, n := qwenCall(text[from:], tools)
		if s.bad != "" {
			n = len(functionStart)
			if j := strings.Index(text[from+n:], functionStart); j >= 0 {
				n += j
			} else {
				n = len(text) - from
			}
		}
		s.from, s.to = from, from+n
		out = append(out, s)
		at = s.to
	}
}

// qwenCall reads <function=name> parameters </function> at the start of a text.
func qwenCall(text string, tools []chat.Tool) (span, int) {
	rest, ok := strings.CutPrefix(text, functionStart)
	if !ok {
		return span{bad: "no " + functionStart + " follows"}, 0
	}
	name, rest, ok := strings.Cut(rest, ">")
	if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(name, "\n<") {
		return span{bad: "it has no name"}, 0
	}
	schema := properties(tools, name)
	args := jinja.NewDict()
	for {
		rest = strings.TrimLeft(rest, jsonSpace)
		if after, ok := strings.CutPrefix(rest, functionEnd); ok {
			return madeCall(name, args), len(text) - len(after)
		}
		after, ok := strings.CutPrefix(rest, parameterStart)
		if !ok {
			return span{bad: "it has no " + functionEnd}, 0
		}
		key, after, ok := strings.Cut(after, ">")
		if !ok || strings.ContainsAny(key, "\n<") {
			return span{bad: "a parameter has no name"}, 0
		}
		value, next, ok := parameterValue(after)
		if !ok {
			return span{bad: "parameter " + key + " is cut off"}, 0
		}
		args.Set(key, typed(value, key, schema))
		rest = next
	}
}

// parameterValue goes to its end tag, or where that lacks to the next parameter or
// the function's end; a line end at either side is not part of it.
func parameterValue(s string) (value, rest string, ok bool) {
	end, taken := -1, 0
	for _, tag := range []string{parameterEnd, parameterStart, functionEnd} {
		if i := strings.Index(s, tag); i >= 0 && (end < 0 || i < end) {
			if end, taken = i, 0; tag == parameterEnd {
				taken = len(tag)
			}
		}
	}
	if end < 0 {
		return "", "", false
	}
	value = strings.TrimSuffix(strings.TrimPrefix(s[:end], "\n"), "\n")
	return value, s[end+taken:], true
}

// properties are the schemas of a tool's parameters, nil where it is not known.
func properties(tools []chat.Tool, name string) map[string]json.RawMessage {
	for _, t := range tools {
		if t.Name != name {
			continue
		}
		var p struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if json.Unmarshal(t.Parameters, &p) == nil {
			return p.Properties
		}
	}
	return nil
}

func kindOf(schema map[string]json.RawMessage, key string) string {
	var p struct {
		Type  any   `json:"type"`
		AnyOf []any `json:"anyOf"`
	}
	if json.Unmarshal(schema[key], &p) != nil {
		return ""
	}
	if s, ok := p.Type.(string); ok {
		return strings.ToLower(strings.TrimSpace(s))
	}
	if p.AnyOf != nil {
		return "object"
	}
	return "string"
}

// typed is the value of a parameter as its schema has it; text where it has none, or
// where the value is no such thing.
func typed(value, key string, schema map[string]json.RawMessage) any {
	if strings.EqualFold(value, "null") {
		return nil
	}
	if _, ok := schema[key]; !ok {
		return value
	}
	kind := kindOf(schema, key)
	begins := func(words ...string) bool {
		for _, w := range words {
			if strings.HasPrefix(kind, w) {
				return true
			}
		}
		return false
	}
	switch {
	case kind == "string" || kind == "str" || kind == "text" || kind == "varchar" || kind == "char" || kind == "enum":
		return value
	case begins("int", "uint", "long", "short", "unsigned"):
		if i, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil {
			return i
		}
		return value
	case begins("num", "float"):
		f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		switch {
		case err != nil || math.IsInf(f, 0) || math.IsNaN(f):
			return value
		case f == math.Trunc(f) && math.Abs(f) < 1<<53:
			return int64(f)
		}
		return f
	case kind == "boolean" || kind == "bool" || kind == "binary":
		return strings.EqualFold(value, "true")
	}
	return read(value)
}

const toolCalls = "[TOOL_CALLS]"

// mistralSpans finds a list of calls after the marker, or as newer models write it a
// name and an object after each.
func mistralSpans(text string) []span {
	var out []span
	for at := 0; ; {
		i := strings.Index(text[at:], toolCalls)
		if i < 0 {
			return out
		}
		from := at + i
		body := from + len(toolCalls)
		end := len(text)
		if j := strings.Index(text[body:], toolCalls); j >= 0 {
			end = body + j
		}
		s, n := mistralCalls(text[body:end])
		s.from, s.to = from, body+n
		if s.bad != "" {
			s.to = end
		}
		out = append(out, s)
		at = s.to
	}
}

func mistralCalls(rest string) (span, int) {
	t := strings.TrimLeft(rest, jsonSpace)
	lead := len(rest) - len(t)
	if strings.HasPrefix(t, "[{") || strings.HasPrefix(t, "[ ") || strings.HasPrefix(t, "[\n") {
		n, why := valueEnd(t, '[', ']', "list")
		if why != "" {
			return span{bad: why}, 0
		}
		var list []json.RawMessage
		if json.Unmarshal([]byte(t[:n]), &list) != nil || len(list) == 0 {
			return span{bad: "its list holds no call"}, 0
		}
		var s span
		for _, o := range list {
			c, why := objectCall(string(o))
			if why != "" {
				return span{bad: why}, 0
			}
			s.calls = append(s.calls, c)
		}
		return s, lead + n
	}
	open := strings.IndexByte(t, '{')
	if open < 0 {
		return span{bad: "no JSON object follows"}, 0
	}
	name, _, _ := strings.Cut(t[:open], "[ARGS]")
	name, id, _ := strings.Cut(name, "[CALL_ID]")
	if name = strings.TrimSpace(name); name == "" || strings.ContainsAny(name, "\n[]") {
		return span{bad: "it has no name"}, 0
	}
	n, why := objectEnd(t[open:])
	if why != "" {
		return span{bad: why}, 0
	}
	c := chat.ToolCall{ID: strings.TrimSpace(id), Name: name, Arguments: t[open : open+n]}
	return span{calls: []chat.ToolCall{c}}, lead + open + n
}

const pythonTag = "<|python_tag|>"

// maxTries bounds braces that are looked at and begin no call.
const maxTries = 1000

// llamaSpans finds JSON objects with a name and parameters, anywhere in a text; the
// marker before them, and semicolons between, go with them.
func llamaSpans(text string) []span {
	var out []span
	begun := func(at int) bool {
		before := strings.TrimRight(text[:at], jsonSpace)
		key := strings.TrimLeft(text[at+1:], jsonSpace)
		return strings.HasSuffix(before, pythonTag) || strings.HasPrefix(key, `"name"`) || strings.HasPrefix(key, `"function"`)
	}
	for at, tries := 0, 0; tries < maxTries; {
		i := strings.IndexByte(text[at:], '{')
		if i < 0 {
			break
		}
		from := at + i
		n, why := objectEnd(text[from:])
		var c chat.ToolCall
		if why == "" {
			c, why = objectCall(text[from : from+n])
		} else {
			n = 1
		}
		if why != "" {
			tries++
			if begun(from) {
				out = append(out, span{from: from, to: from + n, bad: why})
			}
			at = from + n
			continue
		}
		s := span{from: from, to: from + n, calls: []chat.ToolCall{c}}
		before := strings.TrimRight(text[:from], jsonSpace)
		if b, ok := strings.CutSuffix(before, pythonTag); ok && len(b) >= at {
			s.from = len(b)
		} else if b, ok := strings.CutSuffix(before, ";"); ok && len(b) >= at && len(out) > 0 && out[len(out)-1].to == len(strings.TrimRight(b, jsonSpace)) {
			s.from = out[len(out)-1].to
		}
		out = append(out, s)
		at = s.to
	}
	if i := strings.Index(text, pythonTag); i >= 0 && len(out) == 0 && !strings.Contains(text[i:], "{") {
		out = append(out, span{from: i, to: len(text), bad: "no JSON object follows"})
	}
	return out
}
