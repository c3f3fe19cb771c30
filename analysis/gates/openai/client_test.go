package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/openai/openaitest"
)

const secret = "sk-secret-0123456789"

// TestAddress holds which base URLs are taken, and that none that may hold a key is
// repeated.
func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"http://localhost:8000": "http://localhost:8000", "http://localhost:8000/": "http://localhost:8000",
		"http://localhost:8000/v1": "http://localhost:8000", "https://api.example.com/v1/": "https://api.example.com",
		"localhost:8000": "http://localhost:8000", "127.0.0.1:1/v1": "http://127.0.0.1:1", "https://h/proxy/openai/v1": "https://h/proxy/openai",
		"http://[::1]:8000/v1": "http://[::1]:8000", "http://h/v1/chat/completions": "http://h",
	} {
		a, err := parseAddress(in)
		if err != nil || a.root != want {
			t.Errorf("%s: %+v, %v", in, a, err)
		}
	}
	for _, in := range []string{
		"", "  ", "http://", "ftp://h", "unix:///run/x.sock", "http://" + secret + "@h", "http://a:" + secret + "@h/v1",
		"http://h?key=" + secret, "http://h#" + secret, "http://%zz" + secret, "http://h:port" + secret, "://" + secret,
	} {
		_, err := Open(t.Context(), in, Options{})
		var e *chat.Error
		if !errors.As(err, &e) || e.Kind != chat.Refused || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", in, err)
		}
	}
}

// TestKey holds where a key comes from, that it is sent, and that nothing that comes
// back has it, from a server that repeats it.
func TestKey(t *testing.T) {
	s := openaitest.Start(t, openaitest.Script{Key: secret, Engine: "vllm"})
	for _, env := range []string{"QUANTSCOPE_API_KEY", "OPENAI_API_KEY", "MY_KEY"} {
		t.Setenv("QUANTSCOPE_API_KEY", "")
		t.Setenv("OPENAI_API_KEY", "")
		t.Setenv("MY_KEY", "")
		t.Setenv(env, secret)
		name := ""
		if env == "MY_KEY" {
			name = env
		}
		c := open(t, s.URL, Options{KeyEnv: name})
		if _, err := c.Ask(t.Context(), hello(false), nil); err != nil {
			t.Error(env, err)
		}
		id, err := c.Identity(t.Context())
		record, _ := json.Marshal(id)
		if err != nil || strings.Contains(string(record), "secret") {
			t.Errorf("%s, %v", record, err)
		}
	}
	t.Setenv("MY_KEY", "")
	for _, name := range []string{"MY_KEY", "NO_SUCH_VARIABLE"} {
		if _, err := Open(t.Context(), s.URL, Options{KeyEnv: name}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{secret + "\n", "a b" + secret, "é" + secret} {
		t.Setenv("MY_KEY", bad)
		if _, err := Open(t.Context(), s.URL, Options{KeyEnv: "MY_KEY"}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	t.Setenv("MY_KEY", "sk-other-secret")
	_, err := Open(t.Context(), s.URL, Options{KeyEnv: "MY_KEY", Retries: -1})
	var e *chat.Error
	if !errors.As(err, &e) || e.Code != http.StatusUnauthorized || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "[key]") {
		t.Errorf("%v", err)
	}
}

// TestClean holds that a key is in no error, whoever made the error.
func TestClean(t *testing.T) {
	c := &Client{key: secret}
	err := c.fail(chat.Absent, 0, "proxy says "+secret, fmt.Errorf("dial %s: no", secret))
	if got := err.Error(); got != ": proxy says [key]: dial [key]: no" || strings.Contains(fmt.Sprintf("%#v", err), "secret") {
		t.Errorf("%q", got)
	}
}

// TestChoices holds that of several choices the first is taken, in whatever order
// they come, and that a log probability has a bound below.
func TestChoices(t *testing.T) {
	for _, body := range []string{
		`{"choices":[{"index":1,"text":"b"},{"index":0,"text":"a","logprobs":{"tokens":["a"],"token_logprobs":[-Infinity]}}]}`,
		`{"choices":[{"index":0,"text":"a","logprobs":{"tokens":["a"],"token_logprobs":[-3.4e38]}},{"index":1,"text":"b"}]}`,
	} {
		g := newGathering(&asked{}, chat.Request{Logprobs: 1}, nil, nowhere)
		if err := (&Client{}).readWhole(strings.NewReader(body), g); err != nil {
			t.Fatal(err)
		}
		if r := g.reply(); r.Text != "a" || len(r.Tokens) != 1 || r.Tokens[0].Logprob != -9999 || !r.Tokens[0].Known {
			t.Errorf("%+v", r)
		}
	}
}

// TestModels holds which model is asked for.
func TestModels(t *testing.T) {
	for _, c := range []struct {
		models []string
		ask    string
		want   string
		kind   chat.Kind
		in     string
	}{
		{[]string{"a"}, "", "a", "", ""},
		{[]string{"a", "b"}, "b", "b", "", ""},
		{[]string{"a", "b"}, "", "", chat.Refused, "a, b"},
		{[]string{"a", "b"}, "c", "", chat.Wrong, `does not serve "c" but a, b`},
		{[]string{"a"}, "b", "", chat.Wrong, `"b"`},
		{[]string{}, "", "", chat.Wrong, "no model"},
		{[]string{""}, "", "", chat.Malformed, "without a name"},
	} {
		s := openaitest.Start(t, openaitest.Script{Models: c.models})
		cl, err := Open(t.Context(), s.URL, Options{Model: c.ask})
		if c.kind == "" {
			if err != nil || cl.server.model != c.want {
				t.Errorf("%v: %v", c, err)
			}
			continue
		}
		var e *chat.Error
		if !errors.As(err, &e) || e.Kind != c.kind || !strings.Contains(err.Error(), c.in) {
			t.Errorf("%v: %v", c, err)
		}
	}
	aliased := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/completions" {
			fmt.Fprint(w, `{"model":"model.gguf","choices":[{"text":"x"}]}`)
			return
		}
		fmt.Fprint(w, `{"data":[{"id":"model.gguf","aliases":["small"]},{"id":"other"}]}`)
	}))
	defer aliased.Close()
	if _, err := open(t, aliased.URL, Options{Model: "small"}).Ask(t.Context(), chat.Request{Prompt: "p", MaxTokens: 1}, nil); err != nil {
		t.Errorf("by another of its names: %v", err)
	}
	s := served{names: []string{"gpt-9", "", "gpt-9"}}
	for name, want := range map[string]bool{"": true, "gpt-9": true, "gpt-9-2026-11-30": true, "gpt-9-mini": false, "gpt-90": false, "gpt-9-": false, "x": false} {
		if s.same(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

// TestUnlisted takes a server that does not list its models, where one is named.
func TestUnlisted(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/chat/completions") {
			fmt.Fprint(w, `{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}`)
			return
		}
		http.NotFound(w, r)
	}))
	defer s.Close()
	if _, err := Open(t.Context(), s.URL, Options{}); err == nil {
		t.Error("no model was named")
	}
	reply, err := open(t, s.URL, Options{Model: "m"}).Ask(t.Context(), hello(false), nil)
	if err != nil || reply.Text != "ab" || reply.PromptTokens != -1 || reply.CompletionTokens != -1 || reply.CachedTokens != -1 || reply.Finish != "" {
		t.Errorf("%+v, %v", reply, err)
	}
	id, err := open(t, s.URL, Options{Model: "m"}).Identity(t.Context())
	if d := cmp.Diff(chat.Identity{Kind: "server", At: s.URL, Model: "m", Speculative: -1, MaxTokens: -1, Settings: map[string]string{}}, id); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
}

