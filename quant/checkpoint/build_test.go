package checkpoint

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fileBytes is a safetensors file with the header text as it is given and
// dataSize bytes of data, byte i of which is i.
func fileBytes(header string, dataSize int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	for i := range dataSize {
		b = append(b, byte(i))
	}
	return b
}

// entry is a header member of a U8 vector over the bytes from begin to end.
func entry(name string, begin, end int) string {
	return string(appendEntry(nil, &Tensor{Name: name, DType: U8, Shape: []int64{int64(end - begin)}, Offset: int64(begin), Size: int64(end - begin)}))
}

// object is a JSON object of members.
func object(members ...string) string { return "{" + strings.Join(members, ",") + "}" }

// writeFiles makes a folder of files.
func writeFiles(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// vector is a file with one U8 vector of 4 bytes.
func vector(name string) string { return string(fileBytes(object(entry(name, 0, 4)), 4)) }

// mustOpen opens a checkpoint for the time of the test.
func mustOpen(t testing.TB, path string) *Checkpoint {
	t.Helper()
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// wantError wants an error of one line that holds all texts.
func wantError(t testing.TB, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", texts)
	}
	for _, s := range texts {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q is not in: %v", s, err)
		}
	}
	if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < 0x20 || r == 0x7F }) {
		t.Errorf("control characters in %q", err.Error())
	}
}

// seedFiles are files with headers to begin fuzzing from: the hostile ones,
// and those of a real model.
var seedFiles = []string{
	"testdata/cases/C01-pointer/tiny.safetensors",
	"testdata/cases/C03-overlap-hole/alias.safetensors",
	"testdata/cases/C03-overlap-hole/hole.safetensors",
	"testdata/cases/C04-duplicate-key/dup-other-range.safetensors",
	"testdata/cases/C05-size-arithmetic/wraps-to-zero.safetensors",
	"testdata/cases/C05-size-arithmetic/unknown-dtype.safetensors",
	"testdata/cases/C06-dtypes/dtypes.safetensors",
	"testdata/cases/C07-layout/layout.safetensors",
	"testdata/cases/C09-truncated/model-00003-of-00004.safetensors",
	"testdata/cases/C41-wide-names/model.safetensors",
	"../demo/data/model/model-00001-of-00002.safetensors",
	"../demo/data/model/model-00002-of-00002.safetensors",
}

// readSeed is the header text of a file, or what there is of it.
func readSeed(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) < lengthBytes {
		return b
	}
	n := min(binary.LittleEndian.Uint64(b), uint64(len(b)-lengthBytes))
	return b[lengthBytes : lengthBytes+n]
}
