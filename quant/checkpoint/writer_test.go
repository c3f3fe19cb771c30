package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// onlyFiles wants a folder to hold these files and nothing else, no temporary
// ones either.
func onlyFiles(t testing.TB, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the folder holds %q, want %q", got, want)
	}
}

func TestWriterBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.safetensors")
	w, err := NewWriter(path, []Spec{
		{"b", U8, []int64{3}}, {"empty", F32, []int64{0, 2}}, {"a\"\n🚀", BF16, nil}, {"f", F4, []int64{2, 2}},
	}, map[string]string{"z": "1", "format": "pt"})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"\x01", "\x02\x03\x04", "", "\x05\x06\x07"} { // across tensors
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("%d bytes written of %d: %v", n, len(part), err)
		}
	}
	onlyTemp, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.safetensors"))
	if err != nil || len(onlyTemp) != 0 {
		t.Errorf("before Commit there is %q, %v", onlyTemp, err)
	}
	size := w.Size()
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	header := `{"__metadata__":{"format":"pt","z":"1"},` +
		`"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},` +
		`"empty":{"dtype":"F32","shape":[0,2],"data_offsets":[3,3]},` +
		`"a\"\u000a🚀":{"dtype":"BF16","shape":[],"data_offsets":[3,5]},` +
		`"f":{"dtype":"F4","shape":[2,2],"data_offsets":[5,7]}}`
	header += strings.Repeat(" ", (8-len(header)%8)%8)
	want := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	want = append(append(want, header...), 1, 2, 3, 4, 5, 6, 7)
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v\nwrote %q\nwant  %q", err, got, want)
	}
	if size != int64(len(got)) {
		t.Errorf("Size said %d, the file has %d bytes", size, len(got))
	}
	onlyFiles(t, filepath.Dir(path), "w.safetensors")
}

// What is written is read back: names, dtypes, shapes, metadata and data.
func TestWriterRoundTrip(t *testing.T) {
	dir := t.TempDir()
	files := 0
	rapid.Check(t, func(rt *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.String().Filter(func(s string) bool { return s != metadataKey }), 0, 8, rapid.ID).Draw(rt, "names")
		var specs []Spec
		for _, name := range names {
			specs = append(specs, Spec{
				Name:  name,
				DType: DType(rapid.IntRange(1, len(dtypes)-1).Draw(rt, "dtype")),
				Shape: append(rapid.SliceOfN(rapid.Int64Range(0, 5), 0, 3).Draw(rt, "shape"), 2),
			})
		}
		metadata := rapid.MapOf(rapid.String(), rapid.String()).Draw(rt, "metadata")
		files++
		path := filepath.Join(dir, fmt.Sprintf("%d.safetensors", files))
		w, err := NewWriter(path, specs, metadata)
		if err != nil {
			rt.Fatal(err)
		}
		var data []byte
		for s, left := w.Next(); s != nil; s, left = w.Next() {
			part := rapid.SliceOfN(rapid.Byte(), 1, int(left)).Draw(rt, "data")
			data = append(data, part...)
			if _, err := w.Write(part); err != nil {
				rt.Fatal(err)
			}
		}
		if err := w.Commit(); err != nil {
			rt.Fatal(err)
		}
		c, err := Open(path)
		if err != nil {
			rt.Fatal(err)
		}
		defer c.Close()
		if got, want := fmt.Sprint(c.Files[0].Metadata), fmt.Sprint(metadata); got != want {
			rt.Errorf("metadata %s, want %s", got, want)
		}
		if len(c.Tensors) != len(specs) || c.Bytes() != int64(len(data)) {
			rt.Fatalf("%d tensors of %d bytes, want %d of %d", len(c.Tensors), c.Bytes(), len(specs), len(data))
		}
		at := 0
		for _, s := range specs {
			got, ok := c.Lookup(s.Name)
			if !ok || got.DType != s.DType || fmt.Sprint(got.Shape) != fmt.Sprint(s.Shape) {
				rt.Fatalf("%q: %v %+v, want %+v", s.Name, ok, got, s)
			}
			raw := make([]byte, got.Size)
			if err := c.ReadAt(context.Background(), got, 0, raw); err != nil || !bytes.Equal(raw, data[at:at+len(raw)]) {
				rt.Errorf("%q: other data than written, %v", s.Name, err)
			}
			at += len(raw)
		}
	})
}