// TestBody holds what is sent for a request, engine by engine.
func TestBody(t *testing.T) {
	seed := uint64(math.MaxUint64)
	full := chat.Request{
		Messages: []chat.Message{
			{Role: chat.System, Content: "s"},
			{Role: chat.Assistant, Reasoning: "r", ToolCalls: []chat.ToolCall{{Name: "f", Arguments: "{}"}}},
			{Role: chat.ToolRole, Content: "<&>", ToolCallID: "call_1_0", Name: "f"},
		},
		MaxTokens: 5, Temperature: 0.5, TopP: 0.9, TopK: 3, Seed: &seed, Stop: []string{"\n"}, IgnoreEOS: true,
		Stream: true, TemplateArgs: map[string]any{"enable_thinking": false},
	}
	messages := `[{"content":"s","role":"system"},{"content":null,"reasoning_content":"r","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"f"},"id":"call_1_0","type":"function"}]},{"content":"<&>","name":"f","role":"tool","tool_call_id":"call_1_0"}]`
	prompt := chat.Request{Prompt: "p", MaxTokens: 5}
	for _, c := range []struct {
		engine string
		r      chat.Request
		want   string
	}{
		{"", full, `{"chat_template_kwargs":{"enable_thinking":false},"ignore_eos":true,"max_tokens":5,"messages":` + messages + `,"model":"m","seed":9223372036854775807,"stop":["\n"],"stream":true,"stream_options":{"include_usage":true},"temperature":0.5,"top_k":3,"top_p":0.9}`},
		{llamaCpp, full, `{"chat_template_kwargs":{"enable_thinking":false},"ignore_eos":true,"max_tokens":5,"messages":` + messages + `,"min_p":0,"model":"m","repeat_penalty":1,"seed":0,"stop":["\n"],"stream":true,"stream_options":{"include_usage":true},"temperature":0.5,"top_k":3,"top_p":0.9}`},
		{"", prompt, `{"max_tokens":5,"model":"m","prompt":"p","temperature":0}`},
		{quantscope, prompt, `{"add_special_tokens":false,"max_tokens":5,"model":"m","prompt":"p","temperature":0}`},
		{vLLM, prompt, `{"add_special_tokens":false,"max_tokens":5,"min_p":0,"model":"m","prompt":"p","repetition_penalty":1,"temperature":0,"top_k":-1,"top_p":1}`},
		{sgLang, prompt, `{"max_tokens":5,"min_p":0,"model":"m","prompt":"p","repetition_penalty":1,"temperature":0,"top_k":-1,"top_p":1}`},
	} {
		cl := &Client{server: served{model: "m", engine: c.engine}}
		a, err := cl.compose(c.r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := cl.encode(a.body)
		if err != nil || strings.TrimSpace(string(got)) != c.want {
			t.Errorf("%q: %v\n%s\n%s", c.engine, err, got, c.want)
		}
	}
	for name, r := range map[string]chat.Request{
		"nothing": {MaxTokens: 1}, "two": {Prompt: "p", Tokens: []int32{1}, MaxTokens: 1}, "no tokens": {Prompt: "p"}, "fewer": {Prompt: "p", MaxTokens: -1},
		"tools": {Prompt: "p", Tools: weather, MaxTokens: 1}, "no JSON": {Messages: user("x"), MaxTokens: 1, Tools: []chat.Tool{{Name: "f", Parameters: json.RawMessage("{")}}},
		"ids": {Tokens: []int32{1}, MaxTokens: 1}, "echo of messages": {Messages: user("x"), MaxTokens: 1, PromptLogprobs: 1},
		"a number that is none": {Prompt: "p", MaxTokens: 1, Temperature: math.NaN()},
	} {
		_, err := (&Client{server: served{model: "m"}}).Ask(t.Context(), r, nil)
		var e *chat.Error
		if !errors.As(err, &e) || e.Kind != chat.Refused {
			t.Errorf("%s: %v", name, err)
		}
		if errors.Is(err, chat.ErrUnsupported) != (name == "ids" || name == "echo of messages") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEcho reads the prompt's log probabilities from an echo, where a server has no
// other way.
func TestEcho(t *testing.T) {
	prompt := []chat.Token{{Text: "a"}, {Text: "b", Known: true, Logprob: -1, Top: []chat.Alt{{Text: "b", Logprob: -1}, {Text: "c", Logprob: -2}}}}
	made := chat.Token{Text: "d", Known: true, Logprob: -3, Top: []chat.Alt{{Text: "e", Logprob: -0.5}, {Text: "f", Logprob: -1.5}}}
	s := openaitest.Start(t, openaitest.Script{Answer: func(q openaitest.Question) chat.Reply {
		r := chat.Reply{Text: "abd", Finish: chat.FinishLength, Prompt: prompt, PromptTokens: 2, CompletionTokens: 1, CachedTokens: -1, Tokens: []chat.Token{made}}
		if q.Int("max_tokens", -1) == 0 {
			r.Tokens, r.CompletionTokens = nil, 0
		}
		return r
	}})
	c := open(t, s.URL, Options{})
	for _, n := range []int{0, 1} {
		reply, err := c.Ask(t.Context(), chat.Request{Prompt: "ab", PromptLogprobs: 2, MaxTokens: n, Logprobs: n}, nil)
		if err != nil || len(reply.Prompt) != 2 || reply.Prompt[0].Known || reply.Prompt[1].Rank != 1 || len(reply.Prompt[1].Top) != 2 || len(reply.Tokens) != n {
			t.Fatalf("%d: %+v, %v", n, reply, err)
		}
		if n == 0 && (reply.Text != "" || reply.Finish != "") {
			t.Errorf("%+v", reply)
		}
		if n == 1 && (reply.Tokens[0].Rank != 0 || len(reply.Tokens[0].Top) != 1 || reply.Tokens[0].Top[0].Text != "e") {
			t.Errorf("a token beyond what was asked for: %+v", reply.Tokens[0])
		}
	}
	if q := s.Answers()[0].Body; q["echo"] != true || q["logprobs"] != 2.0 || q["max_tokens"] != 0.0 {
		t.Errorf("asked %v", q)
	}
}

// TestQuirks holds that a server which says what it wants otherwise gets it, at once
// and from then on.
func TestQuirks(t *testing.T) {
	var mu sync.Mutex
	var bodies []map[string]any
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
			fmt.Fprint(w, `{"data":[{"id":"m","owned_by":"vllm"}],"version":"1"}`)
			return
		}
		var b map[string]any
		_ = json.NewDecoder(r.Body).Decode(&b)
		mu.Lock()
		bodies = append(bodies, b)
		mu.Unlock()
		switch {
		case b["max_tokens"] != nil:
			http.Error(w, `{"error":{"message":"Unsupported parameter: use 'max_completion_tokens' instead."}}`, 400)
		case b["tools"] != nil && b["tool_choice"] == nil:
			http.Error(w, `{"error":{"message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"}}`, 400)
		default:
			fmt.Fprint(w, `{"choices":[{"message":{"content":"<tool_call>"},"finish_reason":"stop"}]}`)
		}
	}))
	defer s.Close()
	c := open(t, s.URL, Options{Retries: -1})
	for range 2 {
		reply, err := c.Ask(t.Context(), chat.Request{Messages: user("x"), Tools: weather, MaxTokens: 9}, nil)
		if err != nil || reply.Text != "<tool_call>" || reply.Retries != 0 {
			t.Fatalf("%+v, %v", reply, err)
		}
	}
	if len(bodies) != 4 || bodies[3]["tool_choice"] != "none" || bodies[3]["max_completion_tokens"] != 9.0 || bodies[3]["max_tokens"] != nil {
		t.Errorf("%v", bodies)
	}
}

