package export

import (
	"errors"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// limitFiles makes every write beyond a file size an error of this process, as
// a full disk does, until the function is called that it returns.
func limitFiles(t *testing.T, size uint64) (lift func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	lift = func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
			t.Error(err)
		}
		signal.Reset(syscall.SIGXFSZ)
	}
	t.Cleanup(lift)
	return lift
}

// A disk that is full for the largest shard leaves the finished one, and the
// export goes on when there is room.
func TestNoRoomForAShard(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	p := planOf(t, ck, model, "model.layers.*proj.weight", CompressedTensors, "nvfp4")
	all := prepare(t, p)
	want, dir := filepath.Join(t.TempDir(), "want"), filepath.Join(t.TempDir(), "out")
	mustWrite(t, p, all, want, Options{})
	large := p.Shards[0].Size
	for i := range p.Shards {
		large = max(large, p.Shards[i].Size)
	}
	lift := limitFiles(t, uint64(large-1))
	_, err := write(t, p, all, dir, Options{})
	lift()
	if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("%v", err)
	}
	have := files(t, dir)
	for i := range p.Shards {
		text, ok := have[p.Shards[i].Name]
		if p.Shards[i].Size == large && ok || ok && int64(len(text)) != p.Shards[i].Size {
			t.Errorf("%s has %d bytes of %d", p.Shards[i].Name, len(text), p.Shards[i].Size)
		}
	}
	if !marked(t, dir) {
		t.Error("no mark")
	}
	mustWrite(t, p, all, dir, Options{Resume: true})
	sameFiles(t, dir, want)
}
