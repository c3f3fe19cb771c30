package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/openai/openaitest"
)

// quick bounds waits that tests let run out.
const quick = 150 * time.Millisecond

func open(t *testing.T, base string, o Options) *Client {
	t.Helper()
	c, err := Open(t.Context(), base, o)
	if err != nil {
		t.Fatal(err)
	}
	c.wait = func(ctx context.Context, d time.Duration) error { return ctx.Err() }
	t.Cleanup(func() { c.Close() })
	return c
}

func always(f openaitest.Fault) func(int, openaitest.Question) openaitest.Fault {
	return func(int, openaitest.Question) openaitest.Fault { return f }
}

func hello(stream bool) chat.Request {
	return chat.Request{Messages: []chat.Message{{Role: chat.User, Content: "안녕하세요, how are you? 🙂"}}, MaxTokens: 32, Stream: stream}
}

// TestFaults asks servers that misbehave in each way: what comes is an error of the
// stated kind, in one line, with the address in it and without the key, in bounded
// time, and what had come of a text is kept.
func TestFaults(t *testing.T) {
	t.Setenv("QUANTSCOPE_API_KEY", "sk-secret-0123456789")
	type want struct {
		kind  chat.Kind
		code  int
		in    string // of the message
		asked int    // times; 0: once
	}
	both := map[openaitest.Fault]want{
		openaitest.Silent:      {kind: chat.Timeout, in: "within"},
		openaitest.Trickle:     {kind: chat.Timeout, in: "did not end within"},
		openaitest.Hangup:      {kind: chat.Absent, in: "no connection, or it ended", asked: 3},
		openaitest.Unavailable: {kind: chat.Status, code: 503, in: "Loading model", asked: 3},
		openaitest.BadRequest:  {kind: chat.Status, code: 400, in: "temperature must be non-negative"},
		openaitest.TooLong:     {kind: chat.Refused, code: 400, in: "maximum context length is 64"},
		openaitest.PlainError:  {kind: chat.Status, code: 500, in: "Internal Server Error: Internal Server Error [2J", asked: 3},
		openaitest.HTML:        {kind: chat.Malformed, in: `a page of HTML, titled "Bad gateway"`},
		openaitest.Gateway:     {kind: chat.Status, code: 502, in: `a page of HTML, titled "Bad gateway"`, asked: 3},
		openaitest.Empty:       {kind: chat.Malformed, in: "empty body"},
		openaitest.NoJSON:      {kind: chat.Malformed, in: "no JSON"},
		openaitest.NoChoice:    {kind: chat.Malformed, in: "no choice"},
		openaitest.EmptyChoice: {kind: chat.Malformed, in: "empty choice"},
		openaitest.InBand:      {kind: chat.Status, code: 500, in: "CUDA out of memory"},
		openaitest.OtherModel:  {kind: chat.Wrong, in: `"someone-else" answers, "test-model" was asked`},
		openaitest.Endless:     {kind: chat.Malformed, in: "longer than"},
		openaitest.Redirect:    {kind: chat.Malformed, in: "another host"},
		openaitest.Bomb:        {kind: chat.Malformed, in: "gzip"},
		openaitest.Cut:         {kind: chat.Cut, in: "in the middle"},
		openaitest.Stall:       {kind: chat.Timeout, in: "did not end within"},
	}
	streamed := map[openaitest.Fault]want{
		openaitest.Stall:      {kind: chat.Timeout, in: "nothing came for"},
		openaitest.InBandLate: {kind: chat.Status, code: 500, in: "the engine died"},
		openaitest.NoFinish:   {kind: chat.Cut, in: "ended in the middle"},
	}
	for _, f := range openaitest.Faults() {
		if _, ok := both[f]; !ok {
			t.Errorf("fault %q is not tried", f)
		}
	}
	try := func(f openaitest.Fault, w want, stream bool) {
		name := string(f)
		if stream {
			name += ", streamed"
		}
		t.Run(name, func(t *testing.T) {
			s := openaitest.Start(t, openaitest.Script{Fault: always(f), Key: "sk-secret-0123456789"})
			c := open(t, s.URL, Options{MaxBytes: 1 << 20})
			switch f { // the others answer at once, on however busy a machine
			case openaitest.Silent:
				c.o.Timeout, c.o.First = 2*quick, quick
			case openaitest.Trickle:
				c.o.Timeout, c.o.MaxBytes = 2*quick, 1<<40
			case openaitest.Stall:
				c.o.Timeout, c.o.Idle = 2*quick, time.Minute
				if stream {
					c.o.Timeout, c.o.Idle = time.Minute, 4*quick
				}
			}
			var told strings.Builder
			reply, err := c.Ask(t.Context(), hello(stream), func(d chat.Delta) { told.WriteString(d.Text) })
			var e *chat.Error
			if !errors.As(err, &e) {
				t.Fatalf("error %v", err)
			}
			if e.Kind != w.kind || e.Code != w.code || !strings.Contains(err.Error(), w.in) {
				t.Errorf("kind %s, code %d: %v; want %s, %d, %q", e.Kind, e.Code, err, w.kind, w.code, w.in)
			}
			if !strings.HasPrefix(err.Error(), s.URL) || strings.ContainsAny(err.Error(), "\n\x1b") || strings.Contains(err.Error(), "secret") {
				t.Errorf("message %q", err)
			}
			if n := len(s.Answers()); n != max(1, w.asked) || reply.Retries != max(1, w.asked)-1 {
				t.Errorf("asked %d times, told of %d retries", n, reply.Retries)
			}
			if stream && (f == openaitest.Stall || f == openaitest.Cut || f == openaitest.InBandLate || f == openaitest.NoFinish) {
				if reply.Text == "" || !strings.HasPrefix(hello(false).Messages[0].Content, reply.Text) || told.String() != reply.Text {
					t.Errorf("kept %q, told %q", reply.Text, told.String())
				}
			}
		})
	}
	for f, w := range both {
		try(f, w, false)
		if _, ok := streamed[f]; !ok {
			try(f, w, true)
		}
	}
	for f, w := range streamed {
		try(f, w, true)
	}
}

