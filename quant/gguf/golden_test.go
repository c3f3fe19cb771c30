package gguf

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

func golden(name string) string { return filepath.Join("testdata", "golden", name) }

// open opens a file, or fails.
func open(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// part is what gguf-py says of one file.
type part struct {
	Fields map[string]struct {
		Types []string
		Value any
	}
	Tensors []struct {
		Name, Type string
		Shape      []int64 `json:"shape_gguf_order"`
		Offset     int64   `json:"offset_in_data"`
		Bytes      int64   `json:"nbytes"`
	}
}

func readJSON(t *testing.T, path string, to any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(to); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// same compares a value with what the JSON has: integers by their digits, floats
// as f64.
func sameValue(got, want any) bool {
	switch w := want.(type) {
	case json.Number:
		switch g := got.(type) {
		case float32:
			x, err := w.Float64()
			return err == nil && float64(g) == x
		case float64:
			x, err := w.Float64()
			return err == nil && g == x
		}
		return fmt.Sprint(got) == w.String()
	case []any:
		list := elements(got)
		if len(list) != len(w) {
			return false
		}
		for i := range w {
			if !sameValue(list[i], w[i]) {
				return false
			}
		}
		return true
	}
	return got == want
}

func elements(list any) (out []any) {
	switch l := list.(type) {
	case []uint64:
		out = anySlice(l)
	case []int64:
		out = anySlice(l)
	case []float64:
		out = anySlice(l)
	case []bool:
		out = anySlice(l)
	case []string:
		out = anySlice(l)
	}
	return out
}

func anySlice[T any](l []T) (out []any) {
	for _, x := range l {
		out = append(out, x)
	}
	return out
}

func TestMetadataAndTables(t *testing.T) {
	for _, name := range []string{"model_a.gguf", "big_endian.gguf"} {
		var want part
		readJSON(t, golden(name+".json"), &want)
		f := open(t, golden(name))
		checkPart(t, f, 0, want)
		if len(f.Keys) != len(want.Fields) || f.Parts[0].Version != 3 || f.Parts[0].BigEndian != (name == "big_endian.gguf") {
			t.Errorf("%s: %d keys of %d, version %d, big-endian %t", name, len(f.Keys), len(want.Fields), f.Parts[0].Version, f.Parts[0].BigEndian)
		}
	}
	var split map[string]part
	readJSON(t, golden("split.gguf.json"), &split)
	for _, name := range []string{"split-00001-of-00002.gguf", "split-00002-of-00002.gguf"} { // either opens both
		f := open(t, golden(name))
		if len(f.Parts) != 2 || len(f.Tensors) != 5 {
			t.Fatalf("%d parts with %d tensors", len(f.Parts), len(f.Tensors))
		}
		for i := range f.Parts {
			p := split[filepath.Base(f.Parts[i].Name)]
			if i > 0 {
				p.Fields = nil // the first part's stand
			}
			checkPart(t, f, i, p)
		}
	}
}

func checkPart(t *testing.T, f *File, part int, want part) {
	t.Helper()
	for key, w := range want.Fields {
		v, ok := f.Metadata[key]
		got := v.V
		if v.Type == Array {
			got = v.List
		}
		if !ok || v.Type.String() != w.Types[0] || len(w.Types) > 1 && v.Elem.String() != w.Types[1] || !sameValue(got, w.Value) {
			t.Errorf("%s: %s is %s %v, want %v %v", f.Path, key, v.Type, got, w.Types, w.Value)
		}
	}
	n := 0
	for i := range f.Tensors {
		x := &f.Tensors[i]
		if x.Part != part {
			continue
		}
		if n == len(want.Tensors) {
			t.Fatalf("%s: more than %d tensors", f.Path, n)
		}
		w := want.Tensors[n]
		n++
		if x.Name != w.Name || x.Offset-f.Parts[part].data != w.Offset {
			t.Errorf("tensor %d is %q at %d, want %q at %d", i, x.Name, x.Offset-f.Parts[part].data, w.Name, w.Offset)
		}
		if x.Type.Known() && (x.Type.String() != w.Type || x.Bytes != w.Bytes) || !x.Type.Known() && x.Bytes != -1 {
			t.Errorf("%s: %s of %d bytes, want %s of %d", x.Name, x.Type, x.Bytes, w.Type, w.Bytes)
		}
		for d := range w.Shape {
			if len(x.Shape) != len(w.Shape) || x.Shape[len(x.Shape)-1-d] != w.Shape[d] {
				t.Errorf("%s: shape %v, want the reverse of %v", x.Name, x.Shape, w.Shape)
			}
		}
	}
	if n != len(want.Tensors) {
		t.Errorf("%s: %d tensors, want %d", f.Path, n, len(want.Tensors))
	}
}

// Every tensor whose type has a decoder gives the bits of gguf-py, and integers,
// which have none, the bytes.
func TestValues(t *testing.T) {
	for file, c := range map[string]struct {
		gold   string
		decode int // how many tensors have a decoder
		whole  int // how many are of integers
	}{
		"model_a.gguf":              {"model_a.gguf.safetensors", 27, 1},
		"split-00002-of-00002.gguf": {"split.gguf.safetensors", 5, 0},
		"big_endian.gguf":           {"big_endian.gguf.safetensors", 9, 0},
		"big_endian_plain.gguf":     {"big_endian_plain.gguf.safetensors", 3, 1},
	} {
		f := open(t, golden(file))
		ck, err := checkpoint.Open(golden(c.gold))
		if err != nil {
			t.Fatal(err)
		}
		defer ck.Close()
		n, whole := 0, 0
		for i := range f.Tensors {
			x := &f.Tensors[i]
			if !x.Type.Decodes() {
				if err := f.Decode(context.Background(), x, 0, make([]float32, 1)); err == nil || !strings.Contains(err.Error(), x.Name) {
					t.Errorf("%s, of %s: %v", x.Name, x.Type, err)
				}
				whole++
				got := make([]byte, x.Bytes)
				if err := f.ReadStored(t.Context(), x, 0, got); err != nil {
					t.Fatal(err)
				}
				w, ok := ck.Lookup(x.Name)
				if !ok || w.DType != checkpoint.I32 || x.Type != kernels.GGUFI32 {
					t.Fatalf("%s, of %s: %+v", x.Name, x.Type, w)
				}
				want := make([]byte, w.Size)
				if err := ck.ReadAt(t.Context(), w, 0, want); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%s: %s: % x, want % x", file, x.Name, got, want)
				}
				continue
			}
			n++
			want := floats(t, ck, x.Name)
			got := make([]float32, x.Elements())
			if err := f.Decode(context.Background(), x, 0, got); err != nil {
				t.Fatal(err)
			}
			for k := range want {
				if math.Float32bits(got[k]) != math.Float32bits(want[k]) {
					t.Errorf("%s: %s, of %s: element %d is %v, want %v", file, x.Name, x.Type, k, got[k], want[k])
					break
				}
			}
		}
		if n != c.decode || whole != c.whole {
			t.Errorf("%s: %d tensors decoded, %d of integers, want %d, %d", file, n, whole, c.decode, c.whole)
		}
	}
}

// floats reads a tensor of a safetensors file as f32.
func floats(t *testing.T, ck *checkpoint.Checkpoint, name string) []float32 {
	t.Helper()
	w, ok := ck.Lookup(name)
	if !ok {
		t.Fatalf("%s has no %s", ck.Path, name)
	}
	raw := make([]byte, w.Elements()*int64(w.DType.Bits())/8)
	out := make([]float32, w.Elements())
	if err := ck.ReadAt(context.Background(), w, 0, raw); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.DecodeF32(out, w.DType, raw); err != nil {
		t.Fatal(err)
	}
	return out
}
