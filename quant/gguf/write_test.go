package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quantscope/kernels"
)

// Every golden and good case is written again: what is read is the same, and a
// file of version 3 with this order of bytes and no gaps comes out byte for byte.
func TestWrittenAgain(t *testing.T) {
	var same int
	for _, dir := range []string{"golden", "imatrix", "cases/C13-alignment", "cases/C15-gguf-names", "cases/C16-mxfp4-blocks", "cases/C11-version-endian"} {
		files, err := filepath.Glob(filepath.Join("testdata", dir, "*.gguf"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, path := range files {
			f, err := Open(path)
			if err != nil {
				continue // broken on purpose
			}
			t.Cleanup(func() { _ = f.Close() })
			if len(f.Parts) > 1 || slices.ContainsFunc(f.Tensors, func(t Tensor) bool { return !t.Type.Known() }) {
				continue
			}
			if !rewrite(t, f) {
				t.Errorf("%s does not read as it was written", path)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(before, rewritten(t, f)) {
				same++
			}
		}
	}
	if same < 11 {
		t.Errorf("%d files came out byte for byte, want 11 at least", same)
	}
}

// rewritten are the bytes of a file that is written again.
func rewritten(t *testing.T, f *File) []byte {
	t.Helper()
	var pairs []Pair
	for _, k := range f.Keys {
		pairs = append(pairs, Pair{k, f.Metadata[k]})
	}
	var b bytes.Buffer
	w, err := NewWriter(&b, pairs, f.Tensors)
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Tensors {
		raw := make([]byte, f.Tensors[i].Bytes)
		if err := f.ReadAt(t.Context(), &f.Tensors[i], 0, raw); err != nil {
			t.Fatal(err)
		}
		if f.Parts[0].BigEndian {
			if err := kernels.SwapGGUF(f.Tensors[i].Type, raw); err != nil {
				t.Fatal(err)
			}
		}
		for len(raw) > 0 { // in pieces of odd sizes
			n := min(len(raw), 1+i%7*13)
			if _, err := w.Write(raw[:n]); err != nil {
				t.Fatal(err)
			}
			raw = raw[n:]
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func rewrite(t *testing.T, f *File) bool {
	g := open(t, writeFile(t, rewritten(t, f)))
	if !reflect.DeepEqual(f.Keys, g.Keys) || !reflect.DeepEqual(f.Metadata, g.Metadata) || len(f.Tensors) != len(g.Tensors) {
		return false
	}
	for i := range f.Tensors {
		a, b := f.Tensors[i], g.Tensors[i]
		x, y := make([]float32, a.Elements()), make([]float32, b.Elements())
		if a.Name != b.Name || a.Type != b.Type || !reflect.DeepEqual(a.Shape, b.Shape) || a.Bytes != b.Bytes {
			return false
		}
		if !a.Type.Decodes() {
			continue
		}
		if err := errors.Join(f.Decode(t.Context(), &a, 0, x), g.Decode(t.Context(), &b, 0, y)); err != nil {
			t.Fatal(err)
		}
		if digest(x) != digest(y) {
			return false
		}
	}
	return true
}

// Values of every type, lists in lists included, come back as they were.
func TestWrittenValues(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var pairs []Pair
		want := map[string]Value{}
		for i := range rapid.IntRange(0, 6).Draw(rt, "pairs") {
			v := drawValue(rt, 0)
			key := fmt.Sprintf("k.%d", i)
			pairs = append(pairs, Pair{key, v})
			want[key] = v
		}
		var b bytes.Buffer
		w, err := NewWriter(&b, pairs, nil)
		if err != nil {
			rt.Fatal(err)
		}
		if err := w.Close(); err != nil {
			rt.Fatal(err)
		}
		f := open(t, writeFile(t, b.Bytes()))
		if !reflect.DeepEqual(f.Metadata, want) {
			rt.Errorf("%v came back as %v", want, f.Metadata)
		}
	})
}

func drawValue(rt *rapid.T, depth int) Value {
	kind := ValueType(rapid.IntRange(0, int(Float64)).Draw(rt, "type"))
	if kind != Array {
		return Value{Type: kind, V: drawScalar(rt, kind)}
	}
	elem := ValueType(rapid.IntRange(0, int(Float64)).Draw(rt, "of"))
	v := Value{Type: Array, Elem: elem}
	n := rapid.IntRange(1, 3).Draw(rt, "n")
	if elem == Array {
		if depth >= maxNesting-2 {
			return Value{Type: Array, Elem: String, List: []string{""}}
		}
		list := []Value{}
		for range n {
			e := drawValue(rt, depth+1)
			if e.Type != Array {
				e = Value{Type: Array, Elem: Bool, List: []bool{true}}
			}
			list = append(list, e)
		}
		v.List = list
		return v
	}
	switch drawScalar(rt, elem).(type) {
	case string:
		v.List = some[string](rt, elem, n)
	case bool:
		v.List = some[bool](rt, elem, n)
	case uint64:
		v.List = some[uint64](rt, elem, n)
	case int64:
		v.List = some[int64](rt, elem, n)
	default:
		list := make([]float64, n)
		for i := range list {
			list[i] = float64(float32(rapid.Float32().Draw(rt, "x")))
		}
		v.List = list
	}
	return v
}

func some[T any](rt *rapid.T, elem ValueType, n int) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = drawScalar(rt, elem).(T)
	}
	return list
}

func drawScalar(rt *rapid.T, t ValueType) any {
	bits := 8 * int(t.size())
	switch t {
	case String:
		return rapid.String().Draw(rt, "s")
	case Bool:
		return rapid.Bool().Draw(rt, "b")
	case Float32:
		return rapid.Float32().Draw(rt, "x")
	case Float64:
		return rapid.Float64().Draw(rt, "x")
	case Int8, Int16, Int32, Int64:
		return rapid.Int64Range(math.MinInt64>>(64-bits), math.MaxInt64>>(64-bits)).Draw(rt, "i")
	}
	return rapid.Uint64Range(0, math.MaxUint64>>(64-bits)).Draw(rt, "u")
}

// says wants an error of one line with a text in it.
func says(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, want %q in one line", err, text)
	}
}

// What readers refuse is not written.
func TestNotWritten(t *testing.T) {
	name := strings.Repeat("n", 64)
	f32 := func(name string, shape ...int64) []Tensor { return []Tensor{F32Tensor(name, shape...)} }
	for _, c := range []struct {
		pairs   []Pair
		tensors []Tensor
		mention string
	}{
		{pairs: []Pair{{"a", Count(1)}, {"a", Count(2)}}, mention: `"a" is a duplicate`},
		{pairs: []Pair{{"", Count(1)}}, mention: "0 bytes"},
		{pairs: []Pair{{"a", Value{Type: Uint8, V: uint64(256)}}}, mention: "256 does not fit into UINT8"},
		{pairs: []Pair{{"a", Value{Type: Int8, V: int64(-129)}}}, mention: "-129 does not fit into INT8"},
		{pairs: []Pair{{"a", Value{Type: Uint32, V: 1}}}, mention: "int is no value of UINT32"},
		{pairs: []Pair{{"a", Value{Type: Float32, V: "x"}}}, mention: "string is no value of FLOAT32"},
		{pairs: []Pair{{"a", Value{Type: 42, V: uint64(1)}}}, mention: "type 42"},
		{pairs: []Pair{{"a", Value{Type: Array, Elem: String, List: []bool{true}}}}, mention: "bool is no value of STRING"},
		{pairs: []Pair{{"a", Value{Type: Array, Elem: String}}}, mention: "no list of STRING"},
		{pairs: []Pair{{"general.alignment", Count(24)}}, mention: "power of two"},
		{tensors: f32(name, 1), mention: "64 bytes"},
		{tensors: f32("", 1), mention: "0 bytes"},
		{tensors: append(f32("a", 1), f32("a", 2)...), mention: `"a": is a duplicate`},
		{tensors: f32("a", 1, 1, 1, 1, 1), mention: "5 dimensions"},
		{tensors: f32("a", -1), mention: "no size"},
		{tensors: f32("a", 1<<40, 1<<40), mention: "no size"},
		{tensors: f32("a", 1<<31, 1<<29), mention: "overflow"},
		{tensors: []Tensor{{Name: "a", Type: kernels.GGUFType(42), Shape: []int64{1}}}, mention: "type 42 is not known"},
		{tensors: []Tensor{{Name: "a", Type: 12, Shape: []int64{320}}}, mention: "no multiple of the block of 256"},
	} {
		_, err := NewWriter(&bytes.Buffer{}, c.pairs, c.tensors)
		says(t, err, c.mention)
	}
	var b bytes.Buffer
	w, err := NewWriter(&b, nil, f32("a", 2))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteF32([]float32{1}); err != nil {
		t.Fatal(err)
	}
	says(t, w.Close(), `"a": 4 of its 8 bytes did not come`)
	says(t, w.WriteF32([]float32{1, 2}), "4 bytes beyond the last tensor")
}

// An error of the file below comes back, at each byte that may be the last.
func TestWriterPassesErrorsOn(t *testing.T) {
	full := errors.New("full")
	for n := 0; ; n++ {
		err := WriteImatrix(&limited{n, full}, tinyImatrix())
		if err == nil {
			if n < 300 {
				t.Fatalf("a file of %d bytes", n)
			}
			return
		}
		if !errors.Is(err, full) {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

// limited takes so many bytes.
type limited struct {
	n   int
	err error
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.n)
	if l.n -= n; n < len(p) {
		return n, l.err
	}
	return n, nil
}