func TestWriterRefused(t *testing.T) {
	dir := t.TempDir()
	u8 := func(names ...string) (specs []Spec) {
		for _, n := range names {
			specs = append(specs, Spec{n, U8, []int64{2}})
		}
		return specs
	}
	for _, c := range []struct {
		name     string
		specs    []Spec
		metadata map[string]string
		want     []string
	}{
		{"twice", u8("a", "a"), nil, []string{`"a"`, "duplicate"}},
		{"reserved", u8("__metadata__"), nil, []string{"reserved"}},
		{"not UTF-8", u8("\xff"), nil, []string{`"\xff"`, "not UTF-8"}},
		{"metadata not UTF-8", nil, map[string]string{"k": "\xff"}, []string{`"k"`, "not UTF-8"}},
		{"no dtype", []Spec{{"a", 0, nil}}, nil, []string{`"a"`, "no size"}},
		{"half a byte", []Spec{{"a", F4, []int64{1}}}, nil, []string{`"a"`, "[1]", "no size"}},
		{"negative", []Spec{{"a", U8, []int64{-1}}}, nil, []string{`"a"`, "[-1]"}},
		{"overflow", []Spec{{"a", U8, []int64{math.MaxInt64, 2}}}, nil, []string{`"a"`, "no size"}},
		{"overflow of the sum", []Spec{{"a", U8, []int64{1 << 60}}, {"b", U8, []int64{1 << 60}}, {"c", U8, []int64{1 << 60}}, {"d", U8, []int64{1 << 60}}}, nil, []string{`"d"`, "overflow"}},
		{"rank", []Spec{{"a", U8, make([]int64, 65)}}, nil, []string{`"a"`, "64 dimensions"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := NewWriter(filepath.Join(dir, "w.safetensors"), c.specs, c.metadata)
			wantError(t, err, append(c.want, "w.safetensors")...)
		})
	}
	_, err := NewWriter(filepath.Join(dir, "absent", "w.safetensors"), nil, nil)
	wantError(t, err, "absent", "no such file")
	onlyFiles(t, dir)
}

// A writer that does not come to its end leaves nothing behind, and one that
// did touches nothing that was there.
func TestWriterUnfinished(t *testing.T) {
	for name, use := range map[string]func(w *Writer) error{
		"incomplete": func(w *Writer) error {
			if _, err := w.Write([]byte("abc")); err != nil {
				return err
			}
			return w.Commit()
		},
		"too much": func(w *Writer) error {
			n, err := w.Write([]byte("abcde"))
			if n != 4 || err == nil {
				return fmt.Errorf("%d bytes written, %v", n, err)
			}
			return w.Commit()
		},
		"aborted": func(w *Writer) error {
			w.Abort()
			_, err := w.Write([]byte("a"))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "w.safetensors")
			w, err := NewWriter(path, []Spec{{"a", U8, []int64{4}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = use(w)
			wantError(t, err, path, map[string]string{"incomplete": "1 of its 4 bytes did not come", "too much": "1 bytes beyond the last tensor", "aborted": "abandoned"}[name])
			onlyFiles(t, dir)
			w.Abort()
		})
	}
	dir := writeFiles(t, map[string]string{"w.safetensors": "old"})
	_, err := NewWriter(filepath.Join(dir, "w.safetensors"), nil, nil)
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("written over: %v", err)
	}
	onlyFiles(t, dir, "w.safetensors")
}

func TestAtomicWriteFile(t *testing.T) {
	dir := writeFiles(t, map[string]string{"a": "old"})
	path := filepath.Join(dir, "a")
	if err := AtomicWriteFile(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "new" {
		t.Errorf("holds %q, %v", got, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if want, err := os.Stat(plain); err != nil || info.Mode() != want.Mode() {
		t.Errorf("mode %s, that of a new file is %v, %v", info.Mode(), want.Mode(), err)
	}
	onlyFiles(t, dir, "a", "plain")

	folder := filepath.Join(dir, "d")
	if err := os.MkdirAll(filepath.Join(folder, "x"), 0o777); err != nil {
		t.Fatal(err)
	}
	wantError(t, AtomicWriteFile(folder, []byte("x")), folder, "rename")
	wantError(t, AtomicWriteFile(filepath.Join(path, "b"), nil), "not a directory")
	onlyFiles(t, dir, "a", "d", "plain")
}

func TestCheckSpace(t *testing.T) {
	dir := t.TempDir()
	if err := CheckSpace(dir, 1); err != nil {
		t.Errorf("one byte: %v", err)
	}
	err := CheckSpace(dir, math.MaxInt64)
	if _, tells := FreeBytes(dir); !tells {
		if err != nil {
			t.Errorf("refused on a system that does not tell: %v", err)
		}
		return
	}
	wantError(t, err, dir, "no space", "9223372036854775807 bytes")
}
