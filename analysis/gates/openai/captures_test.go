package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantscope/analysis/gates/chat"
)

// recorded answers with what real servers answered: vLLM 0.19.1 on a CPU, serving
// the demo, and llama-server b1-0c1e570, serving SmolLM2-135M in Q4_1. Names of
// folders were taken out of the texts, and buckets of histograms.
type recorded struct {
	t      *testing.T
	folder string

	mu     sync.Mutex
	answer string // file that posts are answered with
	code   int
	asked  map[string]any
	path   string
}

func record(t *testing.T, folder string) (*Client, *recorded) {
	r := &recorded{t: t, folder: filepath.Join("testdata", "captures", folder), code: 200}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return open(t, s.URL+"/v1/", Options{Retries: -1}), r
}

func (r *recorded) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	name, code := strings.TrimPrefix(q.URL.Path, "/v1"), 200
	name = strings.TrimPrefix(name, "/")
	switch {
	case name == "metrics":
		name = "metrics-after"
	case q.Method == http.MethodPost && name != "tokenize":
		r.mu.Lock()
		name, code, r.path = r.answer, r.code, q.URL.Path
		r.asked = nil
		if err := json.NewDecoder(q.Body).Decode(&r.asked); err != nil {
			r.t.Error(err)
		}
		r.mu.Unlock()
	}
	data, err := os.ReadFile(filepath.Join(r.folder, name))
	if err != nil {
		w.WriteHeader(404)
		fmt.Fprint(w, `{"detail":"Not Found"}`)
		return
	}
	kind := "application/json"
	if bytes.HasPrefix(data, []byte("data:")) {
		kind = "text/event-stream"
	}
	if strings.HasPrefix(name, "metrics") {
		kind = "text/plain"
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(code)
	_, _ = w.Write(data)
}

func (r *recorded) ask(c *Client, file string, q chat.Request) (chat.Reply, []chat.Delta, error) {
	r.mu.Lock()
	r.answer = file
	r.mu.Unlock()
	var deltas []chat.Delta
	if q.MaxTokens == 0 && q.PromptLogprobs == 0 {
		q.MaxTokens = 40
	}
	reply, err := c.Ask(r.t.Context(), q, func(d chat.Delta) { deltas = append(deltas, d) })
	return reply, deltas, err
}

func user(text string) []chat.Message { return []chat.Message{{Role: chat.User, Content: text}} }

var weather = []chat.Tool{{Name: "get_weather", Description: "The weather.", Parameters: json.RawMessage(`{"type":"object"}`)}}

// TestVLLM reads what vLLM answered.
func TestVLLM(t *testing.T) {
	c, r := record(t, "vllm")
	id, err := c.Identity(t.Context())
	want := chat.Identity{
		Kind: "server", At: c.base.shown, Model: "demo", Engine: "vllm", Version: "0.19.1", Speculative: 0, MaxTokens: 1024,
		Settings: map[string]string{"root": "demo"},
	}
	if d := cmp.Diff(want, id); d != "" || err != nil {
		t.Errorf("identity: %v\n%s", err, d)
	}
	n, err := c.Counters(t.Context())
	if err != nil || n.Prompt != 414 || n.Generated != 413 || n.CacheQueries != 374 || n.CacheHits != 0 || n.Drafted != -1 || n.Speculative != 0 || n.Steps <= 0 || n.At.IsZero() {
		t.Errorf("counters: %+v, %v", n, err)
	}
	ids, err := c.Tokenize(t.Context(), "x")
	if err != nil || !reflect.DeepEqual(ids, []int32{1, 917, 255, 171, 118, 260, 263, 2}) {
		t.Errorf("tokenize: %v, %v", ids, err)
	}

	reply, _, err := r.ask(c, "chat", chat.Request{Messages: user("What is 12+30?")})
	if err != nil || reply.Text != "12+30=42. Answer: 42" || reply.Finish != chat.FinishStop || reply.PromptTokens != 11 || reply.CompletionTokens != 15 || reply.CachedTokens != -1 || reply.Model != "demo" {
		t.Errorf("chat: %+v, %v", reply, err)
	}
	reply, _, err = r.ask(c, "chat-length", chat.Request{Messages: user("x")})
	if err != nil || reply.Finish != chat.FinishLength {
		t.Errorf("length: %+v, %v", reply, err)
	}
	for _, file := range []string{"chat-stream", "chat-stream-nousage"} {
		var deltas []chat.Delta
		reply, deltas, err = r.ask(c, file, chat.Request{Messages: user("한국의 수도는 어디입니까?"), Stream: true})
		told := ""
		for _, d := range deltas {
			told += d.Text
		}
		if err != nil || !strings.HasPrefix(reply.Text, "한국의 수도") || told != reply.Text || reply.Finish != chat.FinishStop || reply.Invalid != 0 || reply.First <= 0 {
			t.Errorf("%s: %+v, %v", file, reply, err)
		}
		if (file == "chat-stream") != (reply.CompletionTokens == 31) {
			t.Errorf("%s: %d tokens", file, reply.CompletionTokens)
		}
	}
}