// TestBorne asks servers that are odd and whose answers are whole all the same.
func TestBorne(t *testing.T) {
	for _, f := range []openaitest.Fault{openaitest.None, openaitest.NoDone, openaitest.KeepAlive, openaitest.Lines, openaitest.Whole} {
		s := openaitest.Start(t, openaitest.Script{Fault: always(f), Piece: 1})
		reply, err := open(t, s.URL, Options{}).Ask(t.Context(), hello(true), nil)
		if err != nil || reply.Text != hello(true).Messages[0].Content || reply.Finish != chat.FinishStop || reply.CompletionTokens != 3 || reply.Invalid != 0 {
			t.Errorf("%q: %+v, %v", f, reply, err)
		}
		if (reply.First > 0) != (f != openaitest.Whole) || reply.Total < reply.First {
			t.Errorf("%q: first %v of %v", f, reply.First, reply.Total)
		}
	}
	s := openaitest.Start(t, openaitest.Script{Fault: always(openaitest.NullContent)})
	reply, err := open(t, s.URL, Options{}).Ask(t.Context(), hello(false), nil)
	if err != nil || reply.Text != "" {
		t.Errorf("null content: %+v, %v", reply, err)
	}
}

// TestRetries holds that what nothing came of is asked again, and tells how often.
func TestRetries(t *testing.T) {
	s := openaitest.Start(t, openaitest.Script{Fault: func(n int, _ openaitest.Question) openaitest.Fault {
		return []openaitest.Fault{openaitest.RateLimit, openaitest.Hangup, openaitest.None}[min(n, 2)]
	}})
	reply, err := open(t, s.URL, Options{}).Ask(t.Context(), hello(true), nil)
	if err != nil || reply.Retries != 2 || reply.Text == "" {
		t.Errorf("%+v, %v", reply, err)
	}
	s = openaitest.Start(t, openaitest.Script{Fault: always(openaitest.RateLimit)})
	_, err = open(t, s.URL, Options{Retries: -1}).Ask(t.Context(), hello(false), nil)
	var e *chat.Error
	if !errors.As(err, &e) || e.Code != 429 || len(s.Answers()) != 1 {
		t.Errorf("%v after %d", err, len(s.Answers()))
	}
}

// TestRetryWithin holds that a server that wants to be asked again later than an
// answer may take is not waited for: what it said comes at once.
func TestRetryWithin(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1000000000")
		http.Error(w, "busy", http.StatusServiceUnavailable)
	}))
	t.Cleanup(s.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := Open(ctx, s.URL, Options{Timeout: 2 * time.Second})
	var e *chat.Error
	if !errors.As(err, &e) || e.Kind != chat.Status || e.Code != http.StatusServiceUnavailable || ctx.Err() != nil {
		t.Errorf("%v", err)
	}
	c := &Client{o: Options{Timeout: 2 * time.Second, Retries: 2, MaxBytes: 1 << 20}.filled(), http: s.Client(), wait: sleep, server: served{model: "m"}}
	if c.base, err = parseAddress(s.URL); err != nil {
		t.Fatal(err)
	}
	if _, err = c.Ask(ctx, hello(false), nil); !errors.As(err, &e) || e.Kind != chat.Status || ctx.Err() != nil {
		t.Errorf("%v", err)
	}
}

