package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// childEnv makes a child process of this test program, which writes in that folder.
const childEnv = "QUANTSCOPE_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := childFull(dir); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// childFull writes two files that do not fit and prints a line for each: what the
// error is. Every write beyond a size of a file fails, as on a full disk. That limit is
// one of a process, so it is this one's: go test's own log is a file of its test process.
func childFull(dir string) error {
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 16, Max: 1 << 16}); err != nil {
		return err
	}
	path := filepath.Join(dir, "w.safetensors")
	w, err := NewWriter(path, []Spec{{"a", U8, []int64{1 << 15}}, {"b", U8, []int64{4 << 20}}}, nil)
	if err != nil {
		return err
	}
	for err == nil {
		if s, _ := w.Next(); s == nil {
			err = w.Commit()
			break
		}
		_, err = w.Write(make([]byte, 1<<15))
	}
	fmt.Printf("%t %v\n", errors.Is(err, syscall.EFBIG), err)
	entries, readErr := os.ReadDir(dir)
	if readErr != nil {
		return readErr
	}
	fmt.Println(len(entries))
	err = AtomicWriteFile(path, make([]byte, 1<<17))
	fmt.Printf("%t %v\n", errors.Is(err, syscall.EFBIG), err)
	return nil
}

func TestWriterNoRoom(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "w.safetensors")
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != 3 {
		t.Fatalf("%q", out)
	}
	wantError(t, errors.New(lines[0]), "true ", path, `"b"`, "file too large")
	if lines[1] != "0" {
		t.Errorf("the writer leaves %s files", lines[1])
	}
	wantError(t, errors.New(lines[2]), "true ", path, "file too large")
	onlyFiles(t, dir)
}