// TestVLLMLogprobs reads log probabilities in each of vLLM's forms.
func TestVLLMLogprobs(t *testing.T) {
	c, r := record(t, "vllm")
	reply, _, err := r.ask(c, "chat-logprobs-stream", chat.Request{Messages: user("x"), Logprobs: 3, Stream: true})
	if err != nil || len(reply.Tokens) != 10 || reply.Text != "한국의 수" {
		t.Fatalf("%+v, %v", reply, err)
	}
	first := reply.Tokens[0]
	if first.ID != 917 || first.Rank != 1 || !first.Known || first.Logprob != -0.00009333651541965082 || len(first.Top) != 3 || first.Top[1].ID != 173 || first.Top[1].Logprob != -10.500093460083008 {
		t.Errorf("%+v", first)
	}
	if r.asked["return_token_ids"] != true || r.asked["top_logprobs"] != 3.0 || r.asked["logprobs"] != true {
		t.Errorf("asked %v", r.asked)
	}
	reply, _, err = r.ask(c, "chat-logprobs", chat.Request{Messages: user("x"), Logprobs: 2})
	if err != nil || len(reply.Tokens) != 10 || reply.Tokens[3].Text != "굵" || len(reply.Tokens[3].Top) != 2 || reply.Tokens[3].Top[1].Text != "굸" {
		t.Errorf("%+v, %v", reply.Tokens, err)
	}
	reply, _, err = r.ask(c, "completion-logprobs", chat.Request{Prompt: "x", Logprobs: 3})
	if err != nil || len(reply.Tokens) != 4 || reply.Tokens[2].Text != " f" || reply.Tokens[2].Rank != 1 || reply.Tokens[2].Top[2].Text != " c" || r.path != "/v1/completions" || r.asked["logprobs"] != 3.0 {
		t.Errorf("%+v, %v", reply.Tokens, err)
	}

	ids := []int32{860, 264, 321, 75, 265, 82, 302, 530}
	reply, _, err = r.ask(c, "completion-promptlogprobs", chat.Request{Tokens: ids, PromptLogprobs: 3, Stream: true})
	if err != nil || len(reply.Prompt) != 8 || reply.Text != "" || reply.Tokens != nil || reply.CompletionTokens != 0 || reply.PromptTokens != 8 {
		t.Fatalf("%+v, %v", reply, err)
	}
	if r.asked["prompt_logprobs"] != 3.0 || r.asked["max_tokens"] != 1.0 || r.asked["stream"] != nil || len(r.asked["prompt"].([]any)) != 8 {
		t.Errorf("asked %v", r.asked)
	}
	if p := reply.Prompt[0]; p.Known || p.ID != 860 {
		t.Errorf("first %+v", p)
	}
	for i, want := range []struct {
		rank int
		lp   float64
		text string
	}{{13, -4.24832820892334, " the"}, {21, -4.50422477722168, " be"}, {1, -0.5530124306678772, "g"}} {
		p := reply.Prompt[i+1]
		if p.ID != ids[i+1] || p.Rank != want.rank || p.Logprob != want.lp || p.Text != want.text || len(p.Top) != 3 || p.Top[0].Logprob < p.Top[2].Logprob || !p.Known {
			t.Errorf("%d: %+v", i+1, p)
		}
	}
	// A prompt of messages has them beside the choices, and without ids the true token
	// is the first that is named.
	reply, _, err = r.ask(c, "chat-promptlogprobs", chat.Request{Messages: user("What is 12+30?"), PromptLogprobs: 2})
	if err != nil || len(reply.Prompt) != 11 || reply.Prompt[1].ID != 551 || reply.Prompt[1].Text != "What" || reply.Prompt[1].Rank != 1 || reply.Prompt[0].ID != -1 {
		t.Errorf("%+v, %v", reply.Prompt, err)
	}
	// Ids are texts where vLLM was asked for that.
	reply, _, err = r.ask(c, "completion-ids", chat.Request{Tokens: []int32{300, 301, 302, 303, 304}, PromptLogprobs: 2, Logprobs: 2, MaxTokens: 3})
	if err != nil || len(reply.Tokens) != 3 || reply.Tokens[1].ID != 299 || reply.Tokens[1].Top[1].ID != 311 || reply.Tokens[1].Text != "" || reply.Prompt[1].Rank != 705 || reply.Text != "\t// " {
		t.Errorf("%+v, %v", reply, err)
	}
	// One that answers for another prompt than was sent is found out.
	if _, _, err = r.ask(c, "completion-ids", chat.Request{Tokens: ids, PromptLogprobs: 2, MaxTokens: 3}); err != nil {
		t.Errorf("the ids are for who asked to compare: %v", err)
	}
	// What was not asked for cannot come, and that is an error.
	var e *chat.Error
	if _, _, err = r.ask(c, "chat", chat.Request{Messages: user("x"), PromptLogprobs: 2}); !errors.As(err, &e) || e.Kind != chat.Malformed {
		t.Errorf("no prompt_logprobs: %v", err)
	}
}

