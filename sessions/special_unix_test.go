//go:build unix

package sessions

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inTime fails the test where f hangs.
func inTime(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s hangs", what)
	}
}

// TestNoRegularFile: a FIFO, a device or a folder is refused by whatever takes a
// session, and nothing waits for a FIFO's other end.
func TestNoRegularFile(t *testing.T) {
	whole := sessionPath(t)
	job, _ := fakeJob(2)
	runJob(t, job, whole, "f1")
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		unix.Mkfifo(in("a.qscope"), 0o644), os.Symlink("a.qscope", in("b.qscope")), os.Symlink("/dev/zero", in("c.qscope")), unix.Mkfifo(in("d"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	beside := copySession(t, whole)
	if err := unix.Mkfifo(beside+"-wal", 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{in("a.qscope"), in("b.qscope"), in("c.qscope"), in("d"), beside} {
		for what, f := range map[string]func() error{
			"IsSession":   func() error { _, err := IsSession(path); return err },
			"Inspect":     func() error { _, err := Inspect(path); return err },
			"OpenSession": func() error { _, err := OpenSession(path); return err },
			"OpenReplay":  func() error { _, err := OpenReplay(path, 1); return err },
			"ExportCSV":   func() error { return ExportCSV(t.Context(), io.Discard, path) },
			"ExportFile":  func() error { return ExportFile(t.Context(), path, in("out.csv"), "csv", true) },
			"StartJob":    func() error { _, err := StartJob(t.Context(), job, Options{Session: path}); return err },
		} {
			inTime(t, what, func() {
				if err := f(); !errors.Is(err, ErrNotSession) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "is not a regular file") {
					t.Errorf("%s of %s: %v", what, path, err)
				}
			})
		}
	}
	inTime(t, "List", func() {
		if infos, errs := List(dir); len(infos) != 0 || len(errs) != 3 {
			t.Errorf("%v, %v", infos, errs)
		}
	})

	// A lock that is none holds nobody off from reading.
	locked := copySession(t, whole)
	if err := unix.Mkfifo(locked+lockSuffix, 0o644); err != nil {
		t.Fatal(err)
	}
	inTime(t, "OpenSession", func() {
		if _, err := OpenSession(locked); err != nil {
			t.Error(err)
		}
	})
	inTime(t, "StartJob", func() {
		_, err := StartJob(t.Context(), job, Options{Session: locked})
		if env := (*EnvError)(nil); !errors.As(err, &env) || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("a FIFO as lock: %v", err)
		}
	})
}

// TestForeignFilesOfTheName: what is called *.qscope is meant as a session.
func TestForeignFilesOfTheName(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"empty": "", "zeros": strings.Repeat("\x00", 4096), "foreign": sqliteMagic + strings.Repeat("\x00", 4080)} {
		for _, ext := range []string{Extension, ".safetensors"} {
			path := filepath.Join(dir, name+ext)
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			is, err := IsSession(path)
			if is || errors.Is(err, ErrNotSession) != (ext == Extension) || err != nil && !strings.Contains(err.Error(), "not a session") {
				t.Errorf("%s: %v, %v", path, is, err)
			}
		}
	}
}
