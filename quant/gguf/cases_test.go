package gguf

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

func caseFile(path string) string {
	return filepath.Join("testdata", "cases", filepath.FromSlash(path))
}

// Files that are broken: the error names the file and says why, on one line.
func TestCasesThatAreErrors(t *testing.T) {
	for _, c := range []struct {
		file    string
		mention []string
	}{
		{"C11-version-endian/v1.gguf", []string{"v1.gguf", "version 1"}},
		{"C12-lengths/string-length.gguf", []string{"string-length.gguf", "length of 18446744073709551615"}},
		{"C12-lengths/array-count.gguf", []string{"array-count.gguf", "count of 2305843009213693952"}},
		{"C12-lengths/key-length.gguf", []string{"key-length.gguf", "length of 2147483648"}},
		{"C13-alignment/align-zero.gguf", []string{"align-zero.gguf", "general.alignment"}},
		{"C14-split/tiny-Q4-00001-of-00003.gguf", []string{"tiny-Q4-00002-of-00003.gguf", "missing", "2 of 3"}},
		{"C14-split/tiny-Q4-00003-of-00003.gguf", []string{"tiny-Q4-00002-of-00003.gguf", "missing", "2 of 3"}},
		{"C15-gguf-names/duplicate-tensor.gguf", []string{"duplicate-tensor.gguf", "blk.0.attn_q.weight", "duplicate"}},
		{"C17-partial-row/q4_k-320.gguf", []string{"q4_k-320.gguf", "blk.0.ffn_down.weight", "320", "256", "multiple"}},
	} {
		f, err := Open(caseFile(c.file))
		if err == nil {
			_ = f.Close()
			t.Errorf("%s: no error", c.file)
			continue
		}
		for _, m := range c.mention {
			if !strings.Contains(err.Error(), m) {
				t.Errorf("%s: %q does not mention %q", c.file, err, m)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %q is more than a line", c.file, err)
		}
	}
}

// Files that are odd but good: shapes, and the digest of all values.
func TestCasesThatHaveValues(t *testing.T) {
	type value struct {
		Shape    []int64
		SHA256   string `json:"sha256_f32le"`
		Negative int    `json:"negative_zeros"`
	}
	check := func(f *File, want map[string]value) {
		t.Helper()
		for name, w := range want {
			x, ok := f.Lookup(name)
			if !ok || len(x.Shape) != len(w.Shape) || x.Shape[0] != w.Shape[0] || x.Shape[1] != w.Shape[1] {
				t.Errorf("%s: %s is %+v, want shape %v", f.Path, name, x, w.Shape)
				continue
			}
			got := make([]float32, x.Elements())
			if err := f.Decode(context.Background(), x, 0, got); err != nil {
				t.Error(err)
				continue
			}
			if sum := digest(got); sum != w.SHA256 {
				t.Errorf("%s: %s has digest %s, want %s", f.Path, name, sum, w.SHA256)
			}
		}
	}
	var whole struct{ Value map[string]value }
	readJSON(t, caseFile("C16-mxfp4-blocks/expect.json"), &whole)
	check(open(t, caseFile("C16-mxfp4-blocks/mxfp4.gguf")), whole.Value)
	for dir, files := range map[string][]string{
		"C11-version-endian": {"big-endian-v3.gguf"}, "C13-alignment": {"align-128.gguf"}, "C15-gguf-names": {"nested-arrays.gguf"},
	} {
		var of struct {
			PerFile map[string]struct{ Value map[string]value } `json:"per_file"`
		}
		readJSON(t, caseFile(dir+"/expect.json"), &of)
		for _, file := range files {
			if len(of.PerFile[file].Value) == 0 {
				t.Fatalf("%s: nothing is expected of %s", dir, file)
			}
			check(open(t, caseFile(dir+"/"+file)), of.PerFile[file].Value)
		}
	}
	var inspect struct {
		Inspect struct {
			Tensors int
			Value   map[string]value
		}
	}
	readJSON(t, caseFile("C10-unknown-type/expect.json"), &inspect)
	f := open(t, caseFile("C10-unknown-type/unknown-42.gguf"))
	check(f, inspect.Inspect.Value)
	x, ok := f.Lookup("blk.0.ffn_down.weight")
	if !ok || len(f.Tensors) != inspect.Inspect.Tensors || x.Type.Known() || x.Bytes != -1 || x.Type.String() != "type 42" {
		t.Fatalf("a tensor of type 42: %+v of %d", x, len(f.Tensors))
	}
	err := f.Decode(context.Background(), x, 0, make([]float32, x.Elements()))
	for _, m := range []string{"unknown-42.gguf", "blk.0.ffn_down.weight", "type 42"} {
		if err == nil || !strings.Contains(err.Error(), m) {
			t.Errorf("values of type 42: %v, want %q in it", err, m)
		}
	}
	if v := open(t, caseFile("C15-gguf-names/nested-arrays.gguf")).Metadata["tokenizer.ggml.tokens"]; len(v.List.([]string)) != 3000 {
		t.Errorf("a list of %d tokens", len(v.List.([]string)))
	}
}

// digest is the SHA-256 of values as the cases have it: little-endian, −0 as +0,
// NaN as 0x7FC00000.
func digest(x []float32) string {
	var b []byte
	for _, v := range x {
		bits := math.Float32bits(v)
		switch {
		case v == 0:
			bits = 0
		case v != v:
			bits = 0x7FC00000
		}
		b = binary.LittleEndian.AppendUint32(b, bits)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// C18: rows of q and k of a llama file stand in pairs. With the right number of
// heads for each they are those of the checkpoint again, value for value.
func TestHeadOrder(t *testing.T) {
	f := open(t, caseFile("C18-head-order/model-F16.gguf"))
	ck, err := checkpoint.Open(caseFile("C18-head-order/hf/model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	m := &Model{File: f}
	for name, heads := range map[string]int{"q": 4, "k": 2, "v": 0} {
		stored := "blk.0.attn_" + name + ".weight"
		i, ok := f.byName[stored]
		if !ok {
			t.Fatalf("no %s", stored)
		}
		w, err := m.whole(name, i)
		if err == nil && heads > 0 {
			err = m.pair(&w, &f.Tensors[i], heads)
		}
		if err != nil {
			t.Fatal(err)
		}
		want := floats(t, ck, "model.layers.0.self_attn."+name+"_proj.weight")
		rows := make([]int32, w.Rows)
		for r := range rows {
			rows[r] = int32(r)
		}
		got := make([]float32, len(want))
		if err := m.ReadRows(context.Background(), &w, rows, got); err != nil {
			t.Fatal(err)
		}
		for k := range want {
			if got[k] != want[k] {
				t.Errorf("%s: element %d is %g, want %g", name, k, got[k], want[k])
				break
			}
		}
		if w.Reordered() != (heads > 0) {
			t.Errorf("%s is reordered: %t", name, w.Reordered())
		}
	}
}

// A part under a name of its own is refused, and so are parts that lost tensors.
func TestPartsUnderOtherNames(t *testing.T) {
	b, err := os.ReadFile(golden("split-00001-of-00002.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(writeFile(t, b))
	refused(t, "part 1 alone", err, "split.count is 2, and there are 1 parts")
	at := bytes.Index(b, []byte("split.tensors.count"))
	dir := t.TempDir()
	b[at+len("split.tensors.count")+4] = 6
	second, err := os.ReadFile(golden("split-00002-of-00002.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	first := filepath.Join(dir, "model.gguf-00001-of-00002.gguf")
	if err := errors.Join(os.WriteFile(first, b, 0o600), os.WriteFile(filepath.Join(dir, "model.gguf-00002-of-00002.gguf"), second, 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err = Open(first)
	refused(t, "a tensor too few", err, "split.tensors.count is 6, and there are 5 tensors")
	x := llamaFixture(kernels.GGUFF16) // merged files keep the key, as 0
	x.keys["split.count"] = uint32(0)
	if _, err := x.model(t); err != nil {
		t.Error(err)
	}
}
