package recipe

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// WithSource is the text of a recipe with the identity of the checkpoint that it is
// for, in a line of its own; comments and all else stay as they are. A recipe that
// names one already is not changed.
func WithSource(text []byte, identity string) ([]byte, error) {
	f, err := ParseFile(text, "recipe", nil)
	if err != nil {
		return nil, err
	}
	if f.Source != "" {
		return text, nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	top := doc.Content[0]
	if top.Style&yaml.FlowStyle != 0 || len(top.Content) == 0 {
		return text, nil // in braces, where a line cannot be put in
	}
	first := top.Content[0]
	lines := strings.SplitAfter(string(text), "\n")
	at := first.Line - 1
	source := strings.Repeat(" ", first.Column-1) + "source: " + (&fileWriter{}).quote(identity) + "\n"
	return []byte(strings.Join(lines[:at], "") + source + strings.Join(lines[at:], "")), nil
}
