package yardstick

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/kernels"
)

// measureWith gives the rows of the first candidate, and the stages that the
// reference went through.
func measureWith(t *testing.T, ref *candidate.Candidate, o Options) (rows [][]Row, warned []string, err error) {
	t.Helper()
	o.NoFloor = true
	o.Scored = func(c *Chunk) { rows = append(rows, c.Rows[0]) }
	o.Warn = func(s string) { warned = append(warned, s) }
	_, err = Measure(context.Background(), ref, []*candidate.Candidate{variant(t, ref, "nvfp4")}, texts(t, 2, 48, "prose"), o)
	return rows, warned, err
}

// cacheFiles lists the files of hidden states.
func cacheFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+cacheSuffix))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestCacheIsUsed(t *testing.T) {
	ref := reference(t)
	dir := t.TempDir()
	want, _, err := measureWith(t, ref, Options{Cache: dir})
	if err != nil {
		t.Fatal(err)
	}
	files := cacheFiles(t, dir)
	if len(files) != 2 {
		t.Fatalf("%v", files)
	}
	// The second measurement takes the states from the folder: the reference's layers
	// are never done.
	layers := 0
	got, warned, err := measureWith(t, ref, Options{Cache: dir, Progress: func(p Progress) {
		if p.Stage == "reference" && p.Layer < 4 {
			layers++
		}
	}})
	if err != nil || len(warned) != 0 || layers != 0 {
		t.Errorf("%v, warned %q, %d layers of the reference", err, warned, layers)
	}
	if !reflect.DeepEqual(got, want) {
		t.Error("other scores from the cache")
	}
	if len(cacheFiles(t, dir)) != 2 {
		t.Error("states were written again")
	}
	// Other activations are another arithmetic.
	if _, _, err := measureWith(t, ref, Options{Cache: dir, BF16: true}); err != nil || len(cacheFiles(t, dir)) != 4 {
		t.Errorf("bf16: %d files, %v", len(cacheFiles(t, dir)), err)
	}
}

func TestDamagedCache(t *testing.T) {
	ref := reference(t)
	dir := t.TempDir()
	want, _, err := measureWith(t, ref, Options{Cache: dir})
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func([]byte) []byte{
		"a bit":      func(b []byte) []byte { b[len(b)/2] ^= 4; return b },
		"cut":        func(b []byte) []byte { return b[:len(b)-100] },
		"empty":      func([]byte) []byte { return nil },
		"long":       func(b []byte) []byte { return append(b, make([]byte, 1<<17)...) },
		"other file": func([]byte) []byte { return bytes.Repeat([]byte("text"), 30) },
	} {
		path := cacheFiles(t, dir)[0]
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, damage(bytes.Clone(whole)), 0o666); err != nil {
			t.Fatal(err)
		}
		got, warned, err := measureWith(t, ref, Options{Cache: dir})
		if err != nil || len(warned) != 1 || !strings.Contains(warned[0], filepath.Base(path)) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, warned %q", name, err, warned)
		}
		if again, err := os.ReadFile(path); err != nil || !bytes.Equal(again, whole) {
			t.Errorf("%s: the file was not made again, %v", name, err)
		}
	}
}

