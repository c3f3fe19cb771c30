package serve

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"quantscope/analysis/gates/chat"
)

// Engine is what is served; *local.Engine is one.
type Engine interface {
	Ask(ctx context.Context, r chat.Request, each func(chat.Delta)) (chat.Reply, error)
	Identity(ctx context.Context) (chat.Identity, error)
	Counters(ctx context.Context) (chat.Counters, error)
	Tokenize(ctx context.Context, text string) ([]int32, error) // without special tokens added
	Detokenize(ids []int32) string
	PromptIDs(r chat.Request) ([]int32, error) // that an answer goes on from
	Fits() int                                 // tokens of a prompt and its answer together
	Busy() (running, waiting int)
}

// Options of a server.
type Options struct {
	Model   string            // the name that it serves; "": the candidate's label
	Key     string            // that clients must send; "": none
	Version string            // of the program
	Log     func(line string) // told of each request that ended; may be called from many goroutines, may be nil
	MaxBody int64             // bytes of a request; 0: 16 MiB
	MaxBusy int               // answers that are made or wait, beyond which requests are turned away; 0: 512
	Slow    time.Duration     // that one write to a client, or the body of a request, may take; 0: 30 s
}

// Bounds of requests.
const (
	maxBody     = 16 << 20
	maxBusy     = 512
	slow        = 30 * time.Second
	maxChoices  = 128     // prompts × n of one request
	maxTop      = 1000    // likeliest tokens of a place
	maxAlts     = 1 << 24 // of those, in all that one request may come to
	maxStops    = 32
	maxStopSize = 1 << 10
)

// Server is the handler of a served engine.
type Server struct {
	engine   Engine
	o        Options
	began    time.Time
	mux      *http.ServeMux
	meters   *meters
	who      whoCache
	draining atomic.Bool // new requests are turned away
	cut      atomic.Bool // answers that did not end in time were broken off
}

// Handler serves an engine.
func Handler(e Engine, o Options) http.Handler { return New(e, o) }

// New makes a Server of an engine, which stays the caller's.
func New(e Engine, o Options) *Server {
	if o.MaxBody <= 0 {
		o.MaxBody = maxBody
	}
	if o.MaxBusy <= 0 {
		o.MaxBusy = maxBusy
	}
	if o.Slow <= 0 {
		o.Slow = slow
	}
	s := &Server{engine: e, o: o, began: time.Now(), mux: http.NewServeMux(), meters: newMeters()}
	s.route("/v1/chat/completions", http.MethodPost, s.chatCompletions)
	s.route("/v1/completions", http.MethodPost, s.completions)
	s.route("/v1/models", http.MethodGet, s.models)
	s.route("/v1/models/{id...}", http.MethodGet, s.model)
	s.route("/tokenize", http.MethodPost, s.tokenize)
	s.route("/detokenize", http.MethodPost, s.detokenize)
	s.route("/health", http.MethodGet, s.health)
	s.route("/version", http.MethodGet, s.version)
	s.route("/metrics", http.MethodGet, s.metrics)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, &apiError{Status: http.StatusNotFound, Message: fmt.Sprintf("there is no %s here", shorten(r.URL.EscapedPath()))})
	})
	return s
}

// route adds a path that takes one method, or GET and HEAD.
func (s *Server) route(path, method string, h func(http.ResponseWriter, *http.Request) *apiError) {
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method && !(method == http.MethodGet && r.Method == http.MethodHead) {
			w.Header().Set("Allow", method)
			s.fail(w, &apiError{Status: http.StatusMethodNotAllowed, Message: fmt.Sprintf("%s takes %s, not %s", shorten(r.URL.EscapedPath()), method, shorten(r.Method))})
			return
		}
		if err := h(w, r); err != nil {
			s.fail(w, err)
		}
	})
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	said := &said{ResponseWriter: w}
	switch {
	case !s.allowed(r):
		w.Header().Set("WWW-Authenticate", "Bearer")
		s.fail(said, &apiError{Status: http.StatusUnauthorized, Code: "invalid_api_key", Message: "a key is needed, as Authorization: Bearer KEY, and this one is not it"})
	default:
		s.mux.ServeHTTP(said, r)
	}
	if s.o.Log != nil {
		status := said.status
		if status == 0 { // nothing was written: the client is gone
			status = statusGone
		}
		s.o.Log(strings.TrimRight(fmt.Sprintf("%s %s %d %.2fs %s", shorten(r.Method), shorten(r.URL.EscapedPath()), status, time.Since(began).Seconds(), said.note), " "))
	}
}

// allowed says whether a request has the key. Whether the server lives may be asked
// without.
func (s *Server) allowed(r *http.Request) bool {
	if s.o.Key == "" || r.URL.Path == "/health" {
		return true
	}
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(strings.TrimSpace(key)), []byte(s.o.Key)) == 1
}

// Drain turns new requests away; answers that are being made go on.
func (s *Server) Drain() { s.draining.Store(true) }

// admit turns a request away where the server ends or has too much to do.
func (s *Server) admit(answers int) *apiError {
	if s.draining.Load() {
		return &apiError{Status: http.StatusServiceUnavailable, Code: "shutting_down", Message: "the server is ending"}
	}
	running, waiting := s.engine.Busy()
	if running+waiting+answers > s.o.MaxBusy && running+waiting > 0 {
		return &apiError{Status: http.StatusServiceUnavailable, Code: "overloaded", Message: fmt.Sprintf("%d answers are being made or wait, and at most %d may", running+waiting, s.o.MaxBusy)}
	}
	return nil
}

// statusGone is what logs call an answer that nobody waited for.
const statusGone = 499

// said remembers what a response said, for the log.
type said struct {
	http.ResponseWriter
	status int
	note   string
}

func (w *said) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *said) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap gives http.ResponseController what is below.
func (w *said) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// shorten keeps what a client sent short in messages.
func shorten(s string) string {
	const most = 80
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
