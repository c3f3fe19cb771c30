package recipe

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// File is a recipe as a YAML file holds it: which matrices are stored in which
// scheme, by which methods. What no group matches, and what is ignored or
// exempted, keeps the source's bytes.
type File struct {
	Comment    string // lines at its head; not read back
	Name       string
	Source     string // identity of the checkpoint that it was made for, "" for any
	Origin     string // where it was published, or what it follows
	Groups     []Group
	Ignore     []string // patterns of what is no target, whatever the groups match
	Exemptions []string // patterns of what a group would match and is protected
}

// Group is a scheme with its targets.
type Group struct {
	Targets []string // patterns, as ParseTarget reads them
	Scheme  string   // a name in the table of formats
	Methods []string // none: round to nearest
}

// Variant is the group's scheme with its methods, scheme+method.
func (g *Group) Variant() string { return strings.Join(append([]string{g.Scheme}, g.Methods...), "+") }

// maxFile bounds what is read. A list of every matrix of the largest model in
// use takes a tenth of it.
const maxFile = 64 << 20

// ErrFile is wrapped by every error of a recipe file.
var ErrFile = errors.New("recipe")

// FileError is a line of a recipe file that cannot be taken.
type FileError struct {
	File   string
	Line   int // 0 where it is not about a line
	Reason string
}

func (e *FileError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Reason
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// Is makes it ErrFile.
func (e *FileError) Is(target error) bool { return target == ErrFile }

// ParseFile reads a recipe. An unknown or repeated key, a value of another kind,
// an alias, a second document, a pattern that is none, and a scheme or methods
// that check refuses are errors with their line; check may be nil. name is the
// file's, for errors, which are all *FileError.
func ParseFile(data []byte, name string, check func(scheme string, methods []string) error) (*File, error) {
	p := &fileParser{name: name, check: check}
	switch {
	case len(data) > maxFile:
		return nil, p.fail(0, "%d bytes are more than a recipe may have (%d)", len(data), maxFile)
	case !utf8.Valid(data):
		return nil, p.fail(0, "is not UTF-8")
	}
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		return nil, p.syntax(err)
	}
	if err := dec.Decode(&more); err == nil {
		return nil, p.fail(more.Line, "a second document: a recipe is one")
	}
	if len(doc.Content) != 1 {
		return nil, p.fail(0, "is empty")
	}
	out := &File{}
	if err := p.file(doc.Content[0], out); err != nil {
		return nil, err
	}
	return out, nil
}

type fileParser struct {
	name  string
	check func(scheme string, methods []string) error
}

func (p *fileParser) fail(line int, format string, args ...any) error {
	return &FileError{File: p.name, Line: line, Reason: oneLine(fmt.Sprintf(format, args...))}
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)

// syntax is an error of the YAML reader in our form.
func (p *fileParser) syntax(err error) error {
	text, line := err.Error(), 0
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		if _, err := fmt.Sscan(m[1], &line); err != nil {
			line = 0
		}
		text = strings.TrimPrefix(text, m[0])
	}
	if text == "EOF" {
		text = "is empty"
	}
	if strings.Contains(text, "alphabetic or numeric") {
		text += " (a pattern that begins with * stands in quotes)"
	}
	return p.fail(line, "%s", text)
}

func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// entries calls f for the keys of a mapping, each of which must be one of known.
func (p *fileParser) entries(n *yaml.Node, what string, known []string, f func(key string, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return p.fail(n.Line, "%s has the keys %s, and is %s", what, strings.Join(known, ", "), kindOf(n))
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode || !slices.Contains(known, k.Value) {
			return p.fail(k.Line, "unknown key %q of %s (known: %s)", k.Value, what, strings.Join(known, ", "))
		}
		if first, ok := seen[k.Value]; ok {
			return p.fail(k.Line, "key %q of %s is there already, in line %d", k.Value, what, first)
		}
		seen[k.Value] = k.Line
		if err := f(k.Value, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case n.Tag == "!!null":
		return "empty"
	}
	return "text"
}

func (p *fileParser) text(n *yaml.Node, what string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return "", p.fail(n.Line, "%s is text, and is %s", what, kindOf(n))
	}
	return n.Value, nil
}

func (p *fileParser) list(n *yaml.Node, what string) ([]string, error) {
	if n.Kind != yaml.SequenceNode {
		return nil, p.fail(n.Line, "%s is a list of texts, and is %s", what, kindOf(n))
	}
	var out []string
	for _, c := range n.Content {
		s, err := p.text(c, "an entry of "+what)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func (p *fileParser) patterns(n *yaml.Node, what string) ([]string, error) {
	out, err := p.list(n, what)
	for i, s := range out {
		if _, err := ParseTarget(s); err != nil {
			return nil, p.fail(n.Content[i].Line, "%v", err)
		}
	}
	return out, err
}

func (p *fileParser) file(n *yaml.Node, out *File) error {
	err := p.entries(n, "a recipe", []string{"name", "source", "origin", "groups", "ignore", "exemptions"}, func(key string, v *yaml.Node) (err error) {
		switch key {
		case "name":
			out.Name, err = p.text(v, key)
		case "source":
			out.Source, err = p.text(v, key)
		case "origin":
			out.Origin, err = p.text(v, key)
		case "groups":
			err = p.groups(v, out)
		case "ignore":
			out.Ignore, err = p.patterns(v, key)
		case "exemptions":
			out.Exemptions, err = p.patterns(v, key)
		}
		return err
	})
	if err == nil && len(out.Groups) == 0 {
		return p.fail(n.Line, "has no groups, so nothing would be quantized")
	}
	return err
}

func (p *fileParser) groups(n *yaml.Node, out *File) error {
	if n.Kind != yaml.SequenceNode {
		return p.fail(n.Line, "groups is a list, and is %s", kindOf(n))
	}
	for _, c := range n.Content {
		var g Group
		err := p.entries(c, "a group", []string{"targets", "scheme", "methods"}, func(key string, v *yaml.Node) (err error) {
			switch key {
			case "targets":
				g.Targets, err = p.patterns(v, key)
			case "scheme":
				g.Scheme, err = p.text(v, key)
			case "methods":
				g.Methods, err = p.list(v, key)
			}
			return err
		})
		switch {
		case err != nil:
			return err
		case g.Scheme == "":
			return p.fail(c.Line, "a group has no scheme")
		case len(g.Targets) == 0:
			return p.fail(c.Line, "the group of scheme %q has no targets", g.Scheme)
		case p.check != nil:
			if err := p.check(g.Scheme, g.Methods); err != nil {
				return p.fail(c.Line, "%v", err)
			}
		}
		out.Groups = append(out.Groups, g)
	}
	return nil
}
