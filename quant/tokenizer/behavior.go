package tokenizer

// behavior is what happens to the parts of a text that match.
type behavior uint8

const (
	isolated           behavior = iota // a piece of their own
	removed                            // left out
	contiguous                         // neighbours that match become one piece
	mergedWithPrevious                 // joined to what stands before
	mergedWithNext                     // joined to what stands after
)

var behaviorNames = []string{"Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"}

func behaviorNamed(name string) (behavior, error) {
	for i, n := range behaviorNames {
		if n == name {
			return behavior(i), nil
		}
	}
	return 0, unknown("split behavior", name, behaviorNames...)
}

// span is a part of a text.
type span struct {
	from, to int
	match    bool
}

// cut makes a splitter of a finder; invert exchanges what matches and what does not.
func cut(f *finder, how behavior, invert bool) splitter {
	return func(m *matcher, s string, first bool, emit piece) {
		out := func(from, to int) {
			if to > from {
				emit(s[from:to], first && from == 0)
			}
		}
		if how == isolated {
			f.each(m, s, func(from, to int, _ bool) { out(from, to) })
			return
		}
		if how == removed {
			f.each(m, s, func(from, to int, match bool) {
				if match == invert {
					out(from, to)
				}
			})
			return
		}
		var spans []span
		f.each(m, s, func(from, to int, match bool) { spans = append(spans, span{from, to, match != invert}) })
		for _, p := range merged(spans, how) {
			out(p.from, p.to)
		}
	}
}

// merged joins spans as a behavior says. Of matches in a row only the one beside
// what does not match is joined to it.
func merged(spans []span, how behavior) []span {
	var out []span
	switch how {
	case contiguous:
		for _, p := range spans {
			if n := len(out); n > 0 && out[n-1].match == p.match {
				out[n-1].to = p.to
				continue
			}
			out = append(out, p)
		}
	case mergedWithPrevious:
		after := false // the one before matched
		for _, p := range spans {
			if n := len(out); p.match && !after && n > 0 {
				out[n-1].to = p.to
			} else {
				out = append(out, p)
			}
			after = p.match
		}
	case mergedWithNext:
		for i, p := range spans {
			n := len(out)
			// A match takes what follows it, unless that is a match.
			if n > 0 && spans[i-1].match && !p.match {
				out[n-1].to = p.to
				continue
			}
			out = append(out, p)
		}
	}
	return out
}