// TestBOS holds that a prompt that llama.cpp would put a token before, is sent as ids.
func TestBOS(t *testing.T) {
	for _, adds := range []bool{false, true} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var b map[string]any
			_ = json.NewDecoder(r.Body).Decode(&b)
			switch r.URL.Path {
			case "/tokenize":
				if b["add_special"] == true && adds {
					fmt.Fprint(w, `{"tokens":[1,5]}`)
					return
				}
				fmt.Fprint(w, `{"tokens":[5]}`)
			case "/v1/completions":
				fmt.Fprintf(w, `{"choices":[{"text":%q}]}`, fmt.Sprint(b["prompt"]))
			default:
				fmt.Fprint(w, `{"data":[{"id":"m","owned_by":"llamacpp"}]}`)
			}
		}))
		reply, err := open(t, s.URL, Options{}).Ask(t.Context(), chat.Request{Prompt: "a", MaxTokens: 1}, nil)
		if want := map[bool]string{false: "a", true: "[5]"}[adds]; err != nil || reply.Text != want {
			t.Errorf("%v: %+v, %v", adds, reply, err)
		}
		s.Close()
	}
}

// TestInvalid holds that bytes which are no text come through a stream and through a
// whole answer, and are counted.
func TestInvalid(t *testing.T) {
	text := "\xed\x95 ok \xff\xed\x95\x9c \"\\\x01"
	s := openaitest.Start(t, openaitest.Script{Piece: 1, Answer: func(openaitest.Question) chat.Reply {
		return chat.Reply{Text: text, Reasoning: "\xc3", Finish: chat.FinishTools, ToolCalls: []chat.ToolCall{{ID: "1", Name: "f", Arguments: "{\"a\":\"\xe2\x82\"}"}, {ID: "2", Name: "g", Arguments: "한"}}}
	}})
	c := open(t, s.URL, Options{})
	for _, stream := range []bool{false, true} {
		var told chat.Reply
		reply, err := c.Ask(t.Context(), hello(stream), func(d chat.Delta) {
			told.Text += d.Text
			told.Reasoning += d.Reasoning
			told.ToolCalls = append(told.ToolCalls, d.ToolCalls...)
		})
		want := []chat.ToolCall{{ID: "1", Name: "f", Arguments: "{\"a\":\"\xe2\x82\"}"}, {ID: "2", Name: "g", Arguments: "한"}}
		if err != nil || reply.Text != text || reply.Reasoning != "\xc3" || reply.Invalid != 2+1+1+2 || !reflect.DeepEqual(reply.ToolCalls, want) {
			t.Errorf("%v: %#v, %v", stream, reply, err)
		}
		if told.Text != text || told.Reasoning != "\xc3" || !reflect.DeepEqual(told.ToolCalls, want) {
			t.Errorf("%v: told %#v", stream, told)
		}
	}
}

// TestManyAtOnce asks from many goroutines, while the client learns and counts.
func TestManyAtOnce(t *testing.T) {
	s := openaitest.Start(t, openaitest.Script{Engine: "vllm", Metrics: func() string { return "vllm:generation_tokens_total 5\n" }})
	c := open(t, s.URL, Options{})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			text := fmt.Sprintf("question %d 한국", i)
			reply, err := c.Ask(t.Context(), chat.Request{Messages: user(text), MaxTokens: 9, Stream: i%2 == 0}, nil)
			if err != nil || reply.Text != text {
				t.Errorf("%d: %+v, %v", i, reply, err)
			}
			if _, err := c.Identity(t.Context()); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
}

// The keys of who runs the tests are none of theirs.
func init() {
	os.Unsetenv("QUANTSCOPE_API_KEY")
	os.Unsetenv("OPENAI_API_KEY")
}
