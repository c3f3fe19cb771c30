package template

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/template/jinja"
)

func lines(t *testing.T, path string, each func(line []byte)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<24)
	for s.Scan() {
		each(s.Bytes())
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
}

type wireTool struct{ Function chat.Tool }

func tools(w []wireTool) (out []chat.Tool) {
	for _, t := range w {
		out = append(out, t.Function)
	}
	return out
}

type wireMessage struct {
	chat.Message
	Calls []struct {
		ID       string
		Function struct {
			Name      string
			Arguments json.RawMessage
		}
	} `json:"tool_calls"`
}

func messages(w []wireMessage) (out []chat.Message) {
	for _, m := range w {
		for _, c := range m.Calls {
			m.ToolCalls = append(m.ToolCalls, chat.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: string(c.Function.Arguments)})
		}
		out = append(out, m.Message)
	}
	return out
}

var special = map[string]string{"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}

// TestRenders: whole templates over conversations, byte for byte what transformers'
// apply_chat_template makes of them.
func TestRenders(t *testing.T) {
	parsed := map[string]*Template{}
	n, refused := 0, 0
	lines(t, "testdata/rendered.jsonl", func(line []byte) {
		var c struct {
			Template, Case, Error string
			Messages              []wireMessage
			Tools                 []wireTool
			Args                  map[string]any
			Want                  *string
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		p := parsed[c.Template]
		if p == nil {
			text, err := os.ReadFile(filepath.Join("testdata/templates", c.Template))
			if err != nil {
				t.Fatal(err)
			}
			if p, err = Parse(string(text), special); err != nil {
				t.Fatalf("%s: %v", c.Template, err)
			}
			parsed[c.Template] = p
		}
		n++
		got, err := p.Render(messages(c.Messages), tools(c.Tools), c.Args)
		switch {
		case c.Want == nil:
			refused++
			var raised *jinja.Raised
			if !errors.As(err, &raised) || !strings.HasSuffix(c.Error, raised.Message) {
				t.Errorf("%s, %s: %v, want %s", c.Template, c.Case, err, c.Error)
			}
		case err != nil:
			t.Errorf("%s, %s: %v", c.Template, c.Case, err)
		case got != *c.Want:
			t.Errorf("%s, %s:\n got %q\nwant %q", c.Template, c.Case, got, *c.Want)
		}
	})
	if n != 70 || refused != 3 {
		t.Errorf("%d renderings, %d of them refused", n, refused)
	}
}

// TestCallsAsVLLM: what vLLM's parsers take for calls is taken, with arguments of the
// same value; where they differ on purpose is listed.
func TestCallsAsVLLM(t *testing.T) {
	ours := map[string]string{ // the content that stays here, where vLLM's does not
		"[TOOL_CALLS]nothing":                           "[TOOL_CALLS]nothing", // vLLM drops the marker
		`[TOOL_CALLS][{"name": "f"`:                     `[TOOL_CALLS][{"name": "f"`,
		"[TOOL_CALLS]":                                  "[TOOL_CALLS]",
		"<tool_call>\n<function=f>\n<parameter=s>\ncut": "<tool_call>\n<function=f>\n<parameter=s>\ncut", // vLLM calls f with what came
	}
	var offered []chat.Tool
	n := 0
	lines(t, "testdata/calls.jsonl", func(line []byte) {
		var c struct {
			Tools         []wireTool
			Style         Style
			Text, Content string
			Calls         []chat.ToolCall
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		if c.Tools != nil {
			offered = tools(c.Tools)
			return
		}
		n++
		content, calls := c.Style.CallsOf(c.Text, offered)
		if stays, ok := ours[c.Text]; ok {
			if content != stays || calls != nil || c.Style.Malformed(c.Text) == "" {
				t.Errorf("%s %q: %q, %v", c.Style, c.Text, content, calls)
			}
			return
		}
		if content != c.Content || len(calls) != len(c.Calls) {
			t.Errorf("%s %q: content %q, %d calls, want %q, %d", c.Style, c.Text, content, len(calls), c.Content, len(c.Calls))
			return
		}
		begun := strings.Contains(c.Text, "tool_call>") || strings.HasPrefix(strings.TrimSpace(c.Text), `{"`)
		if bad := c.Style.Malformed(c.Text); (bad != "") != (len(calls) == 0 && begun) {
			t.Errorf("%s %q: malformed %q", c.Style, c.Text, bad)
		}
		for i, want := range c.Calls {
			if calls[i].Name != want.Name || canonical(t, calls[i].Arguments) != canonical(t, want.Arguments) {
				t.Errorf("%s %q: call %d is %s%s, want %s%s", c.Style, c.Text, i, calls[i].Name, calls[i].Arguments, want.Name, want.Arguments)
			}
		}
	})
	if n < 50 {
		t.Errorf("%d texts", n)
	}
}

func canonical(t *testing.T, text string) string {
	t.Helper()
	v, err := jinja.FromJSON([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	s, err := jinja.ToJSON(v)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
