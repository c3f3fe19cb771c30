package recipe

import (
	"cmp"
	"slices"
	"strings"

	"quantscope/quant/topology"
)

// Nearest are up to n names of tensors that look most like a pattern, for a message
// about one that matches nothing.
func Nearest(pattern string, tensors []topology.Named, n int) []string {
	return nearest(pattern, tensors, n)
}

// nearest are up to n names that share most with a pattern, of the names that
// differ in layer or expert number only the first.
func nearest(pattern string, tensors []topology.Named, n int) []string {
	want := trigrams(literal(pattern))
	type candidate struct {
		name  string
		score float64
	}
	var found []candidate
	seen := map[string]bool{}
	for i := range tensors {
		name := tensors[i].Name
		key := withoutNumbers(name)
		if seen[key] {
			continue
		}
		seen[key] = true
		found = append(found, candidate{name, similarity(want, trigrams(name))})
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	var out []string
	for _, c := range found[:min(n, len(found))] {
		out = append(out, c.name)
	}
	return out
}

// literal is a pattern without the characters that have a meaning.
func literal(pattern string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`*?[](){}|^$\+`, r) {
			return -1
		}
		return r
	}, strings.TrimPrefix(pattern, regexPrefix))
}

func withoutNumbers(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, name)
}

func trigrams(s string) map[string]bool {
	s = "  " + s + " "
	set := map[string]bool{}
	for i := range len(s) - 2 {
		set[s[i:i+3]] = true
	}
	return set
}

// similarity is the share of trigrams that two names have in common (Jaccard).
func similarity(a, b map[string]bool) float64 {
	both := 0
	for t := range a {
		if b[t] {
			both++
		}
	}
	return float64(both) / float64(len(a)+len(b)-both)
}
