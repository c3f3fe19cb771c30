package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"quantscope/analysis/gates/chat"
)

// form makes the chunks of a stream.
type form struct {
	open   func(i int) any                 // the first of an answer; nil for none
	piece  func(i int, d chat.Delta) []any // of what was made
	finish func(i int, r *chat.Reply) any  // the last of an answer
	usage  func(usage json.RawMessage) any // of all, where it is asked for
}

// sse writes server-sent events. A client that does not read within a bound is gone.
type sse struct {
	w       http.ResponseWriter
	control *http.ResponseController
	slow    time.Duration
	begun   bool
	err     error
}

// send writes one event; after an error nothing is written.
func (e *sse) send(text []byte) {
	if e.err != nil {
		return
	}
	if !e.begun {
		e.begun = true
		h := e.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // proxies would hold it back
		e.w.WriteHeader(http.StatusOK)
	}
	_ = e.control.SetWriteDeadline(time.Now().Add(e.slow)) // not every writer has deadlines
	if _, e.err = e.w.Write([]byte("data: " + string(text) + "\n\n")); e.err != nil {
		return
	}
	if err := e.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		e.err = err
	}
}

// document sends JSON.
func (e *sse) document(v any) {
	text, err := encode(v)
	if err != nil {
		e.err = errors.Join(e.err, err)
		return
	}
	e.send(text)
}

// streamed is what of one answer was sent.
type streamed struct {
	text, reasoning strings.Builder
	tokens, calls   int
}

func (p *streamed) add(d *chat.Delta) {
	p.text.WriteString(d.Text)
	p.reasoning.WriteString(d.Reasoning)
	p.tokens += len(d.Tokens)
	p.calls += len(d.ToolCalls)
}

// rest is what of the whole was not sent in pieces.
func (p *streamed) rest(r *chat.Reply) chat.Delta {
	var d chat.Delta
	d.Text, _ = strings.CutPrefix(r.Text, p.text.String())
	if !strings.HasPrefix(r.Text, p.text.String()) {
		d.Text = ""
	}
	if rest, ok := strings.CutPrefix(r.Reasoning, p.reasoning.String()); ok {
		d.Reasoning = rest
	}
	d.Tokens = r.Tokens[min(p.tokens, len(r.Tokens)):]
	d.ToolCalls = r.ToolCalls[min(p.calls, len(r.ToolCalls)):]
	return d
}

// stream answers with events. What goes wrong before the first is an answer with an
// error status, and afterwards an event with the error, without [DONE].
func (s *Server) stream(w http.ResponseWriter, r *http.Request, requests []chat.Request, n int, tell bool, f form) *apiError {
	a := s.ask(r.Context(), requests)
	defer a.close()
	out := &sse{w: w, control: http.NewResponseController(w), slow: s.o.Slow}
	defer func() { _ = out.control.SetWriteDeadline(time.Time{}) }()
	var u usage
	why := ""
	sent := make([]streamed, len(requests))
	for {
		news, ok := a.next()
		if !ok {
			break
		}
		for _, e := range news {
			switch {
			case out.err != nil: // the rest only ends
				continue
			case e.err != nil:
				a.stop()
				if failed := s.streamError(r, out, e.err); failed != nil {
					return failed
				}
				out.err = e.err
				continue
			}
			if !out.begun && f.open != nil {
				for i := range requests {
					out.document(f.open(i))
				}
			}
			d := e.delta
			if e.done {
				d = sent[e.at].rest(&e.reply)
			}
			sent[e.at].add(&d)
			for _, chunk := range f.piece(e.at, d) {
				out.document(chunk)
			}
			if e.done {
				u.add(&e.reply, e.at%n == 0)
				why = e.reply.Finish
				out.document(f.finish(e.at, &e.reply))
			}
			if out.err != nil { // nobody reads
				a.stop()
			}
		}
	}
	if out.err != nil {
		return nil
	}
	if tell {
		if text, err := encode(&u); err == nil {
			out.document(f.usage(text))
		}
	}
	out.send([]byte("[DONE]"))
	noteUsage(w, &u, why)
	return nil
}

// streamError says what went wrong: as the answer where nothing was sent.
func (s *Server) streamError(r *http.Request, out *sse, err error) *apiError {
	if s.gone(r) {
		return nil
	}
	e := asError(err)
	if !out.begun {
		return e
	}
	out.document(e.body())
	return nil
}

// replies waits for all answers of a request that is not streamed. Without replies and
// without an error the client is gone.
func (s *Server) replies(w http.ResponseWriter, r *http.Request, requests []chat.Request, n int) ([]chat.Reply, *usage, *apiError) {
	a := s.ask(r.Context(), requests)
	defer a.close()
	replies, err := a.whole(len(requests))
	switch {
	case err != nil && s.gone(r):
		return nil, nil, nil
	case err != nil:
		return nil, nil, asError(err)
	}
	u := &usage{}
	for i := range replies {
		u.add(&replies[i], i%n == 0)
	}
	noteUsage(w, u, replies[len(replies)-1].Finish)
	return replies, u, nil
}

// gone says that the client does not wait any more, and that it was not the server
// that ended.
func (s *Server) gone(r *http.Request) bool {
	return errors.Is(r.Context().Err(), context.Canceled) && !s.cut.Load()
}