// TestEnding holds that servers' own names of reasons to end are those that are
// looked for, and that others stay what they are.
func TestEnding(t *testing.T) {
	for f, want := range map[string]string{
		"stop": chat.FinishStop, "length": chat.FinishLength, "tool_calls": chat.FinishTools, "function_call": chat.FinishTools,
		"max_tokens": chat.FinishLength, "eos_token": chat.FinishStop, "content_filter": "content_filter", "abort": "abort",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
				return
			}
			_, _ = fmt.Fprintf(w, `{"model":"m","choices":[{"index":0,"message":{"content":"a"},"finish_reason":%q}]}`, f)
		}))
		if got, err := open(t, s.URL, Options{}).Ask(t.Context(), hello(false), nil); err != nil || got.Finish != want {
			t.Errorf("%s: %q, %v; want %q", f, got.Finish, err, want)
		}
		s.Close()
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for v, want := range map[string]time.Duration{
		"": -1, "0": 0, "2": 2 * time.Second, "0.5": 500 * time.Millisecond, "1e300": maxRetry, "NaN": -1, "-3": -1, "soon": -1,
		"Mon, 30 Nov 2026 12:00:05 GMT": 5 * time.Second, "Mon, 30 Nov 2026 11:00:00 GMT": 0,
	} {
		h := http.Header{"Retry-After": {v}}
		if got := retryAfter(h, now); got != want {
			t.Errorf("%q: %v, want %v", v, got, want)
		}
	}
	limited := &chat.Error{Kind: chat.Status, Code: 429}
	if d, ok := again(limited, 0, time.Hour); d != maxRetry || !ok {
		t.Errorf("an hour: %v, %v", d, ok)
	}
	for n := range 100 {
		if d, ok := again(limited, n, -1); d <= 0 || d > maxRetry || !ok {
			t.Errorf("%d: %v, %v", n, d, ok)
		}
	}
	for _, e := range []error{nil, io.EOF, &chat.Error{Kind: chat.Cut}, &chat.Error{Kind: chat.Status, Code: 400}, &chat.Error{Kind: chat.Status, Code: 501}} {
		if _, ok := again(e, 0, -1); ok {
			t.Errorf("%v would be asked again", e)
		}
	}
}

// TestAbsent holds that nobody at a port is an error of kind Absent.
func TestAbsent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	_, err = Open(t.Context(), at, Options{Retries: -1})
	var e *chat.Error
	if !errors.As(err, &e) || e.Kind != chat.Absent || !strings.Contains(err.Error(), at) {
		t.Errorf("%v", err)
	}
}

// TestContext holds that a context that ends, ends an answer, and is in its error.
func TestContext(t *testing.T) {
	s := openaitest.Start(t, openaitest.Script{Fault: always(openaitest.Stall)})
	for _, stream := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		c := open(t, s.URL, Options{})
		var came atomic.Bool
		if !stream {
			time.AfterFunc(quick/5, cancel)
		}
		reply, err := c.Ask(ctx, hello(stream), func(d chat.Delta) {
			if d.Text != "" {
				came.Store(true)
				cancel()
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) || came.Load() != stream || (reply.Text != "") != stream {
			t.Errorf("stream %v: %q, %v", stream, reply.Text, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), quick/5)
	defer cancel()
	_, err := open(t, s.URL, Options{}).Ask(ctx, hello(true), nil)
	var e *chat.Error
	if !errors.As(err, &e) || e.Kind != chat.Timeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// TestRedirect holds that a key does not follow a redirect to another host.
func TestRedirect(t *testing.T) {
	t.Setenv("QUANTSCOPE_API_KEY", "sk-secret-0123456789")
	other := openaitest.Start(t, openaitest.Script{})
	s := openaitest.Start(t, openaitest.Script{Fault: always(openaitest.Redirect), Elsewhere: other.URL})
	if _, err := open(t, s.URL, Options{}).Ask(t.Context(), hello(false), nil); err == nil {
		t.Error("followed")
	}
	if n := len(other.Asked()); n > 0 {
		t.Errorf("%d requests followed", n)
	}
}
