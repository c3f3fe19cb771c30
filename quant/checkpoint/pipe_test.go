//go:build unix

package checkpoint

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe has no size and would block whoever opens it.
func TestOpenPipe(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.safetensors")
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{dir, path} {
		_, err := Open(p)
		wantError(t, err, path, "not a regular file")
	}
}
