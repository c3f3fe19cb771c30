package template

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestBrokenCallStays: of several calls the broken one stays in the content, whole,
// and the others are taken.
func TestBrokenCallStays(t *testing.T) {
	good := `<tool_call>{"name": "f", "arguments": {"city": "서울"}}</tool_call>`
	for _, c := range []struct{ bad, why string }{
		{`<tool_call>{"name": "f", "arguments": {"a": </tool_call>`, "its JSON is cut off"},
		{`<tool_call>{"name": "f", "arguments": {"a": }}</tool_call>`, "its JSON is not valid"},
		{`<tool_call>f(1)</tool_call>`, "no JSON object follows"},
		{`<tool_call>{"name": "", "arguments": {}}</tool_call>`, "its name is empty"},
		{`<tool_call>{"name": 5, "arguments": {}}</tool_call>`, "it has no name"},
		{`<tool_call>{"name": "f", "arguments": [1]}</tool_call>`, "its arguments are no JSON object"},
		{`<tool_call>{"name": "f", "arguments": "{}"}</tool_call>`, "its arguments are no JSON object"},
		{`<tool_call>{"name": "f"}</tool_call>`, "it has no arguments"},
		{`<tool_call>{"name": "f", "arguments": {}} and more</tool_call>`, "something follows its JSON"},
		{`</tool_call>`, "</tool_call> has no beginning"},
	} {
		for _, order := range [][2]string{{good, c.bad}, {c.bad, good}} {
			content, calls := Hermes.Calls("Here: " + order[0] + "\n" + order[1])
			if len(calls) != 1 || calls[0].Name != "f" || calls[0].Arguments != `{"city": "서울"}` {
				t.Fatalf("%s: %v", c.bad, calls)
			}
			if strings.TrimSpace(strings.TrimPrefix(content, "Here: ")) != c.bad {
				t.Errorf("%s: content %q", c.bad, content)
			}
			if why := Hermes.Malformed(order[0] + "\n" + order[1]); !strings.Contains(why, c.why) {
				t.Errorf("%s: %q, want %q", c.bad, why, c.why)
			}
		}
	}
	if why := Hermes.Malformed(good); why != "" {
		t.Errorf("a good call is malformed: %s", why)
	}
	// An end tag within a text of its JSON is text.
	for _, args := range []string{`{"t": "a</tool_call>b"}`, `{"t": "\"}"}`, `{"t": "\\", "u": "{"}`} {
		content, calls := Hermes.Calls(`<tool_call>{"name": "f", "arguments": ` + args + `}</tool_call>`)
		if content != "" || len(calls) != 1 || calls[0].Arguments != args {
			t.Errorf("%s: %q, %v", args, content, calls)
		}
	}
}

// TestMistralForms: a list, names with objects, ids; text after a call stays.
func TestMistralForms(t *testing.T) {
	for _, c := range []struct{ text, content, want string }{
		{`[TOOL_CALLS]f{"a": 1}[TOOL_CALLS]g{"b": "é"}`, "", `f  {"a": 1};g  {"b": "é"}`},
		{`[TOOL_CALLS]f[ARGS]{"a": 1}`, "", `f  {"a": 1}`},
		{`[TOOL_CALLS]f[CALL_ID]abc123[ARGS]{"a": 1} bye`, " bye", `f abc123 {"a": 1}`},
		{`x [TOOL_CALLS][{"name": "f", "arguments": {}, "id": "9"}]`, "x ", `f 9 {}`},
		{`[TOOL_CALLS]f{"a": 1`, `[TOOL_CALLS]f{"a": 1`, ""},
	} {
		content, calls := Mistral.Calls(c.text)
		var got []string
		for _, k := range calls {
			got = append(got, k.Name+" "+k.ID+" "+k.Arguments)
		}
		if content != c.content || strings.Join(got, ";") != c.want {
			t.Errorf("%s: %q, %q", c.text, content, got)
		}
	}
}

// TestGLMWithoutLines: newer models put no line end after the name.
func TestGLMWithoutLines(t *testing.T) {
	_, calls := GLM.Calls("<tool_call>f<arg_key>a</arg_key><arg_value>x y</arg_value><arg_key>n</arg_key><arg_value>None</arg_value></tool_call><tool_call>now</tool_call>")
	if len(calls) != 2 || calls[0].Arguments != `{"a": "x y", "n": null}` || calls[1].Name != "now" || calls[1].Arguments != "{}" {
		t.Errorf("%v", calls)
	}
}

// TestStyles are told by templates, and by special tokens where a template shows
// nothing.
func TestStyles(t *testing.T) {
	for _, c := range []struct {
		text   string
		tokens []string
		want   Style
	}{
		{"{{ messages }}", nil, NoCalls},
		{"{{ messages }}", []string{"<s>", "<tool_call>", "</tool_call>"}, Hermes},
		{"{{ messages }}", []string{"[TOOL_CALLS]"}, Mistral},
		{"a <tool_call> b", []string{"[TOOL_CALLS]"}, Hermes},
		{"<tool_call>{{ n }}<arg_key>k</arg_key><arg_value>", nil, GLM},
		{"<tool_call><function=x><parameter=y>", nil, QwenCode},
		{"'[TOOL_CALLS]'", nil, Mistral},
		{`Environment: ipython {"name": function name, "parameters": dictionary}`, nil, Llama},
	} {
		if got := detect(c.text, c.tokens); got != c.want {
			t.Errorf("%s %v: %q, want %q", c.text, c.tokens, got, c.want)
		}
	}
}

// FuzzCalls: nothing panics, calls have names and objects for arguments, and what is
// neither call nor marker stays in the content.
func FuzzCalls(f *testing.F) {
	for _, s := range []string{
		`a <tool_call>{"name": "f", "arguments": {"c": "서울"}}</tool_call> b`, "<tool_call>f\n<arg_key>k</arg_key><arg_value>v</arg_value></tool_call>",
		`[TOOL_CALLS][{"name": "f", "arguments": {}}] x`, `x {"name": "f", "parameters": {"a": {}}}; {"name": "g", "arguments": {}} y`,
		"<tool_call><function=f><parameter=a>\n1\n</parameter></function></tool_call>", "{{{{<tool_call><tool_call></tool_call>", "\xff<tool_call>{\"name\":\"\xff\",\"arguments\":{}}",
		"<|python_tag|>", "[TOOL_CALLS]f{}[TOOL_CALLS]",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range Styles() {
			content, calls := s.Calls(text)
			s.Malformed(text)
			if len(calls) == 0 {
				if content != text {
					t.Fatalf("%s: without a call %q became %q", s, text, content)
				}
				continue
			}
			for _, c := range calls {
				if c.Name == "" || !json.Valid([]byte(c.Arguments)) || !strings.HasPrefix(c.Arguments, "{") {
					t.Fatalf("%s: %q: call %+v", s, text, c)
				}
			}
			spans := s.spans(text, nil)
			var kept strings.Builder
			at := 0
			for _, p := range spans {
				if p.from < at || p.to < p.from || p.to > len(text) || (p.bad == "") == (len(p.calls) == 0) {
					t.Fatalf("%s: %q: spans %+v", s, text, spans)
				}
				if p.bad == "" {
					kept.WriteString(text[at:p.from])
					at = p.to
				}
			}
			kept.WriteString(text[at:])
			if squeeze(kept.String()) != squeeze(content) {
				t.Fatalf("%s: %q: content %q, want %q", s, text, content, kept.String())
			}
		}
	})
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }
