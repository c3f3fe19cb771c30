package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"
)

func TestReadAt(t *testing.T) {
	dir := writeFiles(t, map[string]string{"model.safetensors": string(fileBytes(object(entry("a", 0, 10), entry("b", 10, 30)), 30))})
	c := mustOpen(t, dir)
	b, _ := c.Lookup("b")
	for off := int64(0); off <= b.Size; off++ {
		for n := int64(0); n <= b.Size-off; n++ {
			got := make([]byte, n)
			if err := c.ReadAt(context.Background(), b, off, got); err != nil {
				t.Fatal(err)
			}
			for i, v := range got {
				if want := byte(10 + off + int64(i)); v != want {
					t.Fatalf("byte %d from %d on is %d, want %d", i, off, v, want)
				}
			}
		}
	}
	for _, r := range []struct{ off, n int64 }{{-1, 1}, {0, 21}, {20, 1}, {21, 0}, {1 << 62, 1}} {
		err := c.ReadAt(context.Background(), b, r.off, make([]byte, r.n))
		wantError(t, err, filepath.Join(dir, "model.safetensors"), `"b"`, "20 bytes")
	}
	if err := c.ReadAt(context.Background(), &Tensor{Name: "x", File: 1}, 0, nil); err == nil {
		t.Error("a tensor of another checkpoint was read")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.ReadAt(ctx, b, 0, make([]byte, 1)); err != context.Canceled {
		t.Errorf("%v, want the context's error as it is", err)
	}
}

// A long read ends between its steps when the context does.
func TestReadAtEndsWithContext(t *testing.T) {
	const size = 3 * readStep
	header := object(entry("a", 0, size))
	ctx, cancel := context.WithCancel(context.Background())
	reads := 0
	fsys := readFS{
		MapFS: fstest.MapFS{"model.safetensors": {Data: append(fileBytes(header, 0), make([]byte, size)...)}},
		onRead: func(n int) {
			if n == readStep {
				reads++
				cancel()
			}
		},
	}
	c, err := OpenFS("x", fsys)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.ReadAt(ctx, &c.Tensors[0], 0, make([]byte, size)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that the context was cancelled", err)
	}
	if reads != 1 {
		t.Errorf("%d steps were read, want 1", reads)
	}
}

// A long read puts its steps where they belong.
func TestReadAtSteps(t *testing.T) {
	const size = 2*readStep + 5
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i / 1000)
	}
	file := append(fileBytes(object(entry("a", 0, size)), 0), data...)
	c, err := OpenFS("x", fstest.MapFS{"model.safetensors": {Data: file}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := make([]byte, size-3)
	if err := c.ReadAt(context.Background(), &c.Tensors[0], 2, got); err != nil || !bytes.Equal(got, data[2:size-1]) {
		t.Errorf("other bytes than are there, %v", err)
	}
}

// A read that is under way when the checkpoint is closed comes to its end,
// and then the file is closed.
func TestCloseDuringRead(t *testing.T) {
	var c *Checkpoint
	armed := false
	fsys := readFS{MapFS: fstest.MapFS{"model.safetensors": {Data: []byte(vector("a"))}}, count: &openCount{}}
	fsys.onRead = func(int) {
		if armed {
			armed = false
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	var err error
	if c, err = OpenFS("x", fsys); err != nil {
		t.Fatal(err)
	}
	armed = true
	if err := c.ReadAt(context.Background(), &c.Tensors[0], 0, make([]byte, 4)); err != nil || armed {
		t.Errorf("read: %v, closed during it: %v", err, !armed)
	}
	if fsys.count.now != 0 {
		t.Errorf("%d files are open", fsys.count.now)
	}
}

// readFS tells of reads at a position and counts open files.
type readFS struct {
	fstest.MapFS
	onRead func(n int)
	count  *openCount
}

type openCount struct {
	mu           sync.Mutex
	now, highest int
}

func (c *openCount) add(n int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += n
	c.highest = max(c.highest, c.now)
}

func (f readFS) Open(name string) (fs.File, error) {
	inner, err := f.MapFS.Open(name)
	if err != nil || !strings.HasSuffix(name, weightsSuffix) {
		return inner, err
	}
	f.count.add(1)
	return &readFile{File: inner, fs: f}, nil
}

type readFile struct {
	fs.File
	fs     readFS
	closed atomic.Bool
}

func (f *readFile) ReadAt(p []byte, off int64) (int, error) {
	if f.fs.onRead != nil {
		f.fs.onRead(len(p))
	}
	runtime.Gosched() // gives others time to close what is in use
	if f.closed.Load() {
		return 0, fs.ErrClosed
	}
	return f.File.(io.ReaderAt).ReadAt(p, off)
}

func (f *readFile) Close() error {
	f.closed.Store(true)
	f.fs.count.add(-1)
	return f.File.Close()
}

// A checkpoint of more shards than a process may have open files is read from
// many goroutines with few of them open.
func TestManyShards(t *testing.T) {
	const shards, readers = 3000, 8
	fsys := readFS{MapFS: fstest.MapFS{}, count: &openCount{}}
	for i := range shards {
		data := fileBytes(object(entry(fmt.Sprintf("t%d", i), 0, 2)), 0)
		fsys.MapFS[fmt.Sprintf("m-%05d.safetensors", i)] = &fstest.MapFile{Data: append(data, byte(i), byte(i>>8))}
	}
	c, err := OpenFS("x", fsys)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for r := range readers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(r), 1))
			for range 2000 {
				i := rng.IntN(shards)
				if r%2 == 0 {
					i %= 70 // hot ones, a few more than stay open
				}
				got := make([]byte, 2)
				if err := c.ReadAt(context.Background(), &c.Tensors[i], 0, got); err != nil || int(got[0])|int(got[1])<<8 != i {
					t.Errorf("tensor %d: %v, %v", i, got, err)
				}
			}
		})
	}
	wg.Wait()
	// Each reader may hold one open file and open one that another keeps.
	if limit := maxIdleHandles + 2*readers; fsys.count.highest > limit {
		t.Errorf("%d files were open at once, want at most %d", fsys.count.highest, limit)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if fsys.count.now != 0 {
		t.Errorf("%d files are open after Close", fsys.count.now)
	}
	err = c.ReadAt(context.Background(), &c.Tensors[0], 0, make([]byte, 1))
	if !errors.Is(err, fs.ErrClosed) {
		t.Errorf("read after Close: %v", err)
	}
}

