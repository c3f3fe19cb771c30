package serve

import (
	"net/http"
	"strings"
	"testing"
)

const (
	tools    = `"tools":[{"type":"function","function":{"name":"weather","description":"of a city","parameters":{"type":"object","properties":{"of":{"type":"string"}}}}}]`
	question = `"messages":[{"role":"user","content":"안녕 hello"}]`
)

// What clients are answered, whole.
func TestShapes(t *testing.T) {
	for _, c := range []struct{ name, method, path, body string }{
		{"models", "GET", "/v1/models", ""},
		{"model", "GET", "/v1/models/fake/model", ""},
		{"model-absent", "GET", "/v1/models/other", ""},
		{"version", "GET", "/version", ""},
		{"tokenize", "POST", "/tokenize", `{"prompt":"héé","return_token_strs":true}`},
		{"tokenize-bare", "POST", "/tokenize", `{"prompt":"hé","add_special_tokens":false}`},
		{"tokenize-chat", "POST", "/tokenize", `{"model":"fake/model",` + question + `}`},
		{"detokenize", "POST", "/detokenize", `{"tokens":[104,233]}`},
		{"chat", "POST", "/v1/chat/completions", `{"model":"fake/model",` + question + `}`},
		{"chat-many", "POST", "/v1/chat/completions", `{"n":2,"seed":7,"max_tokens":3,"max_completion_tokens":2,` + question + `,"return_token_ids":true}`},
		{"chat-logprobs", "POST", "/v1/chat/completions", `{"max_tokens":2,"logprobs":true,"top_logprobs":2,` + question + `}`},
		{"chat-logprobs-own", "POST", "/v1/chat/completions", `{"max_tokens":2,"logprobs":true,` + question + `,"return_tokens_as_token_ids":true}`},
		{"chat-prompt", "POST", "/v1/chat/completions", `{"max_tokens":0,"prompt_logprobs":1,"messages":[{"role":"user","content":""}]}`},
		{"chat-tools", "POST", "/v1/chat/completions", `{` + tools + `,"messages":[{"role":"user","content":"call it"}]}`},
		{"chat-one-tool", "POST", "/v1/chat/completions", `{` + tools + `,"parallel_tool_calls":false,"tool_choice":"auto","messages":[{"role":"user","content":"call it"}]}`},
		{"chat-stream", "POST", "/v1/chat/completions", `{"stream":true,"max_tokens":4,` + question + `}`},
		{"chat-stream-usage", "POST", "/v1/chat/completions", `{"stream":true,"stream_options":{"include_usage":true},"n":2,"max_tokens":1,"return_token_ids":true,` + question + `}`},
		{"chat-stream-logprobs", "POST", "/v1/chat/completions", `{"stream":true,"logprobs":true,"top_logprobs":1,"max_tokens":2,` + question + `}`},
		{"chat-stream-tools", "POST", "/v1/chat/completions", `{"stream":true,` + tools + `,"messages":[{"role":"user","content":"call it"}]}`},
		{"chat-stream-one-tool", "POST", "/v1/chat/completions", `{"stream":true,"parallel_tool_calls":false,` + tools + `,"messages":[{"role":"user","content":"call it"}]}`},
		{"chat-stream-fail", "POST", "/v1/chat/completions", `{"stream":true,"messages":[{"role":"user","content":"fail"}]}`},
		{"text", "POST", "/v1/completions", `{"prompt":"hello","max_tokens":4}`},
		{"text-lists", "POST", "/v1/completions", `{"prompt":["a","b"],"n":2,"max_tokens":1}`},
		{"text-ids", "POST", "/v1/completions", `{"prompt":[[104,233],[105]],"echo":true,"max_tokens":1,"return_token_ids":true}`},
		{"text-logprobs", "POST", "/v1/completions", `{"prompt":"hé","logprobs":1,"max_tokens":2}`},
		{"text-echo", "POST", "/v1/completions", `{"prompt":"hé","echo":true,"logprobs":0,"max_tokens":1}`},
		{"text-echo-only", "POST", "/v1/completions", `{"prompt":"hé","echo":true,"logprobs":1,"max_tokens":0}`},
		{"text-prompt", "POST", "/v1/completions", `{"prompt":"hé","prompt_logprobs":0,"max_tokens":1}`},
		{"text-stream", "POST", "/v1/completions", `{"prompt":"hé","stream":true,"logprobs":1,"max_tokens":2,"stream_options":{"include_usage":true}}`},
		{"text-stream-echo", "POST", "/v1/completions", `{"prompt":"hé","stream":true,"echo":true,"max_tokens":1,"n":2}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := serving(t, newFake(), Options{Version: "0.1.0"})
			got := send(t, c.method, url+c.path, c.body)
			if strings.Contains(c.name, "-many") || strings.Contains(c.name, "-usage") || strings.Contains(c.name, "-echo") && strings.Contains(c.name, "stream") {
				got.text = sorted(got.text)
			}
			golden(t, c.name, got.text)
			want := http.StatusOK
			if strings.HasSuffix(c.name, "absent") {
				want = http.StatusNotFound
			}
			if got.status != want {
				t.Errorf("status %d, want %d", got.status, want)
			}
			kind := "application/json"
			if strings.Contains(c.name, "stream") {
				kind = "text/event-stream; charset=utf-8"
			}
			if have := got.header.Get("Content-Type"); have != kind {
				t.Errorf("content type %q, want %q", have, kind)
			}
		})
	}
}

// sorted puts the chunks of answers that come at the same time in the order of the
// answers; those of one answer keep theirs.
func sorted(stream string) string {
	if !strings.HasPrefix(stream, "data: ") {
		return stream
	}
	chunks := strings.SplitAfter(stream, "\n\n")
	var out [3][]string
	for _, c := range chunks {
		switch {
		case strings.Contains(c, `"choices":[{"index":0`):
			out[0] = append(out[0], c)
		case strings.Contains(c, `"choices":[{"index":1`):
			out[1] = append(out[1], c)
		default:
			out[2] = append(out[2], c)
		}
	}
	return strings.Join(append(append(out[0], out[1]...), out[2]...), "")
}

// What of a request reaches the engine.
func TestHonoured(t *testing.T) {
	f := newFake()
	url := serving(t, f, Options{})
	got := post(t, url+"/v1/chat/completions", `{"temperature":0.5,"top_p":0.9,"top_k":7,"seed":-1,"stop":["a","b"],"ignore_eos":true,"n":1,"stream":false,
		"chat_template_kwargs":{"enable_thinking":false},"user":"me","metadata":{"a":"b"},"store":true,"presence_penalty":0,"min_p":0.0,"logit_bias":{},"response_format":{"type":"text"},"seed_":null,
		"tool_choice":"none",`+tools+`,"messages":[
		{"role":"developer","content":[{"type":"text","text":"be"},{"type":"text","text":"short"}]},
		{"role":"user","content":"q","name":"n"},
		{"role":"assistant","content":null,"refusal":null,"reasoning":"hm","tool_calls":[{"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"of\":1}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"rain"}]}`)
	if got.status != http.StatusOK {
		t.Fatal(got)
	}
	r := f.last()
	if r.Temperature != 0.5 || r.TopP != 0.9 || r.TopK != 7 || r.Seed == nil || *r.Seed != 1<<64-1 || strings.Join(r.Stop, ",") != "a,b" || !r.IgnoreEOS || r.TemplateArgs["enable_thinking"] != false {
		t.Errorf("%+v", r)
	}
	if len(r.Tools) != 0 {
		t.Errorf("tools %v although tool_choice is none", r.Tools)
	}
	m := r.Messages
	if len(m) != 4 || m[0].Role != "system" || m[0].Content != "be\nshort" || m[1].Name != "n" || m[2].Reasoning != "hm" || len(m[2].ToolCalls) != 1 ||
		m[2].ToolCalls[0].Name != "weather" || m[2].ToolCalls[0].Arguments != `{"of":1}` || m[3].ToolCallID != "c1" || m[3].Content != "rain" {
		t.Errorf("%+v", m)
	}
	// An answer may fill what the prompt leaves.
	if ids, err := f.PromptIDs(r); err != nil || r.MaxTokens != 4096-len(ids) {
		t.Errorf("%d tokens to make beside %d, %v", r.MaxTokens, len(ids), err)
	}
	// What is not said is what OpenAI says.
	if got := post(t, url+"/v1/completions", `{"prompt":"x"}`); got.status != http.StatusOK {
		t.Fatal(got)
	}
	if r := f.last(); r.Temperature != 1 || r.TopP != 1 || r.TopK != 0 || r.Seed != nil || r.MaxTokens != 16 || r.Logprobs != 0 || r.PromptLogprobs != 0 {
		t.Errorf("%+v", r)
	}
	// What is put before texts can be left out.
	if got := post(t, url+"/v1/completions", `{"prompt":"x","add_special_tokens":false}`); got.status != http.StatusOK {
		t.Fatal(got)
	}
	if r := f.last(); r.Prompt != "" || len(r.Tokens) != 1 || r.Tokens[0] != 'x' {
		t.Errorf("%+v", r)
	}
	// Answers to one prompt have seeds one apart.
	if got := post(t, url+"/v1/completions", `{"prompt":"x","n":3,"seed":5}`); got.status != http.StatusOK {
		t.Fatal(got)
	}
	seeds := map[uint64]bool{}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.requests[len(f.requests)-3:] {
		seeds[*r.Seed] = true
	}
	if !seeds[5] || !seeds[6] || !seeds[7] {
		t.Errorf("seeds %v", seeds)
	}
}
