package grade

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/template"
)

// styles in which calls are looked for, the ones with markers first.
var styles = []template.Style{template.Hermes, template.GLM, template.QwenCode, template.Mistral, template.Llama}

// callsIn takes calls out of a text that the server left whole.
func callsIn(text string, tools []chat.Tool) []chat.ToolCall {
	for _, s := range styles {
		if _, calls := s.CallsOf(text, tools); len(calls) > 0 {
			return calls
		}
	}
	return nil
}

// malformed says what a text began as a call and is none. Several styles share their
// markers, so a text that has calls in one of them is judged by that one.
func malformed(text string) string {
	for _, s := range styles {
		if _, calls := s.Calls(text); len(calls) > 0 {
			return s.Malformed(text)
		}
	}
	for _, s := range []template.Style{template.Hermes, template.Mistral} {
		if why := s.Malformed(text); why != "" {
			return why
		}
	}
	return ""
}

func (s *sheet) call() (finding, string) {
	return s.each(func(t *turn) (finding, string) {
		if t.want.Call == nil {
			return found(Erred, "no call is wanted"), ""
		}
		calls := t.reply.ToolCalls
		if len(calls) == 0 {
			calls = callsIn(t.text, s.c.Tools)
		}
		s.figures["calls"] += float64(len(calls))
		if why := malformed(t.text); why != "" {
			s.mark(t.i, [2]int{t.off, len(t.reply.Text)}, Malformed)
			return found(Malformed, "%s: %s", oneLine(why), quote(t.text)), ""
		}
		switch {
		case len(calls) == 0:
			return found(WrongAnswer, "no call: %s", quote(t.text)), ""
		case len(calls) > 1:
			return found(WrongAnswer, "%d calls, want one: %s and %s", len(calls), quote(calls[0].Name), quote(calls[1].Name)), ""
		}
		return s.calledAs(t, calls[0])
	})
}

func (s *sheet) calledAs(t *turn, c chat.ToolCall) (finding, string) {
	args, err := object(c.Arguments)
	switch want := t.want.Call; {
	case err != nil:
		s.figures["malformed"] = 1
		return found(Malformed, "arguments of %s: %v: %s", quote(c.Name), err, quote(c.Arguments)), ""
	case c.Name != want.Name:
		return found(WrongAnswer, "calls %s, want %s", quote(c.Name), quote(want.Name)), ""
	default:
		if why := unequal(args, want.Arguments); why != "" {
			return found(WrongAnswer, "%s: %s", c.Name, why), ""
		}
		return finding{}, fmt.Sprintf("calls %s with %s", c.Name, quote(c.Arguments))
	}
}

// object reads one JSON object and nothing after it; no text is an empty one.
func object(text string) (map[string]any, error) {
	if blank(text) {
		return map[string]any{}, nil
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	var v map[string]any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("no JSON object: %s", oneLine(err.Error()))
	}
	if v == nil {
		return nil, errors.New("null, not a JSON object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more after the JSON object")
	}
	return v, nil
}

// unequal says how arguments differ as JSON, "" where they do not. Numbers are equal
// by value.
func unequal(got, want map[string]any) string {
	for _, k := range keys(want) {
		v, ok := got[k]
		switch {
		case !ok:
			return "lacks " + quote(k)
		case !reflect.DeepEqual(plain(v), plain(want[k])):
			return fmt.Sprintf("%s is %s, want %s", quote(k), shown(v), shown(want[k]))
		}
	}
	for _, k := range keys(got) {
		if _, ok := want[k]; !ok {
			return "has " + quote(k) + ", which is not wanted"
		}
	}
	return ""
}

// plain makes numbers of any kind float64, as JSON's are.
func plain(v any) any {
	switch v := v.(type) {
	case int:
		return float64(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k := range v {
			out[k] = plain(v[k])
		}
		return out
	}
	return v
}

func shown(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "no JSON"
	}
	r := []rune(string(raw))
	if len(r) > quoted {
		return string(r[:quoted]) + "…"
	}
	return string(raw)
}

func keys(m map[string]any) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (s *sheet) json() (finding, string) {
	return s.each(func(t *turn) (finding, string) {
		text := fenced(t.text)
		v, err := object(text)
		if err != nil || blank(text) {
			s.figures["malformed"] = 1
			return found(Malformed, "no JSON object: %s", quote(t.text)), ""
		}
		for _, k := range t.want.All {
			if _, ok := v[k]; !ok {
				return found(WrongAnswer, "lacks the key %s: %s", quote(k), quote(text)), ""
			}
		}
		if t.want.Call != nil {
			for _, k := range keys(t.want.Call.Arguments) {
				if !reflect.DeepEqual(plain(v[k]), plain(t.want.Call.Arguments[k])) {
					return found(WrongAnswer, "%s is %s, want %s", quote(k), shown(v[k]), shown(t.want.Call.Arguments[k])), ""
				}
			}
		}
		return finding{}, "a JSON object: " + quote(text)
	})
}
