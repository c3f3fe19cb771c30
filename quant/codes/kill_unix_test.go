//go:build unix

package codes

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Child processes are this test program, told by its environment what to do.
const childEnv = "QUANTSCOPE_TEST_CHILD"

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		if err := child(what); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child writes a folder and tells every step; it goes on when it reads a line.
func child(what string) error {
	verb, dir, _ := strings.Cut(what, " ")
	switch verb {
	case "readonly":
		return childReadOnly(dir)
	case "full":
		return childFull(dir)
	}
	in := bufio.NewReader(os.Stdin)
	step := func(name string) {
		fmt.Println(name)
		_, _ = in.ReadString('\n')
	}
	hookBeforeCommit = func(path string) { step("written " + filepath.Base(path)) }
	s, err := Create(dir, testManifest(), testIDs)
	if err != nil {
		return err
	}
	step("begun")
	for _, u := range testManifest().Units {
		if s.Has(u) {
			continue
		}
		if err := s.Put(u, testUnits()[u], []byte(`{"unit":"`+u+`"}`)); err != nil {
			return err
		}
		step("put " + u)
	}
	return s.Close()
}

// childReadOnly becomes a user without rights, so that the permissions of a folder
// bind it, and tries to begin codes there.
func childReadOnly(dir string) error {
	if os.Geteuid() == 0 {
		if err := syscall.Setgid(65534); err != nil {
			return err
		}
		if err := syscall.Setuid(65534); err != nil {
			return err
		}
	}
	_, err := Create(dir, testManifest(), testIDs)
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), dir) {
		return fmt.Errorf("a folder without the right to write gives %w", err)
	}
	return nil
}

func childCommand(t *testing.T, what string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childEnv+"="+what)
	cmd.Stderr = os.Stderr
	return cmd
}

// TestKilledAtEveryStep kills the writer once after each of its steps; what was put
// is there, what was not put is not, and the last one makes the rest.
func TestKilledAtEveryStep(t *testing.T) {
	dir := t.TempDir()
	kills := 0
	for _, want := range []struct {
		until string
		there int
	}{
		{"begun", 0},
		{"written unit-000-layer-0.safetensors", 0},
		{"put layer 0", 1},
		{"written unit-001-layer-3.safetensors", 1},
		{"put layer 3", 2},
		{"written unit-002-head.safetensors", 2},
		{"put head", 3},
	} {
		cmd := childCommand(t, "write "+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() && lines.Text() != want.until {
			if strings.HasPrefix(lines.Text(), "error") {
				t.Error(lines.Text())
			}
			if _, err := in.Write([]byte("\n")); err != nil {
				t.Fatal(err)
			}
		}
		if lines.Text() != want.until {
			t.Fatalf("the child ended before %q", want.until)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the child was not killed")
		}
		kills++
		r, err := Open(dir)
		if err != nil {
			t.Fatalf("%s: %v", want.until, err)
		}
		units := r.Manifest().Units
		if got := len(units) - len(r.Missing()); got != want.there {
			t.Errorf("%s: %d units are there", want.until, got)
		}
		equalUnits(t, r, units[:want.there]...)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := create(t, dir)
	equalUnits(t, s, s.Manifest().Units...)
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left of %d killed writers, %v", left, kills, err)
	}
}

func TestReadOnlyFolder(t *testing.T) {
	dir := t.TempDir()
	for d := dir; d != filepath.Dir(d) && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	cmd := childCommand(t, "readonly "+dir)
	if out, err := cmd.Output(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// childFull goes on with a folder under a limit on the size of files, which is what a
// full disk does, without one: a unit that does not fit, then two that do. The limit is
// one of a process, so it is this one's: go test's own log is a file of its test process.
func childFull(dir string) error {
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 17, Max: 1 << 17}); err != nil {
		return err
	}
	s, err := Create(dir, testManifest(), testIDs)
	if err != nil {
		return err
	}
	err = s.Put("head", []Matrix{testMatrix("head", 512, 512, 1)}, nil)
	if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), unitFile(2, "head")) {
		return fmt.Errorf("a full disk gives %v", err)
	}
	if s.Has("head") || !s.Has("layer 0") {
		return errors.New("half a unit is there, or a whole one is gone")
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		return fmt.Errorf("%v is left, %v", left, err)
	}
	for _, u := range []string{"layer 3", "head"} { // not bricked
		if err := s.Put(u, testUnits()[u], []byte(`{"unit":"`+u+`"}`)); err != nil {
			return err
		}
	}
	return s.Close()
}

// TestFullDisk: a unit that does not fit leaves what was there, and the writer of use.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	s := create(t, dir)
	put(t, s, "layer 0")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := childCommand(t, "full "+dir).Output(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if !r.Whole() {
		t.Errorf("%v is not there", r.Missing())
	}
	equalUnits(t, r, "layer 0", "layer 3", "head")
}
