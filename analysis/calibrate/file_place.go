package calibrate

import (
	"fmt"
	"strconv"
	"strings"

	"quantscope/analysis/model"
)

// ParsePlace reads what Place.String wrote.
func ParsePlace(s string) (model.Place, error) {
	p := model.Place{Layer: -1, Expert: -1}
	words := strings.Split(s, " ")
	if words[0] == "layer" && len(words) > 2 {
		n, ok := ordinal(words[1])
		if !ok {
			return p, fmt.Errorf("calibrate: place %q: layer %q", s, words[1])
		}
		p.Layer, words = n, words[2:]
	}
	if err := p.Kind.UnmarshalText([]byte(words[0])); err != nil {
		return p, fmt.Errorf("calibrate: place %q: %w", s, err)
	}
	words = words[1:]
	if len(words) > 0 {
		if n, ok := ordinal(words[0]); ok {
			p.Expert, words = n, words[1:]
		}
	}
	if len(words) > 0 {
		p.Projection, words = words[0], words[1:]
	}
	if len(words) > 0 || p.String() != s {
		return p, fmt.Errorf("calibrate: place %q is not one", s)
	}
	return p, nil
}

func ordinal(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == s
}
