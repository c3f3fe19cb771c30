package kernels_test

import (
	"bytes"
	"context"
	"math"
	"path/filepath"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// goldenBytes reads a tensor of a golden file as its bytes, or fails.
func goldenBytes(t *testing.T, ck *checkpoint.Checkpoint, name string) []byte {
	t.Helper()
	x, ok := ck.Lookup(name)
	if !ok {
		t.Fatalf("%s has no %s", ck.Path, name)
	}
	raw := make([]byte, x.Elements()*int64(x.DType.Bits())/8)
	if err := ck.ReadAt(context.Background(), x, 0, raw); err != nil {
		t.Fatal(err)
	}
	return raw
}

// Blocks of gguf-py 0.19, random and its own quantizer's, decode to its bits, by
// every set.
func TestGGUFMeetsGGUFPy(t *testing.T) {
	for file, c := range map[string]struct {
		blocks string
		types  []kernels.GGUFType
	}{
		"gguf_dequantize.safetensors": {".blocks", []kernels.GGUFType{
			kernels.GGUFQ2_K, kernels.GGUFQ3_K, kernels.GGUFQ4_K, kernels.GGUFQ5_K, kernels.GGUFQ6_K, kernels.GGUFIQ4NL, kernels.GGUFIQ4XS,
			kernels.GGUFIQ2XXS, kernels.GGUFIQ2XS, kernels.GGUFIQ2S, kernels.GGUFIQ3XXS, kernels.GGUFIQ3S, kernels.GGUFIQ1S, kernels.GGUFIQ1M,
			kernels.GGUFTQ1_0, kernels.GGUFTQ2_0, kernels.GGUFNVFP4, kernels.GGUFMXFP4, kernels.GGUFQ4_0, kernels.GGUFQ5_1, kernels.GGUFQ8_0,
		}},
		"gguf_quantize.safetensors": {".bytes", []kernels.GGUFType{
			kernels.GGUFQ4_0, kernels.GGUFQ4_1, kernels.GGUFQ5_0, kernels.GGUFQ5_1, kernels.GGUFQ8_0, kernels.GGUFBF16, kernels.GGUFMXFP4,
			kernels.GGUFTQ1_0, kernels.GGUFTQ2_0,
		}},
	} {
		ck, err := checkpoint.Open(filepath.Join("testdata", "golden", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range c.types {
			raw, bits := goldenBytes(t, ck, kind.String()+c.blocks), goldenBytes(t, ck, kind.String()+".dequant")
			want := make([]float32, len(bits)/4)
			if err := checkpoint.DecodeF32(want, checkpoint.F32, bits); err != nil {
				t.Fatal(err)
			}
			for _, set := range kernels.Available() {
				got := make([]float32, len(want))
				if err := set.DecodeGGUF(got, kind, raw); err != nil {
					t.Fatal(err)
				}
				i := -1
				for k := range got {
					if math.Float32bits(got[k]) != math.Float32bits(want[k]) {
						i = k
						break
					}
				}
				if i >= 0 {
					t.Errorf("%s, %s: element %d is %v, want %v", set.Name, kind, i, got[i], want[i])
				}
			}
		}
		_ = ck.Close()
	}
}

func TestGGUFRefusals(t *testing.T) {
	for what, err := range map[string]error{
		"an unknown type":    kernels.DecodeGGUF(make([]float32, 32), 42, make([]byte, 18)),
		"a type beyond all":  kernels.DecodeGGUF(make([]float32, 32), math.MaxUint32, make([]byte, 18)),
		"integers":           kernels.DecodeGGUF(make([]float32, 1), kernels.GGUFI32, make([]byte, 4)),
		"part of a block":    kernels.DecodeGGUF(make([]float32, 31), kernels.GGUFQ4_0, make([]byte, 18)),
		"too few bytes":      kernels.DecodeGGUF(make([]float32, 64), kernels.GGUFQ4_0, make([]byte, 18)),
		"too many bytes":     kernels.DecodeGGUF(make([]float32, 32), kernels.GGUFQ4_0, make([]byte, 19)),
		"a swap of unknowns": kernels.SwapGGUF(42, make([]byte, 18)),
		"a swap of a part":   kernels.SwapGGUF(kernels.GGUFQ4_0, make([]byte, 17)),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if s := kernels.GGUFType(42).String(); s != "type 42" || kernels.GGUFType(42).Known() || kernels.GGUFType(42).Decodes() {
		t.Errorf("type 42 is %q", s)
	}
}

// Blocks of a big-endian file, by what ggml declares as words, are those of a
// little-endian one when they are turned.
func TestGGUFSwapsWords(t *testing.T) {
	for kind, words := range map[kernels.GGUFType][]int{
		kernels.GGUFQ4_0: {0}, kernels.GGUFQ6_K: {208}, kernels.GGUFIQ2S: {0}, kernels.GGUFIQ3XXS: {0}, kernels.GGUFIQ3S: {0}, kernels.GGUFTQ1_0: {52}, kernels.GGUFTQ2_0: {64},
		kernels.GGUFIQ1M: {48, 50, 52, 54}, kernels.GGUFIQ1S: {0, 34, 36, 38, 40, 42, 44, 46, 48}, kernels.GGUFNVFP4: nil,
	} {
		_, size := kind.Block()
		little := make([]byte, 2*size)
		for i := range little {
			little[i] = byte(7 * i)
		}
		big := bytes.Clone(little)
		for at := 0; at < len(big); at += size {
			for _, w := range words {
				big[at+w], big[at+w+1] = big[at+w+1], big[at+w]
			}
		}
		if err := kernels.SwapGGUF(kind, big); err != nil || !bytes.Equal(big, little) {
			t.Errorf("%s: %x, want %x: %v", kind, big, little, err)
		}
	}
}
