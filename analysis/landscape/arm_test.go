package landscape

import (
	"strings"
	"testing"
)

// TestLabelsStayOutOfRecipes: the variants of joined sessions carry a label, which
// no recipe knows.
func TestLabelsStayOutOfRecipes(t *testing.T) {
	tb := priced(0.3, even)
	tb.Arms[0].Name += " @ run2"
	if got := tb.Arms[0].Plain(); got != "nvfp4" {
		t.Errorf("plain name %q", got)
	}
	s, err := NewSolver(tb, nil)
	if err != nil {
		t.Fatal(err)
	}
	least, most := s.Range()
	a, err := s.Solve(least + (most-least)/3)
	if err != nil {
		t.Fatal(err)
	}
	f, err := RecipeOf(tb, a)
	if err != nil {
		t.Fatal(err)
	}
	text, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "@") || !strings.Contains(string(text), "scheme: nvfp4\n") {
		t.Errorf("%s", text)
	}
}
