package local

import (
	"strings"
	"testing"

	"quantscope/analysis/gates/chat"
)

var weather = chat.Tool{Name: "get_weather", Description: "Weather in a city.", Parameters: []byte(`{"type":"object","properties":{"city":{"type":"string"}}}`)}

// TestCalls: where tools are given a call is taken out of the text, whole and once,
// and its markers are in no piece; where none are given it stays in the text.
func TestCalls(t *testing.T) {
	c := openedDemo(t)
	for _, k := range []int{0, 2} {
		e := engineOf(t, c, Options{Speculate: k})
		for _, city := range []string{"Paris", "서울", "東京", "Москва", "दिल्ली", "القاهرة"} {
			r := chat.Request{Messages: []chat.Message{{Role: chat.User, Content: "What is the weather in " + city + "?"}}, MaxTokens: 64}
			plain := ask(t, e, r)
			if want := `<tool_call>{"name": "get_weather", "arguments": {"city": "` + city + `"}}</tool_call>`; plain.Text != want || len(plain.ToolCalls) != 0 || plain.Finish != chat.FinishStop {
				t.Errorf("without tools: %q with calls %v (%s)", plain.Text, plain.ToolCalls, plain.Finish)
			}
			r.Tools = []chat.Tool{weather}
			text := ""
			var calls []chat.ToolCall
			got, err := e.Ask(t.Context(), r, func(d chat.Delta) { text, calls = text+d.Text, append(calls, d.ToolCalls...) })
			if err != nil {
				t.Fatal(err)
			}
			if got.Text != "" || text != "" || got.Finish != chat.FinishTools || len(got.ToolCalls) != 1 || len(calls) != 1 || calls[0] != got.ToolCalls[0] {
				t.Fatalf("%s: %q, pieces %q, calls %v, pieces %v (%s)", city, got.Text, text, got.ToolCalls, calls, got.Finish)
			}
			call := got.ToolCalls[0]
			if call.Name != "get_weather" || call.Arguments != `{"city": "`+city+`"}` || !strings.HasPrefix(call.ID, "call_") {
				t.Errorf("%s: %+v", city, call)
			}
			// Cut off within the call it is text, and the answer is truncated.
			r.MaxTokens = 8
			cut := ask(t, e, r)
			if cut.Finish != chat.FinishLength || len(cut.ToolCalls) != 0 || !strings.HasPrefix(cut.Text, "<tool_call>") {
				t.Errorf("%s, cut off: %q, calls %v (%s)", city, cut.Text, cut.ToolCalls, cut.Finish)
			}
		}
	}
}

// TestRender: messages become the prompt of the model's template, whose special
// tokens are taken as such.
func TestRender(t *testing.T) {
	e := engineOf(t, openedDemo(t), Options{})
	m := []chat.Message{{Role: chat.User, Content: "한국의 수도는 어디입니까?"}}
	text, err := e.Render(m, nil, nil)
	if err != nil || text != chatPrompt(m[0].Content) {
		t.Fatalf("%q, %v", text, err)
	}
	a, b := ask(t, e, chat.Request{Messages: m, MaxTokens: 40}), ask(t, e, chat.Request{Prompt: text, MaxTokens: 40})
	if a.Text != "한국의 수도는 서울입니다." || a.Text != b.Text || a.PromptTokens != b.PromptTokens {
		t.Errorf("%q of %d tokens, %q of %d", a.Text, a.PromptTokens, b.Text, b.PromptTokens)
	}
	ids, _ := e.Tokenize(t.Context(), text)
	if len(ids) != a.PromptTokens || ids[0] != 1 || ids[len(ids)-1] != 2 || e.Detokenize(ids) != text {
		t.Errorf("%v", ids)
	}
}
