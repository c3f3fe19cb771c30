package gguf

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// turned is the big-endian file of gguf-py with its blocks changed in place.
func turned(t *testing.T, change func(x *Tensor, data []byte)) string {
	t.Helper()
	b, err := os.ReadFile(golden("big_endian.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, golden("big_endian.gguf"))
	for i := range f.Tensors {
		x := &f.Tensors[i]
		if block, _ := x.Type.Block(); block > 1 {
			change(x, b[x.Offset:][:x.Bytes])
		}
	}
	return writeFile(t, b)
}

// Blocks of a big-endian file tell how their numbers stand, both ways.
func TestBlockOrderIsTold(t *testing.T) {
	plain := turned(t, func(x *Tensor, data []byte) {
		if err := kernels.SwapGGUF(x.Type, data); err != nil {
			t.Fatal(err)
		}
	})
	ck, err := checkpoint.Open(golden("big_endian.gguf.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	for path, want := range map[string]Blocks{golden("big_endian.gguf"): BlocksSwapped, plain: BlocksPlain} {
		f := open(t, path)
		got, why, err := f.Blocks(context.Background())
		if err != nil || got != want || !strings.Contains(why, "scatter") {
			t.Errorf("%s: %s, %s, %v", path, got, why, err)
			continue
		}
		for i := range f.Tensors {
			x := &f.Tensors[i]
			if !x.Type.Decodes() {
				continue
			}
			want := floats(t, ck, x.Name)
			got := make([]float32, x.Elements())
			if err := f.Decode(context.Background(), x, 0, got); err != nil {
				t.Fatal(err)
			}
			for k := range want {
				if math.Float32bits(got[k]) != math.Float32bits(want[k]) {
					t.Errorf("%s: %s: element %d is %g, want %g", path, x.Name, k, got[k], want[k])
					break
				}
			}
		}
	}
}

// Scales whose two bytes are alike can stand either way: that is asked, and what
// was said is taken.
func TestBlockOrderIsAsked(t *testing.T) {
	path := turned(t, func(x *Tensor, data []byte) {
		block, bytes := x.Type.Block()
		a, b := make([]byte, bytes), make([]byte, bytes) // where do swapped bytes stand?
		for i := range b {
			b[i] = byte(i)
			a[i] = byte(i)
		}
		if err := kernels.SwapGGUF(x.Type, b); err != nil || block < 2 {
			t.Fatal(err)
		}
		for at := 0; at < len(data); at += bytes {
			for i := range a {
				if a[i] != b[i] {
					data[at+i] = 0x2C + byte(i&1)
				}
			}
		}
	})
	f := open(t, path)
	x, ok := f.Lookup("a.q8_0")
	if !ok {
		t.Fatal("no a.q8_0")
	}
	one := make([]float32, 32)
	err := f.Decode(context.Background(), x, 0, one)
	if !errors.Is(err, ErrBlocks) || !strings.Contains(err.Error(), "--gguf-blocks") || strings.Contains(err.Error(), "\n") {
		t.Fatalf("%v", err)
	}
	for blocks, bits := range map[Blocks]uint16{BlocksSwapped: 0x2C2D, BlocksPlain: 0x2D2C} {
		f, err := OpenWith(path, Options{Blocks: blocks})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Decode(context.Background(), x, 0, one); err != nil {
			t.Fatal(err)
		}
		raw := make([]byte, 34)
		if err := f.ReadStored(context.Background(), x, 0, raw); err != nil || binary.LittleEndian.Uint16(raw) != bits {
			t.Errorf("%s: the scale is %#x, %v", blocks, raw[:2], err)
		}
		if want := kernels.F16ToF32(bits) * float32(int8(raw[2])); one[0] != want {
			t.Errorf("%s: %g, want %g", blocks, one[0], want)
		}
		_ = f.Close()
	}
	if _, err := ParseBlocks("sideways"); err == nil || !strings.Contains(err.Error(), BlockOrders()) {
		t.Errorf("%v", err)
	}
}
