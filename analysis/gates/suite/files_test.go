package suite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTasks reads tasks beside a suite's file, in both forms.
func TestTasks(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	suite := write("s.yaml", head+"  - {id: tasks, about: Tasks., grader: number, from: tasks.jsonl}\n")
	write("tasks.jsonl", `{"question": "Half of 2,000 and 3?", "answer": "2,000/2 = 1,000.\n1,000+3 = 1,003.\n#### no, wait\n#### 1,003"}

{"id": "own", "prompt": "7*6?", "want": "42"}
{"prompt": "7*6?", "want": {"text": "42", "max_runes": 5}}
`)
	s, err := Open(suite)
	if err != nil {
		t.Fatal(err)
	}
	c := s.Probes[0].Cases
	if len(c) != 3 || c[0].Turns[0].Want.Text != "1,003" || c[1].ID != "own" || c[2].ID != "3" || c[2].Turns[0].Want.MaxRunes != 5 {
		t.Errorf("cases: %+v", c)
	}
	before := s.SHA256
	write("tasks.jsonl", "\ufeff"+`{"question": "1+1?", "answer": "2"}`+"\r\n")
	if s, err = Open(suite); err != nil || s.SHA256 == before {
		t.Errorf("other tasks, the same identity: %v", err)
	}
	for line, says := range map[string]string{
		`{"question": "a"}`:                       "neither",
		`{"question": "a", "prompt": "b"}`:        "neither",
		`nonsense`:                                "no JSON",
		`{"prompt": "a", "want": {"texts": 1}}`:   "texts",
		`{"prompt": " ", "want": "x"}`:            "asks nothing",
		"{\"prompt\": \"\xff\", \"want\": \"x\"}": "UTF-8",
		`{"prompt":"a","want":"1"} {"x":1}`:       "more than one",
		`{"prompt":"a","want":"1"} x`:             "more than one",
		`{"question": "a", "answer": "#### "}`:    "wants text with a number",
	} {
		write("tasks.jsonl", "\n"+line+"\n")
		_, err := Open(suite)
		if !errors.Is(err, ErrSuite) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", line, err, says)
		}
	}
	if err := os.Remove(filepath.Join(dir, "tasks.jsonl")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(suite); err == nil || !strings.Contains(err.Error(), "tasks.jsonl") {
		t.Errorf("without its file: %v", err)
	}
}

// TestOpen of what is not there says what is.
func TestOpen(t *testing.T) {
	if _, err := Open("defualt"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "default, quick, demo") {
		t.Errorf("unknown name: %v", err)
	}
	if _, err := Open("nowhere/x.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("unknown path: %v", err)
	}
}