// TestVLLMTools reads calls, whole and in pieces.
func TestVLLMTools(t *testing.T) {
	c, r := record(t, "vllm")
	want := chat.ToolCall{Name: "get_weather", Arguments: `{"city": "부산"}`}
	for _, file := range []string{"tools", "tools-stream", "tools-special", "tools-stream-special"} {
		reply, deltas, err := r.ask(c, file, chat.Request{Messages: user("What is the weather in 부산?"), Tools: weather, Stream: strings.Contains(file, "stream")})
		if err != nil || len(reply.ToolCalls) != 1 || reply.Finish != chat.FinishTools || reply.Text != "" || reply.ToolCalls[0].ID == "" {
			t.Fatalf("%s: %+v, %v", file, reply, err)
		}
		got := reply.ToolCalls[0]
		got.ID = ""
		if got != want {
			t.Errorf("%s: %+v", file, got)
		}
		var told []chat.ToolCall
		for _, d := range deltas {
			told = append(told, d.ToolCalls...)
		}
		if !reflect.DeepEqual(told, reply.ToolCalls) {
			t.Errorf("%s: told %+v", file, told)
		}
		if r.asked["skip_special_tokens"] != false || r.asked["tool_choice"] != nil {
			t.Errorf("asked %v", r.asked)
		}
	}
	reply, _, err := r.ask(c, "tools-none", chat.Request{Messages: user("x"), Tools: weather})
	if err != nil || len(reply.ToolCalls) != 0 || !strings.HasPrefix(reply.Text, `{"name": "get_weather"`) {
		t.Errorf("none: %+v, %v", reply, err)
	}
}

