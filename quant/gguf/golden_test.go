package gguf

import (
	"context"
	"math"
	"os"
	"testing"

	"quantscope/quant/checkpoint"
)

const shared = "/work/shared/"

func TestGolden(t *testing.T) {
	for file, gold := range map[string]string{
		"model_a.gguf": "model_a.gguf.safetensors", "split-00002-of-00002.gguf": "split.gguf.safetensors",
		"big_endian.gguf": "big_endian.gguf.safetensors", "big_endian_plain.gguf": "big_endian_plain.gguf.safetensors",
	} {
		f, err := Open(shared + "golden/" + file)
		if err != nil {
			t.Fatal(err)
		}
		ck, err := checkpoint.Open(shared + "golden/" + gold)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i := range f.Tensors {
			x := &f.Tensors[i]
			w, ok := ck.Lookup(x.Name)
			if !ok || !x.Type.Decodes() {
				t.Log(file, x.Name, x.Type, "not compared")
				continue
			}
			raw := make([]byte, w.Elements()*int64(w.DType.Bits())/8)
			if err := ck.ReadAt(context.Background(), w, 0, raw); err != nil {
				t.Fatal(err)
			}
			want := make([]float32, w.Elements())
			if err := checkpoint.DecodeF32(want, w.DType, raw); err != nil {
				t.Fatal(err)
			}
			got := make([]float32, x.Elements())
			if err := f.Decode(context.Background(), x, 0, got); err != nil {
				t.Fatal(err)
			}
			for k := range want {
				if math.Float32bits(got[k]) != math.Float32bits(want[k]) {
					t.Errorf("%s %s %s [%d]: %v want %v", file, x.Name, x.Type, k, got[k], want[k])
					break
				}
			}
			n++
		}
		t.Log(file, n, len(f.Tensors), len(f.Metadata))
	}
	for _, bad := range []string{"C11-version-endian/v1.gguf", "C12-lengths/array-count.gguf", "C12-lengths/key-length.gguf", "C12-lengths/string-length.gguf", "C13-alignment/align-zero.gguf", "C14-split/tiny-Q4-00001-of-00003.gguf", "C15-gguf-names/duplicate-tensor.gguf", "C17-partial-row/q4_k-320.gguf"} {
		_, err := Open(shared + "cases/" + bad)
		t.Log(bad, err)
		if err == nil {
			t.Error(bad)
		}
	}
	for _, good := range []string{"C10-unknown-type/unknown-42.gguf", "C11-version-endian/big-endian-v3.gguf", "C13-alignment/align-128.gguf", "C15-gguf-names/nested-arrays.gguf", "C16-mxfp4-blocks/mxfp4.gguf", "C18-head-order/model-F16.gguf"} {
		if _, err := os.Stat(shared + "cases/" + good); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(shared + "cases/" + good); err != nil {
			t.Error(good, err)
		}
	}
}
