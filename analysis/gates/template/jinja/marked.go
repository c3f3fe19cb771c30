package jinja

import "strings"

// marked is text that the filter safe made. Text that is added to it is escaped for
// HTML, even where nothing else is: so does Jinja. What else can be done with it is
// refused where the result would be marked too.
type marked string

var escapeHTML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")

func (r *run) plusMarked(x, y any) (any, bool) {
	a, isA := x.(marked)
	b, isB := y.(marked)
	switch {
	case isA && isB:
		r.make(len(a) + len(b))
		return a + b, true
	case isA:
		s, ok := y.(string)
		r.make(len(a) + 5*len(s))
		return a + marked(escapeHTML.Replace(s)), ok
	case isB:
		s, ok := x.(string)
		r.make(len(b) + 5*len(s))
		return marked(escapeHTML.Replace(s)) + b, ok
	}
	return nil, false
}

// unmarked refuses marked text.
func (r *run) unmarked(v any) {
	if _, ok := v.(marked); ok {
		r.failf("text from the filter safe can only be written, tested and added to")
	}
}

// plain is a value without its mark.
func plain(v any) any {
	if m, ok := v.(marked); ok {
		return string(m)
	}
	return v
}
