package gguf

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"testing"

	"quantscope/kernels"
)

// seeds are small files of every kind: each type of blocks in a model, big-endian,
// split, odd metadata, and the broken ones of the cases.
func seeds(f *testing.F) {
	for t := range kernels.GGUFType(48) {
		if !t.Known() {
			continue
		}
		x := &fixture{keys: map[string]any{"general.architecture": "llama", "x.list": []string{"a", ""}, "x.flags": []bool{true}}}
		block, bytes := t.Block()
		x.tensors = append(x.tensors, fixtureTensor{"blk.0.ffn_up.weight", t, []int{2, block}, make([]byte, 2*bytes)})
		b := x.bytes()
		f.Add(b)
		f.Add(b[:len(b)-7])
	}
	for _, path := range []string{
		golden("big_endian_plain.gguf"), golden("split-00002-of-00002.gguf"), caseFile("C10-unknown-type/unknown-42.gguf"), caseFile("C11-version-endian/big-endian-v3.gguf"), caseFile("C12-lengths/array-count.gguf"),
		caseFile("C12-lengths/string-length.gguf"), caseFile("C13-alignment/align-zero.gguf"), caseFile("C15-gguf-names/duplicate-tensor.gguf"), caseFile("C16-mxfp4-blocks/mxfp4.gguf"), caseFile("C17-partial-row/q4_k-320.gguf"),
	} {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

// whole is a file in memory.
type whole struct{ *bytes.Reader }

// Any bytes are a file or an error, in memory of the order of the file. What is a
// file holds together: every tensor lies within it, apart from the others, and gives
// as many bytes and values as its shape says; its metadata can be written again and
// are read as the same.
func FuzzOpen(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		g, err := OpenReader("fuzz.gguf", whole{bytes.NewReader(b)})
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20+uint64(len(b))*64 {
			t.Errorf("%d bytes of memory for a file of %d", used, len(b))
		}
		if err != nil {
			return
		}
		for i := range g.Tensors {
			x := &g.Tensors[i]
			if x.Bytes < 0 {
				if err := g.ReadAt(context.Background(), x, 0, nil); err == nil {
					t.Errorf("%s of %s is read", x.Name, x.Type)
				}
				continue
			}
			if x.Offset < 0 || x.Offset+x.Bytes > int64(len(b)) {
				t.Fatalf("%s lies at %d, %d bytes of %d", x.Name, x.Offset, x.Bytes, len(b))
			}
			block, size := x.Type.Block()
			if n := x.Elements(); n/int64(block)*int64(size) != x.Bytes || n%int64(block) != 0 {
				t.Fatalf("%s: %d elements in %d bytes of %s", x.Name, n, x.Bytes, x.Type)
			}
			if x.Type.Decodes() && x.Elements() > 0 {
				one := make([]float32, block)
				if err := g.Decode(context.Background(), x, x.Elements()-int64(block), one); err != nil && !g.Parts[0].BigEndian {
					t.Errorf("%s: %v", x.Name, err)
				}
			}
		}
		pairs, err := g.Pairs()
		if err != nil {
			t.Fatal(err)
		}
		head, _, _, err := Header(pairs, []Tensor{F32Tensor("a", 1)})
		if err != nil {
			return // an alignment or a key that readers take and writers do not
		}
		again, err := OpenReader("again.gguf", whole{bytes.NewReader(append(head, make([]byte, 1<<10)...))})
		if err != nil {
			t.Fatalf("what was written is not read: %v", err)
		}
		if len(again.Keys) != len(pairs) {
			t.Errorf("%d keys of %d", len(again.Keys), len(pairs))
		}
	})
}
