package kernels_test

import (
	"context"
	"math"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

func TestGGUFGolden(t *testing.T) {
	ck, err := checkpoint.Open("/work/shared/golden/gguf_dequantize.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	ck2, err := checkpoint.Open("/work/shared/golden/gguf_quantize.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, id := range []kernels.GGUFType{2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 30, 39} {
		for _, src := range []struct {
			ck         *checkpoint.Checkpoint
			from, want string
		}{{ck, ".blocks", ".dequant"}, {ck2, ".bytes", ".dequant"}} {
			x, ok := src.ck.Lookup(id.String() + src.from)
			if !ok {
				continue
			}
			raw := make([]byte, x.Elements())
			if err := src.ck.ReadAt(context.Background(), x, 0, raw); err != nil {
				t.Fatal(err)
			}
			w, _ := src.ck.Lookup(id.String() + src.want)
			wraw := make([]byte, 4*w.Elements())
			if err := src.ck.ReadAt(context.Background(), w, 0, wraw); err != nil {
				t.Fatal(err)
			}
			want := make([]float32, w.Elements())
			checkpoint.DecodeF32(want, checkpoint.F32, wraw)
			got := make([]float32, len(want))
			if err := kernels.DecodeGGUF(got, id, raw); err != nil {
				t.Fatal(err)
			}
			bad := 0
			for i := range got {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					bad++
					if bad < 3 {
						t.Errorf("%s[%d]: %v want %v", id, i, got[i], want[i])
					}
				}
			}
			n++
		}
	}
	t.Log(n)
}
