package chat

import (
	"errors"
	"fmt"
	"math"
)

// ErrNoCounters is the error of a target that does not count.
var ErrNoCounters = errors.New("the server tells no counters")

// ErrUnsupported is wrapped by errors about what a target cannot do: prompt
// log probabilities, tokens as ids.
var ErrUnsupported = errors.New("is not supported by the server")

// ErrOtherTokens is wrapped by errors about log probabilities of a prompt that are there
// and not those of its tokens.
var ErrOtherTokens = errors.New("log probabilities of other tokens than were asked for")

// Kind of what went wrong.
type Kind string

// Kinds of errors.
const (
	Absent    Kind = "absent"    // nobody answers
	Timeout   Kind = "timeout"   // too slow
	Status    Kind = "status"    // an error status; Error.Code has it
	Cut       Kind = "cut"       // the stream ended in the middle
	Malformed Kind = "malformed" // no JSON, HTML, an answer without a choice
	Wrong     Kind = "wrong"     // another model answers than was asked for
	Refused   Kind = "refused"   // the request cannot be answered: too long, not supported
	Internal  Kind = "internal"  // in process
)

// Error is what a target could not do, in one line.
type Error struct {
	At     string // base URL or path
	Kind   Kind
	Code   int // HTTP status, else 0
	Reason string
	Err    error
}

func (e *Error) Error() string {
	s := e.At + ": " + e.Reason
	if e.Err != nil {
		s = fmt.Sprintf("%s: %v", s, e.Err)
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

func ratio(a, b int64) float64 {
	if a < 0 || b <= 0 {
		return math.NaN()
	}
	return float64(a) / float64(b)
}
