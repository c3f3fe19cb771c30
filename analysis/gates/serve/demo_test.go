package serve

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"quantscope/analysis/candidate"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/local"
	"quantscope/analysis/gates/openai"
	"quantscope/kernels"
	"quantscope/quant/demo"
)

// demoEngine is the embedded model that answers.
func demoEngine(t *testing.T, o local.Options) *local.Engine {
	t.Helper()
	c, err := candidate.Open(t.Context(), demo.Label, candidate.Options{Set: kernels.Best(), Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	e, err := local.New(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// chunks are the documents of a stream.
func chunks(t *testing.T, stream string) (out []chatChunk) {
	t.Helper()
	s := bufio.NewScanner(strings.NewReader(stream))
	for s.Scan() {
		text, ok := strings.CutPrefix(s.Text(), "data: ")
		if !ok || text == "[DONE]" {
			continue
		}
		var c chatChunk
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		out = append(out, c)
	}
	return out
}

// Of texts whose characters are of several tokens, each piece of a stream is whole
// characters, and they add up to what is answered at once. Drafts and the prefix
// cache change nothing.
func TestDemoStreams(t *testing.T) {
	ask := func(url, question, more string) string {
		text, err := json.Marshal(question)
		if err != nil {
			t.Fatal(err)
		}
		got := post(t, url+"/v1/chat/completions", `{"temperature":0,"max_tokens":48,"messages":[{"role":"user","content":`+string(text)+`}]`+more+`}`)
		if got.status != http.StatusOK {
			t.Fatalf("%+v", got)
		}
		return got.text
	}
	questions := []string{"서울의 날씨를 알려 주세요.", "日本の首都はどこですか。", "Столица России?", "What is 12 + 7?"}
	var first []string
	for _, o := range []local.Options{{}, {Speculate: 3, PrefixCache: true}} {
		url := serving(t, demoEngine(t, o), Options{})
		for i, q := range questions {
			var d chatDocument
			if err := json.Unmarshal([]byte(ask(url, q, "")), &d); err != nil {
				t.Fatal(err)
			}
			whole := *d.Choices[0].Message.Content
			if first = append(first, whole); first[i] != whole {
				t.Errorf("%+v: %q, without %q", o, whole, first[i])
			}
			pieces, tokens, n := "", 0, 0
			for _, c := range chunks(t, ask(url, q, `,"stream":true,"logprobs":true,"top_logprobs":1`)) {
				d := c.Choices[0]
				if d.Logprobs != nil {
					tokens += len(d.Logprobs.Content)
				}
				if d.Delta.Content == nil || *d.Delta.Content == "" {
					continue
				}
				n++
				if !utf8.ValidString(*d.Delta.Content) || strings.ContainsRune(*d.Delta.Content, utf8.RuneError) && !strings.ContainsRune(whole, utf8.RuneError) {
					t.Errorf("a piece is %q", *d.Delta.Content)
				}
				pieces += *d.Delta.Content
			}
			if pieces != whole || tokens != d.Usage.Completion || n < 3 {
				t.Errorf("%d pieces of %d tokens: %q; at once %d tokens: %q", n, tokens, pieces, d.Usage.Completion, whole)
			}
		}
	}
}

// Sixteen clients at once hear what each hears alone, to the last bit of log
// probabilities.
func TestDemoConcurrent(t *testing.T) {
	url := serving(t, demoEngine(t, local.Options{Slots: 8, Speculate: 1}), Options{})
	body := func(i int) string {
		return fmt.Sprintf(`{"prompt":"<|user|>What is %d + 7?<|assistant|>","max_tokens":24,"temperature":%d,"seed":5,"logprobs":2}`, i%8, i%2)
	}
	choices := func(i int) string {
		var d struct{ Choices json.RawMessage }
		got := post(t, url+"/v1/completions", body(i))
		if err := json.Unmarshal([]byte(got.text), &d); err != nil || got.status != http.StatusOK {
			t.Errorf("%v: %+v", err, got)
		}
		return string(d.Choices)
	}
	var alone [8]string
	for i := range alone {
		alone[i] = choices(i)
	}
	var all sync.WaitGroup
	for i := range 16 {
		all.Add(1)
		go func() {
			defer all.Done()
			if got := choices(i); got != alone[i%8] {
				t.Errorf("%s, alone %s", got, alone[i%8])
			}
		}()
	}
	all.Wait()
}

// The client of servers hears through HTTP what the engine says in process: texts,
// calls, tokens, log probabilities of answers and prompts, counts.
func TestDemoClient(t *testing.T) {
	e := demoEngine(t, local.Options{Speculate: 2})
	url := serving(t, e, Options{Version: "1.2.3"})
	c, err := openai.Open(t.Context(), url, openai.Options{HTTP: http.DefaultClient})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tools := []chat.Tool{{Name: "get_weather", Parameters: json.RawMessage(`{"type":"object"}`)}}
	say := func(s string) []chat.Message { return []chat.Message{{Role: chat.User, Content: s}} }
	seed := uint64(7)
	for _, r := range []chat.Request{
		{Messages: say("What is the capital of France?"), MaxTokens: 32},
		{Messages: say("서울의 날씨를 알려 주세요."), MaxTokens: 32, Stream: true, Logprobs: 3},
		{Messages: say("What is the weather in Seoul?"), Tools: tools, MaxTokens: 64},
		{Messages: say("What is the weather in Seoul?"), Tools: tools, MaxTokens: 64, Stream: true},
		{Prompt: "In the beginning", MaxTokens: 16, Logprobs: 2, PromptLogprobs: 2},
		{Prompt: "In the beginning", MaxTokens: 16, Stream: true, Temperature: 0.8, TopP: 0.9, TopK: 50, Seed: &seed},
		{Tokens: []int32{4, 5, 6, 7}, MaxTokens: 8, PromptLogprobs: 1},
		{Prompt: "Say no more", MaxTokens: 40, Stop: []string{"e"}},
		{Prompt: "In the beginning", MaxTokens: 24, IgnoreEOS: true},
	} {
		want, err := e.Ask(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Ask(t.Context(), r, nil)
		if err != nil {
			t.Errorf("%+v: %v", r, err)
			continue
		}
		if got.Text != want.Text || got.Finish != want.Finish || got.PromptTokens != want.PromptTokens || got.CompletionTokens != want.CompletionTokens {
			t.Errorf("%+v:\n%+v, in process\n%+v", r, got, want)
		}
		if !slices.EqualFunc(got.ToolCalls, want.ToolCalls, func(a, b chat.ToolCall) bool { return a.Name == b.Name && a.Arguments == b.Arguments }) {
			t.Errorf("calls %v, in process %v", got.ToolCalls, want.ToolCalls)
		}
		if r.Logprobs > 0 {
			sameTokens(t, "made", got.Tokens, want.Tokens)
		}
		if r.PromptLogprobs > 0 {
			sameTokens(t, "asked", got.Prompt, want.Prompt)
		}
	}
	who, err := c.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if who.Engine != "quantscope" || who.Version != "1.2.3" || who.Speculative != 2 || who.MaxTokens != 1024 {
		t.Errorf("%+v", who)
	}
	want, err := e.Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Prompt != want.Prompt || got.Generated != want.Generated || got.Steps != want.Steps || got.Drafts != want.Drafts || got.Drafted != want.Drafted || got.Accepted != want.Accepted || !slices.Equal(got.ByPosition, want.ByPosition) || got.Speculative != 2 {
		t.Errorf("counted %+v, in process %+v", got, want)
	}
	ids, err := c.Tokenize(t.Context(), "<|user|>안녕")
	if err != nil {
		t.Fatal(err)
	}
	if own, err := e.Tokenize(t.Context(), "<|user|>안녕"); err != nil || !slices.Equal(ids, own) {
		t.Errorf("tokens %v, in process %v, %v", ids, own, err)
	}
}

// sameTokens holds tokens that came through JSON against the engine's.
func sameTokens(t *testing.T, what string, got, want []chat.Token) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d tokens, in process %d", what, len(got), len(want))
		return
	}
	for i := range want {
		g, w := got[i], want[i]
		if g.Known != w.Known || g.Logprob != w.Logprob || len(g.Top) < len(w.Top) || g.ID >= 0 && g.ID != w.ID {
			t.Errorf("%s %d: %+v, in process %+v", what, i, g, w)
			return
		}
		for k := range w.Top {
			if g.Top[k].Logprob != w.Top[k].Logprob {
				t.Errorf("%s %d: %+v, in process %+v", what, i, g.Top, w.Top)
				return
			}
		}
	}
}
