package views

import (
	"strings"

	"quantscope/sessions"
)

// shortName is the name of a variant at the head of a column: +mse instead of
// nvfp4+mse where the scheme goes without saying because all variants share it.
func shortName(s *sessions.State, variant int) string {
	v := &s.Variants[variant]
	for i := range s.Variants {
		if s.Variants[i].Scheme != v.Scheme {
			return Truncate(Clean(v.Name), 16)
		}
	}
	if rest := strings.TrimPrefix(v.Name, v.Scheme); len(rest) > 1 && rest[0] == '+' {
		return Truncate(Clean(rest), 16)
	}
	return Truncate(Clean(v.Name), 16)
}
