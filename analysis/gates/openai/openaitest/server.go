package openaitest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"quantscope/analysis/gates/chat"
)

// Model is the name of the model that a script without models serves.
const Model = "test-model"

// Script says what a server is and what it answers.
type Script struct {
	Engine    string   // as it presents itself: vllm, llama.cpp, quantscope, sglang; "": none that is known
	Version   string   // "": 1.2.3
	Models    []string // that it lists; nil: Model
	MaxTokens int      // of prompt and answer, as it tells; 0: not told
	Key       string   // that it wants as a bearer's token; "": none

	// Answer is what it answers; nil: the prompt again. Tokens become logprobs where
	// they were asked for, Prompt prompt_logprobs.
	Answer func(Question) chat.Reply
	// Fault says how it misbehaves at its n-th answer, from 0; nil: never.
	Fault func(n int, q Question) Fault
	// Metrics is the text of /metrics; nil: there is none.
	Metrics func() string
	// Tokenize gives the ids of a text; nil: its bytes.
	Tokenize func(text string) []int32
	// Piece is how many bytes of a text an event of a stream brings; 0: 4. Pieces cut
	// through characters.
	Piece int
	// Elsewhere is where Redirect leads; "": another host that is not there.
	Elsewhere string
}

// Question is a request that came.
type Question struct {
	Method, Path string
	Header       http.Header
	Raw          []byte
	Body         map[string]any
}

// Prompt is what was asked: the text of the last message, or the prompt.
func (q Question) Prompt() string {
	if ms, ok := q.Body["messages"].([]any); ok && len(ms) > 0 {
		m, _ := ms[len(ms)-1].(map[string]any)
		s, _ := m["content"].(string)
		return s
	}
	s, _ := q.Body["prompt"].(string)
	return s
}

// Int is a whole number of the body, or what is given where it has none.
func (q Question) Int(name string, or int) int {
	if v, ok := q.Body[name].(float64); ok {
		return int(v)
	}
	return or
}

// True says whether a field of the body is true.
func (q Question) True(name string) bool { v, _ := q.Body[name].(bool); return v }

// Server answers by a script until its test ends.
type Server struct {
	URL string

	script Script
	http   *httptest.Server
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex
	asked []Question
	n     int // answers begun
}

// Start starts a server, which ends with the test.
func Start(t testing.TB, s Script) *Server {
	t.Helper()
	if s.Models == nil {
		s.Models = []string{Model}
	}
	if s.Version == "" {
		s.Version = "1.2.3"
	}
	if s.Piece <= 0 {
		s.Piece = 4
	}
	srv := &Server{script: s, closed: make(chan struct{})}
	srv.http = httptest.NewServer(srv)
	srv.URL = srv.http.URL
	t.Cleanup(srv.Close)
	return srv
}

// Close ends the server and whatever hangs in it. It may be called again.
func (s *Server) Close() {
	s.once.Do(func() {
		close(s.closed)
		s.http.CloseClientConnections()
		s.http.Close()
	})
}

// Asked are the requests that came so far, in order.
func (s *Server) Asked() []Question {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Question(nil), s.asked...)
}

// Answers are those of them that asked for an answer.
func (s *Server) Answers() []Question {
	var out []Question
	for _, q := range s.Asked() {
		if strings.HasSuffix(q.Path, "/completions") {
			out = append(out, q)
		}
	}
	return out
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := Question{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone()}
	q.Raw, _ = io.ReadAll(io.LimitReader(r.Body, 64<<20)) // a body that is cut is no JSON below
	_ = json.Unmarshal(q.Raw, &q.Body)
	s.mu.Lock()
	s.asked = append(s.asked, q)
	n := s.n
	if strings.HasSuffix(q.Path, "/completions") {
		s.n++
	}
	s.mu.Unlock()
	if s.script.Engine == "llama.cpp" {
		w.Header().Set("Server", "llama.cpp")
	}
	if s.script.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.script.Key {
		refuse(w, http.StatusUnauthorized, "invalid_request_error", "no key, or a wrong one: "+r.Header.Get("Authorization"))
		return
	}
	switch q.Method + " " + q.Path {
	case "GET /v1/models":
		s.models(w)
	case "GET /version":
		s.version(w)
	case "GET /props":
		s.props(w)
	case "GET /metrics":
		if s.script.Metrics == nil {
			refuse(w, http.StatusNotFound, "NotFoundError", "Not Found")
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, s.script.Metrics())
	case "POST /tokenize":
		s.tokenize(w, q)
	case "POST /v1/chat/completions", "POST /v1/completions":
		s.answer(w, r, q, n)
	default:
		refuse(w, http.StatusNotFound, "NotFoundError", "Not Found")
	}
}

func (s *Server) models(w http.ResponseWriter) {
	owner := map[string]string{"llama.cpp": "llamacpp"}[s.script.Engine]
	if owner == "" {
		owner = s.script.Engine
	}
	data := []map[string]any{}
	for _, m := range s.script.Models {
		d := map[string]any{"id": m, "object": "model", "owned_by": owner}
		if s.script.MaxTokens > 0 && s.script.Engine != "llama.cpp" {
			d["max_model_len"] = s.script.MaxTokens
		}
		data = append(data, d)
	}
	writeJSON(w, map[string]any{"object": "list", "data": data})
}

func (s *Server) version(w http.ResponseWriter) {
	if s.script.Engine == "" || s.script.Engine == "llama.cpp" {
		refuse(w, http.StatusNotFound, "NotFoundError", "Not Found")
		return
	}
	writeJSON(w, map[string]any{"version": s.script.Version})
}

func (s *Server) props(w http.ResponseWriter) {
	if s.script.Engine != "llama.cpp" {
		refuse(w, http.StatusNotFound, "NotFoundError", "Not Found")
		return
	}
	writeJSON(w, map[string]any{
		"build_info": s.script.Version, "total_slots": 4, "chat_template": "{{ messages }}",
		"default_generation_settings": map[string]any{"n_ctx": s.script.MaxTokens, "params": map[string]any{"speculative.types": "none"}},
	})
}

func (s *Server) tokenize(w http.ResponseWriter, q Question) {
	name := "prompt"
	if s.script.Engine == "llama.cpp" {
		name = "content"
	}
	text, ok := q.Body[name].(string)
	if !ok || s.script.Engine == "" {
		refuse(w, http.StatusNotFound, "NotFoundError", "Not Found")
		return
	}
	ids := []int32{}
	if s.script.Tokenize != nil {
		ids = append(ids, s.script.Tokenize(text)...)
	} else {
		for i := range len(text) {
			ids = append(ids, int32(text[i]))
		}
	}
	writeJSON(w, map[string]any{"count": len(ids), "tokens": ids})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, code int, kind, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": why, "type": kind, "code": code}})
}
