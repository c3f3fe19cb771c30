package checkpoint

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A layout is the file that a Writer of the same tensors makes.
func TestLayOut(t *testing.T) {
	specs := []Spec{{"b", F32, []int64{2, 3}}, {"a", BF16, []int64{}}, {"none", U8, []int64{0, 5}}, {"c", U8, []int64{3}}}
	meta := map[string]string{"format": "pt"}
	path := filepath.Join(t.TempDir(), "x.safetensors")
	l, err := LayOut(path, specs, meta)
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte{1, 2, 3}, 100)
	w, err := NewWriter(path, specs, meta)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data[:24+2+3]); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(text)) != l.Size || !bytes.HasPrefix(text, l.Header) {
		t.Errorf("%d bytes, planned %d", len(text), l.Size)
	}
	c := mustOpen(t, path)
	for i := range l.Tensors {
		want := &l.Tensors[i]
		got, ok := c.Lookup(want.Name)
		if !ok || got.Offset != want.Offset || got.Size != want.Size {
			t.Errorf("%+v, planned %+v", got, want)
		}
	}
	_, err = LayOut(path, []Spec{{"a", U8, []int64{1}}, {"a", U8, []int64{1}}}, nil)
	wantError(t, err, `"a"`, "duplicate")
	_, err = LayOut(path, nil, map[string]string{"\xff": ""})
	wantError(t, err, "UTF-8")
}
