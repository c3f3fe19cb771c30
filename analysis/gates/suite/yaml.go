package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// ErrSuite is wrapped by every error about what a suite says.
var ErrSuite = errors.New("suite")

// Error is a place of a suite that cannot be taken, in one line.
type Error struct {
	File   string
	Line   int // 0 where it is about no line
	Reason string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Reason
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// Is makes it ErrSuite.
func (e *Error) Is(target error) bool { return target == ErrSuite }

// maxFile bounds a suite's YAML; the largest that is built in takes a hundredth.
const maxFile = 8 << 20

// document reads one YAML document without aliases, which could make a small file
// large.
func (p *parser) document(text []byte) (*yaml.Node, error) {
	switch {
	case len(text) > maxFile:
		return nil, p.fail(nil, "%d bytes are more than a suite may have (%d)", len(text), maxFile)
	case !utf8.Valid(text):
		return nil, p.fail(nil, "is not UTF-8")
	}
	dec := yaml.NewDecoder(strings.NewReader(string(text)))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		return nil, p.syntax(err)
	}
	if err := dec.Decode(&more); err == nil {
		return nil, p.fail(&more, "a second document: a suite is one")
	}
	if len(doc.Content) != 1 {
		return nil, p.fail(nil, "is empty")
	}
	return doc.Content[0], p.plain(doc.Content[0])
}

func (p *parser) plain(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return p.fail(n, "anchors and aliases are not taken")
	}
	for _, c := range n.Content {
		if err := p.plain(c); err != nil {
			return err
		}
	}
	return nil
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

func (p *parser) syntax(err error) error {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	line := 0
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1]) // "" is no line
		text = text[len(m[0]):]
	}
	if text == "EOF" {
		text = "is empty"
	}
	return &Error{p.path, line, text}
}

func (p *parser) fail(n *yaml.Node, format string, args ...any) error {
	line := 0
	if n != nil {
		line = n.Line
	}
	return &Error{p.path, line, fmt.Sprintf(format, args...)}
}

// field reads the value of one key.
type field func(*yaml.Node) error

// fields reads a mapping: each key once, unknown ones refused.
func (p *parser) fields(n *yaml.Node, what string, known map[string]field) error {
	if n.Kind != yaml.MappingNode {
		return p.fail(n, "%s: is %s, want a mapping", what, kindOf(n))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		f, ok := known[k.Value]
		switch {
		case !ok:
			return p.fail(k, "%s: unknown field %q; known are %s", what, k.Value, list(slices.Sorted(maps.Keys(known))))
		case seen[k.Value]:
			return p.fail(k, "%s: %s is given twice", what, k.Value)
		}
		seen[k.Value] = true
		if err := f(v); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) each(n *yaml.Node, what string, most int, f field) error {
	switch {
	case n.Kind != yaml.SequenceNode:
		return p.fail(n, "%s: is %s, want a list", what, kindOf(n))
	case len(n.Content) > most:
		return p.fail(n, "%s: %d entries are more than there may be (%d)", what, len(n.Content), most)
	}
	for _, c := range n.Content {
		if err := f(c); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) text(what string, to *string) field {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			return p.fail(n, "%s: is %s, want text", what, kindOf(n))
		}
		*to = n.Value
		return nil
	}
}

// texts takes a list, or one text for a list of one.
func (p *parser) texts(what string, to *[]string) field {
	return func(n *yaml.Node) error {
		*to = []string{}
		one := func(n *yaml.Node) error {
			var s string
			if err := p.text(what, &s)(n); err != nil {
				return err
			}
			*to = append(*to, s)
			return nil
		}
		if n.Kind == yaml.ScalarNode {
			return one(n)
		}
		return p.each(n, what, maxCases, one)
	}
}

func (p *parser) count(what string, least, most int, to *int) field {
	return func(n *yaml.Node) error {
		v, err := strconv.ParseInt(n.Value, 10, 64)
		switch {
		case n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil:
			return p.fail(n, "%s: is %s, want a whole number", what, kindOf(n))
		case v < int64(least) || v > int64(most):
			return p.fail(n, "%s: is %d, want %d to %d", what, v, least, most)
		}
		*to = int(v)
		return nil
	}
}

func (p *parser) seed(what string, to *uint64) field {
	return func(n *yaml.Node) error {
		v, err := strconv.ParseUint(n.Value, 10, 63)
		if n.Kind != yaml.ScalarNode || err != nil {
			return p.fail(n, "%s: is %s, want a whole number from 0", what, kindOf(n))
		}
		*to = v
		return nil
	}
}

func (p *parser) number(what string, least, most float64, to *float64) field {
	return func(n *yaml.Node) error {
		v, err := strconv.ParseFloat(n.Value, 64)
		switch {
		case n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float" || err != nil || math.IsNaN(v):
			return p.fail(n, "%s: is %s, want a number", what, kindOf(n))
		case v < least || v > most:
			return p.fail(n, "%s: is %g, want %g to %g", what, v, least, most)
		}
		*to = v
		return nil
	}
}

func (p *parser) flag(what string, to *bool) field {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Value != "true" && n.Value != "false" {
			return p.fail(n, "%s: is %s, want true or false", what, kindOf(n))
		}
		*to = n.Value == "true"
		return nil
	}
}

// object takes a mapping as encoding/json would give it, so that it is the same
// before and after it went through a file.
func (p *parser) object(what string, to *map[string]any) field {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.MappingNode {
			return p.fail(n, "%s: is %s, want a mapping", what, kindOf(n))
		}
		var v map[string]any
		if err := n.Decode(&v); err != nil {
			return p.syntax(err)
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return p.fail(n, "%s: cannot be JSON: %v", what, err)
		}
		*to = nil
		return json.Unmarshal(raw, to)
	}
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.Tag == "!!null" {
		return "nothing"
	}
	return strconv.Quote(short(n.Value))
}

func short(s string) string {
	if utf8.RuneCountInString(s) <= 40 {
		return s
	}
	return string([]rune(s)[:40]) + "…"
}

func list(names []string) string { return strings.Join(names, ", ") }