func TestRecordedErrors(t *testing.T) {
	for _, w := range []struct {
		folder, file string
		code         int
		kind         chat.Kind
		in           string
	}{
		{"vllm", "bad-temp", 400, chat.Status, "status 400 Bad Request: temperature must be non-negative"},
		{"vllm", "too-long", 400, chat.Refused, "max_model_len"},
		{"vllm", "wrong-model", 404, chat.Status, "The model `other` does not exist."},
		{"llama", "bad-json", 500, chat.Status, "parse error at line 1"},
		{"llama", "notfound", 404, chat.Status, "File Not Found"},
	} {
		c, r := record(t, w.folder)
		r.code = w.code
		_, _, err := r.ask(c, w.file, chat.Request{Messages: user("x")})
		var e *chat.Error
		if !errors.As(err, &e) || e.Kind != w.kind || e.Code != w.code || !strings.Contains(err.Error(), w.in) {
			t.Errorf("%s %s: %v", w.folder, w.file, err)
		}
	}
}

// TestLlama reads what llama-server answered.
func TestLlama(t *testing.T) {
	c, r := record(t, "llama")
	id, err := c.Identity(t.Context())
	if err != nil || id.Engine != "llama.cpp" || id.Version != "b1-0c1e570" || id.MaxTokens != 1024 || id.Speculative != 0 || id.Model != "SmolLM2-135M-Instruct.Q4_1.gguf" ||
		id.Settings["total_slots"] != "4" || id.Settings["n_vocab"] != "49152" || len(id.Settings["chat_template_sha256"]) != 64 {
		t.Errorf("identity: %+v, %v", id, err)
	}
	n, err := c.Counters(t.Context())
	want := chat.Counters{At: n.At, Prompt: 191 + 857, Generated: 677, Steps: 674, CacheQueries: 191 + 857, CacheHits: 857, Seconds: 28.0099, Speculative: -1}
	if d := cmp.Diff(want, n); d != "" || err != nil {
		t.Errorf("counters: %v\n%s", err, d)
	}
	ids, err := c.Tokenize(t.Context(), "x")
	if err != nil || len(ids) != 17 || ids[0] != 44 {
		t.Errorf("tokenize: %v, %v", ids, err)
	}
	reply, _, err := r.ask(c, "chat", chat.Request{Messages: user("What is 12+30?")})
	if err != nil || reply.Text != "12 + 30 = 32." || reply.CachedTokens != 0 || reply.Fingerprint != "b1-0c1e570" || reply.Finish != chat.FinishStop {
		t.Errorf("chat: %+v, %v", reply, err)
	}
	if r.asked["top_k"] != 0.0 || r.asked["top_p"] != 1.0 || r.asked["min_p"] != 0.0 || r.asked["repeat_penalty"] != 1.0 {
		t.Errorf("asked %v", r.asked)
	}
	reply, _, err = r.ask(c, "chat-stream", chat.Request{Messages: user("x"), Stream: true})
	if err != nil || reply.CompletionTokens != 40 || reply.CachedTokens != 24 || reply.Text == "" || reply.First <= 0 {
		t.Errorf("stream: %+v, %v", reply, err)
	}
	reply, _, err = r.ask(c, "chat-logprobs", chat.Request{Messages: user("x"), Logprobs: 3})
	if err != nil || len(reply.Tokens) != 10 || reply.Tokens[0].ID != 504 || reply.Tokens[0].Top[2].ID != 33085 || reply.Tokens[0].Top[2].Text != "\xed\x95" {
		t.Errorf("logprobs: %+v, %v", reply.Tokens, err)
	}
	reply, _, err = r.ask(c, "chat-logprobs-stream", chat.Request{Messages: user("x"), Logprobs: 3, Stream: true})
	if err != nil || len(reply.Tokens) != 10 || reply.Tokens[9].Text != " unique" || reply.Finish != chat.FinishLength {
		t.Errorf("logprobs: %+v, %v", reply.Tokens, err)
	}
	reply, _, err = r.ask(c, "completion-ids", chat.Request{Tokens: []int32{300, 301}, Logprobs: 2})
	if err != nil || len(reply.Tokens) != 3 || reply.Tokens[2].ID != 32 || reply.Tokens[2].Rank != 1 || reply.Text != " 10" {
		t.Errorf("completion: %+v, %v", reply, err)
	}
	reply, _, err = r.ask(c, "completion-stream", chat.Request{Prompt: "한국의", Logprobs: 2, Stream: true})
	if err != nil || !strings.HasPrefix(reply.Text, " 절소") || reply.CompletionTokens != 12 || reply.Invalid != 0 {
		t.Errorf("completion: %+v, %v", reply, err)
	}
	reply, _, err = r.ask(c, "tools-stream", chat.Request{Messages: user("x"), Tools: weather, Stream: true})
	if err != nil || len(reply.ToolCalls) != 0 || reply.Finish != chat.FinishLength || r.asked["skip_special_tokens"] != nil {
		t.Errorf("tools: %+v, %v", reply, err)
	}
	if _, _, err := r.ask(c, "chat", chat.Request{Tokens: []int32{1, 2}, PromptLogprobs: 2}); !errors.Is(err, chat.ErrUnsupported) {
		t.Errorf("prompt_logprobs: %v", err)
	}
}

