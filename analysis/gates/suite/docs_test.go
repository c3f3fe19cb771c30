package suite

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/suites.md anew from the tables and the built-in suites")

const (
	docBegin = "<!-- tables: written by go test ./analysis/gates/suite -update -->\n"
	docEnd   = "<!-- end of tables -->\n"
)

// document is the part of docs/suites.md that follows from the tables.
func document(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("\n## Graders\n\n")
	for _, g := range Graders() {
		fmt.Fprintf(&b, "- **%s**: %s Of a want: %s.", g.Name, g.About, g.Wants)
		arguments(&b, g.Args)
	}
	b.WriteString("\n## Generators\n\n")
	for _, g := range Generators() {
		fmt.Fprintf(&b, "- **%s**: %s", g.Name, g.About)
		if g.Lengths {
			b.WriteString(" Goes by lengths.")
		}
		if g.Depths {
			b.WriteString(" Goes by depths.")
		}
		arguments(&b, g.Args)
	}
	b.WriteString("\n## Built-in suites\n")
	for _, name := range Names() {
		s, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i := range s.Probes {
			n += s.Probes[i].Answers()
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s %d answers of each arm.\n\n| probe | group | grader | cases × passes | need | tokens | T | at once | asks |\n| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | --- |\n", name, strings.Join(strings.Fields(s.About), " "), n)
		for i := range s.Probes {
			p := &s.Probes[i]
			fmt.Fprintf(&b, "| %s | %s | %s | %d × %d | %g | %d | %g | %d | %s |\n", p.ID, p.Group, p.Grader, len(p.Cases), p.Passes, p.Need, p.Set.MaxTokens, p.Set.Temperature, p.Set.Concurrency, p.About)
		}
	}
	return strings.TrimPrefix(b.String(), "\n")
}

func arguments(b *strings.Builder, args []Arg) {
	for i, a := range args {
		sep := ";"
		if i == 0 {
			sep = " Arguments:"
		}
		fmt.Fprintf(b, "%s `%s` (%s", sep, a.Name, a.Kind)
		if a.Default != nil && a.Default != "" {
			fmt.Fprintf(b, ", %v where it is not said", a.Default)
		}
		fmt.Fprintf(b, "): %s", a.About)
		if a.Kind == Words && a.Among != nil {
			fmt.Fprintf(b, ", of %s", list(a.Among))
		}
	}
	if len(args) > 0 {
		b.WriteString(".")
	}
	b.WriteString("\n")
}

// docs/suites.md has graders, generators and the built-in suites as they are, and its
// example can be read.
func TestDocumentation(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "suites.md")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(data), docBegin)
	now, tail, ok2 := strings.Cut(rest, docEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no marks of the tables", path)
	}
	want := document(t)
	if *update && now != want {
		if err := os.WriteFile(path, []byte(head+docBegin+want+docEnd+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		now = want
	}
	if now != want {
		t.Errorf("%s is not in step; go test ./analysis/gates/suite -update writes it", path)
	}
	_, example, _ := strings.Cut(head, "```yaml\n")
	example, _, ok = strings.Cut(example, "```")
	problems := func(string) ([]byte, error) { return []byte(`{"question": "2+2?", "answer": "#### 4"}`), nil }
	s, err := Parse("example", []byte(example), problems)
	if err != nil || !ok || len(s.Probes) != 6 {
		t.Errorf("the example: %v", err)
	}
	for _, f := range []string{"name", "about", "defaults", "tools", "probes", "id", "group", "grader", "args", "passes", "need", "timed", "settings", "cases", "from", "make", "also", "ask", "want", "turns", "prompt", "tokens", "depth", "any", "all", "absent", "call", "script", "min_runes", "max_runes", "max_tokens", "temperature", "top_p", "top_k", "seed", "concurrency", "stop", "stream", "system", "template", "may_truncate", "generator", "lengths", "depths", "keep"} {
		if !strings.Contains(head, "`"+f+"`") {
			t.Errorf("the field %s is not told", f)
		}
	}
}
