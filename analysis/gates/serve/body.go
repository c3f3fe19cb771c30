package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// body is a JSON object that a client sent. What is read is taken out of it, so that
// what stays is what nobody honours; the first error is kept.
type body struct {
	fields map[string]json.RawMessage
	err    *apiError
}

// readBody reads a request's object: bounded in bytes and time, JSON, UTF-8 all of
// it. Fields that are null count as not sent.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (*body, *apiError) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Header.Get("Content-Type") != "" && (err != nil || kind != "application/json") {
		return nil, &apiError{Status: http.StatusUnsupportedMediaType, Message: "want Content-Type: application/json"}
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.o.Slow)) // not every reader has deadlines
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.o.MaxBody))
	var large *http.MaxBytesError
	switch {
	case err == nil:
		_ = control.SetReadDeadline(time.Time{})
	case errors.As(err, &large):
		return nil, &apiError{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("the request is larger than %d bytes", s.o.MaxBody)}
	default: // the deadline stays, so that nobody waits for the rest of it
		w.Header().Set("Connection", "close")
		return nil, &apiError{Status: http.StatusBadRequest, Message: "the request did not come whole"}
	}
	return parseBody(text)
}

func parseBody(text []byte) (*body, *apiError) {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return nil, &apiError{Status: http.StatusBadRequest, Message: "the request is empty: want a JSON object"}
	case !utf8.Valid(text):
		return nil, &apiError{Status: http.StatusBadRequest, Message: "the request is not UTF-8"}
	}
	b := &body{}
	if err := json.Unmarshal(text, &b.fields); err != nil {
		return nil, &apiError{Status: http.StatusBadRequest, Message: "the request is no JSON object: " + oneLine(err.Error())}
	}
	if b.fields == nil {
		return nil, &apiError{Status: http.StatusBadRequest, Message: "the request is null: want a JSON object"}
	}
	if at := loneSurrogate(text); at >= 0 {
		return nil, &apiError{Status: http.StatusBadRequest, Message: fmt.Sprintf("the request holds half of a surrogate pair at byte %d, which is no character", at)}
	}
	for name, v := range b.fields {
		if string(v) == "null" {
			delete(b.fields, name)
		}
	}
	return b, nil
}

// loneSurrogate is the place of a \u escape that is half of a pair, -1 where there
// is none. encoding/json would make a replacement character of it and say nothing.
func loneSurrogate(text []byte) int {
	for i := 0; i+1 < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if text[i+1] != 'u' {
			i++ // the escaped character is none of ours
			continue
		}
		switch kind := surrogate(text[i:]); {
		case kind == high && surrogate(text[i+6:]) == low:
			i += 11
		case kind != none:
			return i
		default:
			i += 5
		}
	}
	return -1
}

// Halves of surrogate pairs.
const (
	none = iota
	high
	low
)

// surrogate says which half \uXXXX at the beginning of a text is.
func surrogate(text []byte) int {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' || text[2]|0x20 != 'd' {
		return none
	}
	switch c := text[3] | 0x20; {
	case c == '8', c == '9', c == 'a', c == 'b':
		return high
	case c >= 'c' && c <= 'f':
		return low
	}
	return none
}

// fail keeps the first error.
func (b *body) fail(e *apiError) {
	if b.err == nil {
		b.err = e
	}
}

// raw takes a field as it was sent.
func (b *body) raw(name string) (json.RawMessage, bool) {
	v, ok := b.fields[name]
	delete(b.fields, name)
	return v, ok
}

// take takes a field of one type; what says what it should be.
func take[T any](b *body, name, what string) (v T, ok bool) {
	raw, ok := b.raw(name)
	if !ok {
		return v, false
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		var zero T
		b.fail(bad(name, "%s is %s, not %s", name, shorten(string(raw)), what))
		return zero, false
	}
	return v, true
}

// number takes a number within bounds.
func (b *body) number(name string, without, low, high float64) float64 {
	v, ok := take[float64](b, name, "a number")
	if !ok {
		return without
	}
	if v < low || v > high {
		b.fail(bad(name, "%s is %g: want %g to %g", name, v, low, high))
	}
	return v
}

// whole takes a whole number within bounds; ok says that it was sent.
func (b *body) whole(name string, low, high int) (v int, ok bool) {
	n, ok := take[int64](b, name, "a whole number")
	if !ok {
		return 0, false
	}
	if n < int64(low) || n > int64(high) {
		b.fail(bad(name, "%s is %d: want %d to %d", name, n, low, high))
		return 0, false
	}
	return int(n), true
}

// flag takes true or false.
func (b *body) flag(name string, without bool) bool {
	if v, ok := take[bool](b, name, "true or false"); ok {
		return v
	}
	return without
}

// end refuses what nobody took: harmless fields may have any value, neutral ones only
// values that change nothing.
func (b *body) end(neutral map[string][]string) *apiError {
	if b.err != nil {
		return b.err
	}
	names := make([]string, 0, len(b.fields))
	for name := range b.fields {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if slices.Contains(harmless, name) {
			continue
		}
		values, known := neutral[name]
		switch v := compact(b.fields[name]); {
		case known && slices.Contains(values, v):
		case known && len(values) > 0:
			return bad(name, "%s is not supported: it may be left out or be %s, not %s", name, strings.Join(values, " or "), shorten(v))
		case known:
			return bad(name, "%s is not supported", name)
		default:
			return bad(shorten(name), "%s is no parameter that is known here", shorten(name))
		}
	}
	return nil
}

// compact is JSON without spaces, with numbers such as 1.0 as 1.
func compact(raw json.RawMessage) string {
	var f float64
	if json.Unmarshal(raw, &f) == nil {
		return fmt.Sprint(f)
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