// reopened is a checkpoint whose first shard was closed for want of room, so
// that the next read of it opens the file again.
func reopened(t *testing.T) (c *Checkpoint, shard string) {
	files := map[string]string{"0.safetensors": vector("first")}
	for i := range maxIdleHandles {
		files[fmt.Sprintf("1-%03d.safetensors", i)] = vector(fmt.Sprint(i))
	}
	dir := writeFiles(t, files)
	return mustOpen(t, dir), filepath.Join(dir, "0.safetensors")
}

func TestReadAtChangedFile(t *testing.T) {
	const there = "" // no error
	for name, change := range map[string]struct {
		do   func(path string) error
		want string
	}{
		"untouched": {func(string) error { return nil }, there},
		"touched":   {func(p string) error { return os.Chtimes(p, time.Time{}, time.Unix(1, 0)) }, there},
		"gone":      {os.Remove, "no such file"},
		"longer": {func(p string) error {
			return os.WriteFile(p, []byte(vector("first")+"x"), 0o666)
		}, "changed since it was opened"},
		"shorter": {func(p string) error { return os.Truncate(p, 20) }, "changed since it was opened"},
		"another header": {func(p string) error {
			if err := os.WriteFile(p, []byte(vector("secnd")), 0o666); err != nil {
				return err
			}
			return os.Chtimes(p, time.Time{}, time.Unix(1, 0))
		}, "its header is another one"},
	} {
		t.Run(name, func(t *testing.T) {
			c, shard := reopened(t)
			if err := change.do(shard); err != nil {
				t.Fatal(err)
			}
			err := c.ReadAt(context.Background(), &c.Tensors[0], 0, make([]byte, 4))
			if change.want == there {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantError(t, err, shard, `"first"`, change.want)
		})
	}
}

// A file that is cut while it is open says how many bytes came.
func TestReadAtShortFile(t *testing.T) {
	dir := writeFiles(t, map[string]string{"model.safetensors": string(fileBytes(object(entry("a", 0, 10)), 10))})
	c := mustOpen(t, dir)
	path := filepath.Join(dir, "model.safetensors")
	if err := os.Truncate(path, c.Files[0].Size-3); err != nil {
		t.Fatal(err)
	}
	err := c.ReadAt(context.Background(), &c.Tensors[0], 1, make([]byte, 9))
	wantError(t, err, path, `"a"`, "6 of 9 bytes came")
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v is not io.ErrUnexpectedEOF", err)
	}
}
