package checkpoint

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"
)

// TestChanged: size and time are those of the file when it was opened; one that
// is gone, or that has no time, did not change.
func TestChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	w, err := NewWriter(path, []Spec{{Name: "w", DType: F32, Shape: []int64{4}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	look := func(what, want string) {
		t.Helper()
		if file, changed := c.Changed(); file != want || changed != (want != "") {
			t.Errorf("%s: %q, %v", what, file, changed)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	look("untouched", "")
	if err := os.Chtimes(path, time.Time{}, info.ModTime().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	look("another time", path)
	if err := os.Truncate(path, info.Size()-1); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
	look("another size", path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	look("gone", "")

	embedded, err := OpenFS("demo", fstest.MapFS{"model.safetensors": {Data: whole}})
	if err != nil {
		t.Fatal(err)
	}
	defer embedded.Close()
	if file, changed := embedded.Changed(); changed {
		t.Errorf("%s changed", file)
	}
}
