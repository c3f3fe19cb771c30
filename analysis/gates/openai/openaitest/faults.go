package openaitest

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Fault is a way to misbehave.
type Fault string

// Faults. Those about streams do nothing to whole answers, but that Cut and Stall
// come in the middle of either.
const (
	None        Fault = ""
	Silent      Fault = "silent"        // takes the request and never answers
	Stall       Fault = "stall"         // stops in the middle and never goes on
	Trickle     Fault = "trickle"       // sends comments for ever, and no answer
	Cut         Fault = "cut"           // ends in the middle
	Hangup      Fault = "hangup"        // ends the connection before any answer
	RateLimit   Fault = "429"           // status 429, Retry-After: 0
	Unavailable Fault = "503"           // status 503
	BadRequest  Fault = "400"           // status 400 in OpenAI's form
	TooLong     Fault = "too long"      // status 400, as of a prompt beyond the context
	PlainError  Fault = "plain error"   // status 500, a line of text
	HTML        Fault = "html"          // a page, status 200
	Gateway     Fault = "gateway"       // a page, status 502
	Empty       Fault = "empty"         // an empty body
	NoJSON      Fault = "no json"       // something else
	NoChoice    Fault = "no choice"     // an empty list of choices
	EmptyChoice Fault = "empty choice"  // a choice with nothing in it
	NullContent Fault = "null content"  // a message whose content is null
	InBand      Fault = "in band"       // an error with status 200
	OtherModel  Fault = "other model"   // another model answers
	Endless     Fault = "endless"       // an answer without an end
	Redirect    Fault = "redirect"      // to another host
	Bomb        Fault = "bomb"          // packed, and much larger than it looks
	NoDone      Fault = "no done"       // a stream without [DONE]
	NoFinish    Fault = "no finish"     // a stream that ends with neither a reason nor [DONE]
	KeepAlive   Fault = "keep-alive"    // comments between events, lines that end in CR LF
	Lines       Fault = "lines"         // events whose data is in several lines
	Whole       Fault = "not a stream"  // answers whole where a stream was asked for
	InBandLate  Fault = "in band, late" // an error in the middle of a stream
)

// Faults lists those after which there is no answer.
func Faults() []Fault {
	return []Fault{
		Silent, Stall, Trickle, Cut, Hangup, Unavailable, BadRequest, TooLong, PlainError, HTML, Gateway, Empty,
		NoJSON, NoChoice, EmptyChoice, InBand, OtherModel, Endless, Redirect, Bomb,
	}
}

// bomb is 8 MiB of zeros, packed.
var bomb = sync.OnceValue(func() string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for range 8 {
		_, _ = z.Write(make([]byte, 1<<20))
	}
	_ = z.Close()
	return b.String()
})

const htmlPage = "<!DOCTYPE html>\n<html><head><title>Bad gateway</title></head><body>nginx</body></html>"

// misbehave does what ends an answer before there is one, and says whether it did.
func (s *Server) misbehave(w http.ResponseWriter, r *http.Request, f Fault) bool {
	body := func(kind string, code int, text string) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
	switch f {
	case Silent:
		s.hang(r)
	case Trickle:
		w.Header().Set("Content-Type", "text/event-stream")
		for s.alive(r) {
			if _, err := io.WriteString(w, strings.Repeat(": wait\n\n", 100)); err != nil {
				break
			}
			flush(w)
		}
	case Hangup:
		panic(http.ErrAbortHandler)
	case RateLimit:
		w.Header().Set("Retry-After", "0")
		refuse(w, http.StatusTooManyRequests, "rate_limit_exceeded", "slow down")
	case Unavailable:
		refuse(w, http.StatusServiceUnavailable, "unavailable_error", "Loading model")
	case BadRequest:
		refuse(w, http.StatusBadRequest, "invalid_request_error", "temperature must be\nnon-negative")
	case TooLong:
		refuse(w, http.StatusBadRequest, "BadRequestError", "This model's maximum context length is 64 tokens.")
	case PlainError:
		body("text/plain", http.StatusInternalServerError, "Internal Server Error\n\x1b[2J")
	case HTML:
		body("text/html", http.StatusOK, htmlPage)
	case Gateway:
		body("text/html", http.StatusBadGateway, htmlPage)
	case Empty:
		body("application/json", http.StatusOK, "")
	case NoJSON:
		body("application/json", http.StatusOK, "OK, "+strings.Repeat("so be it ", 40))
	case NoChoice:
		body("application/json", http.StatusOK, `{"model":"`+s.script.Models[0]+`","choices":[]}`)
	case EmptyChoice:
		body("application/json", http.StatusOK, `{"model":"`+s.script.Models[0]+`","choices":[{}]}`)
	case InBand:
		body("application/json", http.StatusOK, `{"error":{"message":"CUDA out of memory","code":500}}`)
	case Endless:
		w.Header().Set("Content-Type", "application/json")
		for s.alive(r) {
			if _, err := io.WriteString(w, strings.Repeat(" ", 1<<16)); err != nil {
				break
			}
		}
	case Redirect:
		to := s.script.Elsewhere
		if to == "" {
			to = "http://elsewhere.invalid"
		}
		http.Redirect(w, r, to+r.URL.Path, http.StatusTemporaryRedirect)
	case Bomb:
		w.Header().Set("Content-Encoding", "gzip")
		body("application/json", http.StatusOK, bomb())
	default:
		return false
	}
	return true
}

func (s *Server) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.closed:
	}
}

func (s *Server) alive(r *http.Request) bool {
	select {
	case <-r.Context().Done():
		return false
	case <-s.closed:
		return false
	default:
		return true
	}
}

func flush(w http.ResponseWriter) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}
