package jinja

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"time"
)

// lines reads a file with a JSON document a line.
func lines(t *testing.T, path string, each func(line []byte)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<24)
	for s.Scan() {
		each(s.Bytes())
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
}

func values(t *testing.T, text []byte) map[string]any {
	t.Helper()
	v, err := FromJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]any{}
	for _, p := range v.(*Dict).pairs {
		vars[p.key.(string)] = p.value
	}
	return vars
}

// TestSnippets renders each as transformers does, or refuses it where it does.
func TestSnippets(t *testing.T) {
	var vars map[string]any
	n := 0
	lines(t, "../testdata/snippets.jsonl", func(line []byte) {
		var c struct {
			Vars        json.RawMessage
			Text, Error string
			Want        *string
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		if c.Vars != nil {
			vars = values(t, c.Vars)
			return
		}
		n++
		vars["messages"], vars["tools"], vars["documents"], vars["add_generation_prompt"] = NewList(), nil, nil, false
		p, err := Parse(c.Text)
		var got string
		if err == nil {
			got, err = p.Render(vars, time.Now)
		}
		switch {
		case c.Want == nil && err == nil:
			t.Errorf("%s\n is not refused: %q, want %s", c.Text, got, c.Error)
		case c.Want != nil && err != nil:
			t.Errorf("%s\n %v, want %q", c.Text, err, *c.Want)
		case c.Want != nil && got != *c.Want:
			t.Errorf("%s\n got %q\nwant %q", c.Text, got, *c.Want)
		}
	})
	if n < 100 {
		t.Errorf("%d snippets", n)
	}
}