// A cache that cannot be made, or written to, is told of once and missed by nobody.
func TestCacheThatCannotBeWritten(t *testing.T) {
	ref := reference(t)
	want, _, err := measureWith(t, ref, Options{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// Folders stand where files of states would be: a rename onto them fails for
	// root as well.
	taken := t.TempDir()
	if _, _, err := measureWith(t, ref, Options{Cache: taken}); err != nil {
		t.Fatal(err)
	}
	for _, path := range cacheFiles(t, taken) {
		if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	for dir, warnings := range map[string]int{file: 1, filepath.Join(file, "below"): 1, taken: 2} { // 2: what is there is no file of states
		got, warned, err := measureWith(t, ref, Options{Cache: dir, Group: 64})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v", dir, err)
		}
		kept := 0
		for _, w := range warned {
			if strings.Contains(w, "not kept") && strings.Contains(w, dir) {
				kept++
			}
		}
		if kept != 1 || len(warned) < warnings {
			t.Errorf("%s: warned %q", dir, warned)
		}
	}
}

// copied is the demo's files in a folder, its weights changed by change.
func copied(t *testing.T, change func([]byte)) *candidate.Candidate {
	t.Helper()
	dir := t.TempDir()
	files := os.DirFS("../../quant/demo/data/model")
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		if filepath.Ext(path) == ".safetensors" && change != nil {
			change(data)
		}
		return os.WriteFile(filepath.Join(dir, filepath.Base(path)), data, 0o666)
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := candidate.Open(context.Background(), dir, candidate.Options{Set: kernels.Best()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Two checkpoints with the same headers have one identity; their hidden states must
// not be taken for one another's.
func TestCacheOfAnotherCheckpoint(t *testing.T) {
	first := copied(t, nil)
	second := copied(t, func(b []byte) { b[len(b)-999] ^= 1 }) // lowest bit of a bf16, or close to it
	if first.Identity != second.Identity {
		t.Fatal("the identities differ: the test tests nothing")
	}
	dir, other := t.TempDir(), t.TempDir()
	if _, _, err := measureWith(t, first, Options{Cache: dir}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := measureWith(t, second, Options{Cache: dir}); err != nil {
		t.Fatal(err)
	}
	if n := len(cacheFiles(t, dir)); n != 4 {
		t.Errorf("%d files of two checkpoints with two chunks", n)
	}
	// A file that carries another's name is refused, and both are named.
	if _, _, err := measureWith(t, second, Options{Cache: other}); err != nil {
		t.Fatal(err)
	}
	theirs := cacheFiles(t, other)
	for _, mine := range cacheFiles(t, dir) {
		if _, err := os.Stat(filepath.Join(other, filepath.Base(mine))); err != nil { // of the first
			data, err := os.ReadFile(mine)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(theirs[0], data, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, _, err := measureWith(t, second, Options{Cache: other})
	if !errors.Is(err, ErrCache) || !strings.Contains(err.Error(), "holds hidden states of checkpoint with content") || !strings.Contains(err.Error(), filepath.Base(theirs[0])) {
		t.Error(err)
	}
}

func TestCacheStaysWithinItsBound(t *testing.T) {
	ref := reference(t)
	dir := t.TempDir()
	if _, _, err := measureWith(t, ref, Options{Cache: dir, CacheBytes: 40_000}); err != nil { // a chunk is 48·128·4 bytes
		t.Fatal(err)
	}
	if n := len(cacheFiles(t, dir)); n != 1 {
		t.Errorf("%d files", n)
	}
}

func TestDigestsAreKept(t *testing.T) {
	ref := copied(t, nil)
	dir := t.TempDir()
	a, err := Digest(t.Context(), dir, ref.Path)
	if err != nil || len(a) != 64 {
		t.Fatal(a, err)
	}
	store := filepath.Join(dir, digestsName)
	data, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	// What was kept is believed while size and time stay …
	changed := bytes.Replace(data, []byte(`"sha256":"`), []byte(`"sha256":"0`), 1)
	if err := os.WriteFile(store, changed, 0o666); err != nil {
		t.Fatal(err)
	}
	if b, err := Digest(t.Context(), dir, ref.Path); err != nil || b == a {
		t.Errorf("the files were read again, %v", err)
	}
	// … and made again where it cannot be read.
	if err := os.WriteFile(store, []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if b, err := Digest(t.Context(), dir, ref.Path); err != nil || b != a {
		t.Errorf("%s, then %s, %v", a, b, err)
	}
}

// Whatever a file holds, it is read only if it is what was written.
func FuzzReadStates(f *testing.F) {
	key := cacheKey{Identity: "a", Tokens: "b", Count: 2, Hidden: 3}
	dir := f.TempDir()
	c := &hiddenCache{m: &measurement{}, dir: dir, limit: 1 << 20, key: key}
	ids := []int32{4, 5}
	if err := c.store([]chunkAt{{ids: ids}}, []float32{1, 2, 3, 4, 5, 6}); err != nil {
		f.Fatal(err)
	}
	key, head, path, err := c.of(ids)
	if err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:20])
	f.Add([]byte(cacheMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		x, err := readStates(path, key, head)
		if (err == nil) != bytes.Equal(data, good) || err == nil && len(x) != 6 {
			t.Errorf("%d values, %v", len(x), err)
		}
	})
}
