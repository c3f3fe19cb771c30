package views

import (
	"regexp"
	"strings"

	"quantscope/sessions"
)

// Filter hides tensors whose name does not match a regular expression. The zero
// Filter hides nothing.
type Filter struct {
	Text  string // as typed
	Shown []bool // by tensor ID; nil hides nothing
	Count int    // how many are shown
}

// ignoreCase is put before a pattern without upper case.
const ignoreCase = "(?i)"

// NewFilter compiles a filter; case is ignored unless text has upper case. A
// leading "!" inverts it.
func NewFilter(text string, tensors []sessions.Tensor) (Filter, error) {
	if text == "" {
		return Filter{Count: len(tensors)}, nil
	}
	pattern, invert := text, false
	if pattern[0] == '!' {
		pattern, invert = pattern[1:], true
	}
	if !hasUpper(pattern) {
		pattern = ignoreCase + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		// The reason is to quote what was typed, not what was put before it.
		if _, plain := regexp.Compile(strings.TrimPrefix(text, "!")); plain != nil {
			err = plain
		}
		return Filter{}, err
	}
	f := Filter{Text: text, Shown: make([]bool, len(tensors))}
	for i := range tensors {
		if re.MatchString(tensors[i].Name) != invert {
			f.Shown[i] = true
			f.Count++
		}
	}
	return f, nil
}

func hasUpper(s string) bool {
	for _, r := range s {
		if 'A' <= r && r <= 'Z' {
			return true
		}
	}
	return false
}

// Shows says whether a tensor is shown; one that was not there when the filter
// was made is.
func (f Filter) Shows(tensor int) bool { return tensor >= len(f.Shown) || f.Shown[tensor] }
