package checkpoint

import (
	"errors"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// limitFiles makes every write beyond a file size an error of this process,
// as a full disk does.
func limitFiles(t *testing.T, size uint64) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
			t.Error(err)
		}
		signal.Reset(syscall.SIGXFSZ)
	})
}

func TestWriterNoRoom(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "w.safetensors")
	limitFiles(t, 1<<16)
	w, err := NewWriter(path, []Spec{{"a", U8, []int64{1 << 15}}, {"b", U8, []int64{4 << 20}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		if s, _ := w.Next(); s == nil {
			err = w.Commit()
			break
		}
		_, err = w.Write(make([]byte, 1<<15))
	}
	wantError(t, err, path, `"b"`, "file too large")
	if !errors.Is(err, syscall.EFBIG) {
		t.Errorf("%v is not EFBIG", err)
	}
	onlyFiles(t, dir)

	err = AtomicWriteFile(path, make([]byte, 1<<17))
	wantError(t, err, path, "file too large")
	onlyFiles(t, dir)
}
