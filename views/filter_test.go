package views

import (
	"errors"
	"regexp/syntax"
	"slices"
	"testing"

	"quantscope/sessions"
)

func TestFilterCaseAndInversion(t *testing.T) {
	var tensors []sessions.Tensor
	for _, name := range []string{"layers.0.up_proj", "layers.0.Up_proj", "layers.1.down_proj", "LAYERS.1.DOWN_PROJ"} {
		tensors = append(tensors, sessions.Tensor{ID: len(tensors), Name: name})
	}
	for _, c := range []struct {
		text string
		want []int // tensors shown
	}{
		{"", []int{0, 1, 2, 3}},
		{"up", []int{0, 1}}, // lower case: case is ignored
		{"layers.1", []int{2, 3}},
		{"Up", []int{1}}, // upper case: it is not
		{"DOWN", []int{3}},
		{"UP", nil},
		{"!up", []int{2, 3}},
		{"!Up", []int{0, 2, 3}},
		{"!DOWN", []int{0, 1, 2}},
		{"!", nil}, // the opposite of what everything matches
		{"u!", nil},
		{`\.1\.d|0\.u`, []int{0, 1, 2, 3}},
	} {
		f, err := NewFilter(c.text, tensors)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		var got []int
		for i := range tensors {
			if f.Shows(i) {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, c.want) || f.Count != len(c.want) {
			t.Errorf("%q shows %v, counted as %d, want %v", c.text, got, f.Count, c.want)
		}
	}
	if _, err := NewFilter("!(", tensors); err == nil {
		t.Error("a pattern that is none was accepted")
	}
	for text, expr := range map[string]string{"((": "((", "!((": "((", "(A": "(A", "*up": "*", "(?i)(": "(?i)("} {
		var bad *syntax.Error
		if _, err := NewFilter(text, tensors); !errors.As(err, &bad) || bad.Expr != expr {
			t.Errorf("%q: error %v, want one about %q", text, err, expr)
		}
	}
}
