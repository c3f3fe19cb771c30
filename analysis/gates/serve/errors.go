package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"quantscope/analysis/gates/chat"
)

// apiError is an answer in OpenAI's form of an error.
type apiError struct {
	Status  int
	Message string
	Type    string // "": by the status
	Param   string // of the request, that it is about
	Code    string
}

func (e *apiError) Error() string { return e.Message }

// body is the document of an error.
func (e *apiError) body() errorDocument {
	d := errorDocument{}
	d.Error.Message, d.Error.Type = e.Message, e.Type
	if d.Error.Type == "" {
		d.Error.Type = "invalid_request_error"
		switch {
		case e.Status == http.StatusServiceUnavailable:
			d.Error.Type = "service_unavailable_error"
		case e.Status >= 500:
			d.Error.Type = "server_error"
		}
	}
	if e.Param != "" {
		d.Error.Param = &e.Param
	}
	if e.Code != "" {
		d.Error.Code = &e.Code
	}
	return d
}

type errorDocument struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

// bad is an error about a parameter.
func bad(param, format string, args ...any) *apiError {
	return &apiError{Status: http.StatusBadRequest, Param: param, Message: fmt.Sprintf(format, args...)}
}

// asError is an engine's error. A request that cannot be answered is the client's.
func asError(err error) *apiError {
	var of *chat.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &apiError{Status: http.StatusServiceUnavailable, Code: "shutting_down", Message: "the answer was broken off"}
	case errors.As(err, &of) && of.Kind == chat.Refused:
		reason := of.Reason
		if of.Err != nil {
			reason += ": " + of.Err.Error()
		}
		return &apiError{Status: http.StatusBadRequest, Message: oneLine(reason)}
	}
	return &apiError{Status: http.StatusInternalServerError, Message: oneLine(err.Error())}
}

// oneLine keeps a message on one line.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, e *apiError) {
	if e.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	s.answer(w, e.Status, e.body())
}

// answer writes a document. A client that does not read it loses it.
func (s *Server) answer(w http.ResponseWriter, status int, v any) {
	text, err := encode(v)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":{"message":"the answer cannot be written as JSON","type":"server_error","param":null,"code":null}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(s.o.Slow)) // not every writer has deadlines
	w.WriteHeader(status)
	_, _ = w.Write(text) // whoever does not read it is gone
	_ = control.SetWriteDeadline(time.Time{})
}

// encode is compact JSON without HTML's escapes.
func encode(v any) ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}