// TestMeters holds the differences of what vLLM counted over its recorded answers
// against the answers that it said it gave.
func TestMeters(t *testing.T) {
	read := func(file string) chat.Counters {
		data, err := os.ReadFile(filepath.Join("testdata", "captures", file))
		if err != nil {
			t.Fatal(err)
		}
		m, err := readMetrics(data, "demo")
		if err != nil || m == nil {
			t.Fatal(err)
		}
		return m.counters
	}
	d := read("vllm/metrics-after").Since(read("vllm/metrics-before"))
	if d.Prompt <= 0 || d.Generated <= 0 || d.Steps < d.Generated/4 {
		t.Errorf("%+v", d)
	}
	d = read("llama/metrics-after").Since(read("llama/metrics-before"))
	if d.Prompt <= 0 || d.Generated <= 0 || math.Abs(float64(d.Steps)/float64(d.Generated)-1) > 0.1 {
		t.Errorf("%+v", d)
	}
}

// TestPieces reads a recorded stream cut into pieces of every size.
func TestPieces(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "captures", "vllm", "tools-stream"))
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{o: Options{}.filled()}
	for n := 1; n < 200; n += 1 + n/8 {
		g := newGathering(&asked{}, chat.Request{}, nil, nowhere)
		if err := c.readStream(&slowly{data, n}, g); err != nil {
			t.Fatal(n, err)
		}
		if r := g.reply(); len(r.ToolCalls) != 1 || r.ToolCalls[0].Arguments != `{"city": "부산"}` {
			t.Fatal(n, r)
		}
	}
}

// slowly gives n bytes at a time.
type slowly struct {
	data []byte
	n    int
}

func (s *slowly) Read(p []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.n)], s.data)
	s.data = s.data[n:]
	return n, nil
}

// A place of a prompt that tells of other tokens alone, as of the place after it, is an
// error that says so, and nothing of it is taken for the true one's.
func TestPlaceOfOthers(t *testing.T) {
	for what, c := range map[string]struct {
		place string
		known bool
	}{
		"first": {`{"5":{"logprob":-1,"rank":1,"decoded_token":"a"},"6":{"logprob":-2,"rank":2,"decoded_token":"b"}}`, true},
		"later": {`{"6":{"logprob":-0.5,"rank":1,"decoded_token":"b"},"5":{"logprob":-1,"rank":2,"decoded_token":"a"}}`, true},
		"none":  {`{"6":{"logprob":-0.5,"rank":1,"decoded_token":"b"},"7":{"logprob":-2,"rank":2,"decoded_token":"c"}}`, false},
	} {
		n, err := parseJSON([]byte(c.place))
		if err != nil {
			t.Fatal(err)
		}
		token := chat.Token{ID: 5}
		err = place(&token, n)
		if c.known && (err != nil || token.Logprob != -1 || token.Text != "a") || !c.known && !errors.Is(err, chat.ErrOtherTokens) || token.Known != c.known {
			t.Errorf("%s: %+v, %v", what, token, err)
		}
	}
}
