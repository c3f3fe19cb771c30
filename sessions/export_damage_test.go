package sessions

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// corrupt breaks a copy of a file in one of several ways.
func corrupt(rng *rand.Rand, content []byte) []byte {
	const page = 4096
	b := bytes.Clone(content)
	switch rng.IntN(6) {
	case 0:
		for range 1 + rng.IntN(20) {
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		}
	case 1: // where trees keep their pointers and cells
		at := rng.IntN(len(b)/page)*page + rng.IntN(64)
		b[at] ^= 1 << rng.IntN(8)
	case 2:
		at := rng.IntN(len(b)/page) * page
		for i := range page {
			b[at+i] = byte(rng.Uint32())
		}
	case 3: // a page of the same file in the place of another
		copy(b[(1+rng.IntN(len(b)/page-1))*page:][:page], b[(1+rng.IntN(len(b)/page-1))*page:])
	case 4:
		at := rng.IntN(len(b))
		clear(b[at:min(at+500, len(b))])
	case 5:
		b = b[:rng.IntN(len(b))]
	}
	return b
}

// TestExportOfDamage: what is exported of a damaged session is all of it, or
// there is an error about the file. Whatever else reads it says so too.
func TestExportOfDamage(t *testing.T) {
	whole := sessionPath(t)
	job, _ := fakeJob(120)
	runJob(t, job, whole, "f1", "f2")
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	formats := map[string]func(context.Context, io.Writer, string) error{"csv": ExportCSV, "jsonl": ExportJSONL, "parquet": ExportParquet}
	want := map[string][]byte{}
	for name, export := range formats {
		var b bytes.Buffer
		if err := export(t.Context(), &b, whole); err != nil {
			t.Fatal(err)
		}
		want[name] = b.Bytes()
	}
	path := copySession(t, whole)
	ofFile := func(i int, what string, err error) {
		t.Helper()
		var file *FileError
		if err != nil && (!errors.As(err, &file) || !strings.Contains(err.Error(), path)) {
			t.Errorf("%d: %s: %v", i, what, err)
		}
	}
	rng := rand.New(rand.NewPCG(3, 8))
	all, refused := 0, 0
	for i := range 200 {
		if err := os.WriteFile(path, corrupt(rng, content), 0o644); err != nil {
			t.Fatal(err)
		}
		for name, export := range formats {
			var b bytes.Buffer
			err := export(t.Context(), &b, path)
			ofFile(i, name, err)
			switch {
			case err != nil:
				refused++
			case bytes.Equal(b.Bytes(), want[name]):
				all++
			default:
				t.Errorf("%d: %s: %d bytes of %d are exported as if they were all", i, name, b.Len(), len(want[name]))
			}
		}
		_, err := Inspect(path)
		ofFile(i, "Inspect", err)
		_, err = OpenReplay(path, 1)
		ofFile(i, "OpenReplay", err)
		f, err := OpenSession(path)
		ofFile(i, "OpenSession", err)
		if err != nil {
			continue
		}
		if st := f.Snapshot(); len(st.Variants) > 0 {
			if _, err := f.Detail(t.Context(), 0, 5); !errors.Is(err, ErrNotMeasured) {
				ofFile(i, "Detail", err)
			}
		}
	}
	t.Logf("%d exports of all, %d refused", all, refused)
	if all < 20 || refused < 20 {
		t.Error("the damage is all of one sort")
	}
}
