package recipe

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// Matcher decides whether a name is a target.
type Matcher interface {
	Match(name string) bool
	String() string // as the user wrote it
}

// ErrPattern is wrapped by errors about a pattern's form.
var ErrPattern = errors.New("target")

// regexPrefix marks a regular expression, as compressed-tensors writes it.
const regexPrefix = "re:"

// ParseTarget reads one pattern.
//
// A glob matches the whole name: * stands for any characters, dots and slashes
// too, ? for one, [a-z] for one of a class and [!a-z] or [^a-z] for one outside
// it; a backslash takes the next character as it is. A name that is written out
// matches itself, brackets included.
//
// re:EXPR is a regular expression of Go's syntax that must match from the start
// of the name, though not to its end, as re.match does in compressed-tensors.
func ParseTarget(pattern string) (Matcher, error) {
	if expr, ok := strings.CutPrefix(pattern, regexPrefix); ok {
		if expr == "" {
			return nil, fmt.Errorf("%w %q: the expression is empty", ErrPattern, pattern)
		}
		re, err := regexp.Compile("^(?:" + expr + ")")
		if err != nil {
			return nil, fmt.Errorf("%w %q: %w (look-ahead and look-behind are not supported)", ErrPattern, pattern, err)
		}
		return regexTarget{pattern, re, literalPart(expr)}, nil
	}
	if pattern == "" {
		return nil, fmt.Errorf("%w: a pattern is empty", ErrPattern)
	}
	g, err := parseGlob(pattern)
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", ErrPattern, pattern, err)
	}
	return g, nil
}

// ParseTargets reads patterns that are separated by commas. A comma inside
// brackets, braces or parentheses, or after a backslash, does not separate.
func ParseTargets(list string) ([]Matcher, error) {
	var out []Matcher
	for _, pattern := range splitList(list) {
		m, err := ParseTarget(strings.TrimSpace(pattern))
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func splitList(list string) []string {
	var out []string
	depth, start := 0, 0
	for i := 0; i < len(list); i++ {
		switch list[i] {
		case '\\':
			i++
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth = max(0, depth-1)
		case ',':
			if depth == 0 {
				out = append(out, list[start:i])
				start = i + 1
			}
		}
	}
	return append(out, list[start:])
}

type regexTarget struct {
	text string
	re   *regexp.Regexp
	part string // that every match holds
}

func (r regexTarget) Match(name string) bool {
	return strings.Contains(name, r.part) && r.re.MatchString(name)
}

func (r regexTarget) String() string { return r.text }

// literalPart is the longest text that every match of an expression holds, as far
// as its outermost sequence tells; most names lack it, and are told apart by that
// alone.
func literalPart(expr string) string {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return ""
	}
	parts := []*syntax.Regexp{re}
	if re.Op == syntax.OpConcat {
		parts = re.Sub
	}
	longest := ""
	for _, p := range parts {
		if s := string(p.Rune); p.Op == syntax.OpLiteral && p.Flags&syntax.FoldCase == 0 && len(s) >= len(longest) { // names differ most at their ends
			longest = s
		}
	}
	return longest
}
