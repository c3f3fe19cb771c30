//go:build unix

package sessions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func init() {
	childVerbs["full"] = childFull
	childVerbs["readonly"] = childReadOnly
}

// The job of TestFullDisk writes some 11 MB, of which at most 2.5 MB in one
// transaction. The limit holds for the session and for its log, so a part of up
// to 8 MB gets through.
const (
	fullTensors = 6000
	fullLimit   = 4 << 20
)

// childFull runs with a limit on the size of files: what a full disk does,
// without one.
func childFull(path string) error {
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: fullLimit, Max: fullLimit}); err != nil {
		return err
	}
	job, _ := fakeJob(fullTensors)
	return childRun(path, job, strings.Split(childVariants, ",")...)
}

func TestFullDisk(t *testing.T) {
	path := sessionPath(t)
	out, err := startChild(t, "full "+path).output()
	if err == nil {
		t.Fatalf("the run did not stop: %s", out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	last := lines[len(lines)-1]
	if !strings.HasPrefix(last, "error sessions: "+path+": no space") {
		t.Errorf("the last line is %q", last)
	}
	st := openState(t, path)
	if st.Progress.Done == 0 || st.Progress.Done == fullTensors*3 {
		t.Errorf("recorded: %+v", st.Progress)
	}
	t.Logf("%d measurements fit; %s", st.Progress.Done, last)
	job, _ := fakeJob(fullTensors)
	if p := runJob(t, job, path, strings.Split(childVariants, ",")...); p.State != RunFinished || p.Done != fullTensors*3 {
		t.Errorf("after space was made: %+v", p)
	}
	payloads(t, path)
}

// childReadOnly becomes a user without rights, so that the permissions of
// folders count, and tries to write into one and to read from it.
func childReadOnly(dir string) error {
	if os.Geteuid() == 0 {
		if err := unix.Setgroups(nil); err != nil {
			return err
		}
		if err := unix.Setgid(65534); err != nil {
			return err
		}
		if err := unix.Setuid(65534); err != nil {
			return err
		}
	}
	job, _ := fakeJob(3)
	_, err := StartJob(context.Background(), job, Options{Session: filepath.Join(dir, "new.qscope"), Variants: []string{"f1"}})
	fmt.Println("new:", err)
	_, err = StartJob(context.Background(), job, Options{Session: filepath.Join(dir, "clean.qscope"), Variants: []string{"f1", "f2"}})
	fmt.Println("old:", err)
	for _, name := range []string{"clean", "killed"} {
		f, err := OpenSession(filepath.Join(dir, name+".qscope"))
		if err != nil {
			return err
		}
		st := f.Snapshot()
		fmt.Println(name, st.Progress.State, st.Progress.Done > 0)
		if _, err := f.Detail(context.Background(), 0, 0); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	fmt.Println("files:", len(entries))
	return err
}

func TestReadOnlyFolder(t *testing.T) {
	dir := t.TempDir()
	job, _ := fakeJob(3)
	runJob(t, job, filepath.Join(dir, "clean.qscope"), "f1")
	p := startChild(t, hold(childTensors/2, filepath.Join(dir, "killed.qscope")))
	if !p.until(1) {
		t.Fatal("the child measures nothing")
	}
	f, err := OpenSession(filepath.Join(dir, "killed.qscope"))
	if err != nil {
		t.Fatal(err)
	}
	st := f.Snapshot()
	until(t, f, st, func() bool { return st.Progress.Done > 0 }) // it is in the file
	if err := p.kill(); err == nil {
		t.Fatal("the child was not killed")
	}
	if err := os.Remove(filepath.Join(dir, "killed.qscope-shm")); err != nil {
		t.Fatal(err)
	}
	if walSize(filepath.Join(dir, "killed.qscope")) == 0 {
		t.Fatal("a killed run leaves no log")
	}
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for d := dir; d != os.TempDir() && len(d) > 1; d = filepath.Dir(d) { // anybody may come in
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })

	out, err := startChild(t, "readonly "+dir).output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{
		"new: sessions: " + dir + "/new.qscope: cannot be written: permission denied\n",
		"old: sessions: " + dir + "/clean.qscope: cannot be written: permission denied\n",
		"clean finished true\n", "killed interrupted true\n",
		fmt.Sprintf("files: %d\n", len(before)),
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestNoSpaceIsToldFromOtherErrors(t *testing.T) {
	if reason := noSpace(t.TempDir(), 0, 1); reason != "" {
		t.Errorf("space enough: %q", reason)
	}
	if reason := noSpace(t.TempDir(), 0, 1<<62); !strings.HasPrefix(reason, "no space") {
		t.Errorf("no space: %q", reason)
	}
	var env *EnvError
	if err := writeError("x", errors.New("odd")); !errors.As(err, &env) || env.Path != "x" {
		t.Errorf("%v", err)
	}
}
