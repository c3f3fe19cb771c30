//go:build unix

package suite

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPipe holds that a pipe in place of a file is refused: to open it would wait for
// a writer, and nothing could end that.
func TestPipe(t *testing.T) {
	dir := t.TempDir()
	pipe, text := filepath.Join(dir, "pipe.jsonl"), filepath.Join(dir, "s.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(text, []byte("name: s\nabout: S.\nprobes:\n  - {id: a, about: A., grader: number, from: pipe.jsonl}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, text} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
