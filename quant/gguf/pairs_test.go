package gguf

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"slices"
	"testing"

	"quantscope/kernels"
)

// Values of a little-endian file go into another one byte for byte, also bits that
// no number here stands for: a signalling NaN, a truth of 7.
func TestPairsAreCopied(t *testing.T) {
	x := llamaFixture(kernels.GGUFF16)
	x.keys["x.floats"], x.keys["x.bools"], x.keys["x.words"] = []float32{1.5, math.Float32frombits(0x7FA00001)}, []bool{true, false, true}, []string{}
	x.keys["split.count"] = uint32(0)
	b := x.bytes()
	at := bytes.Index(b, []byte("x.bools")) + len("x.bools") + 4 + 4 + 8
	b[at] = 7
	f := open(t, writeFile(t, b))
	pairs, err := f.Pairs()
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(pairs, func(p Pair) bool { return p.Key == "split.count" }) || len(pairs) != len(f.Keys)-1 {
		t.Errorf("%d pairs of %d keys", len(pairs), len(f.Keys))
	}
	pairs = SetPair(pairs, "general.file_type", Count(3))
	pairs = SetPair(pairs, "llama.context_length", Count(7))
	head, placed, alignment, err := Header(pairs, []Tensor{F32Tensor("a", 3)})
	if err != nil || alignment != 32 || len(head)%32 != 0 || placed[0].Offset != int64(len(head)) || placed[0].Bytes != 12 {
		t.Fatalf("%v, %d, %+v", err, alignment, placed)
	}
	for _, key := range []string{"x.floats", "x.bools", "x.words"} {
		s := f.values[key]
		if want := slices.Concat([]byte(key), b[s.at:][:s.n]); !bytes.Contains(head, want) {
			t.Errorf("%s is not copied", key)
		}
	}
	g := open(t, writeFile(t, append(head, make([]byte, 32)...)))
	if g.Metadata["general.file_type"].V != uint64(3) || g.Metadata["llama.context_length"].V != uint64(7) || len(g.Keys) != len(pairs) {
		t.Errorf("%v", g.Keys)
	}
	for i, k := range g.Keys {
		if k != pairs[i].Key {
			t.Errorf("key %d is %s, want %s", i, k, pairs[i].Key)
		}
	}
}

// Values of a big-endian file are written as numbers.
func TestPairsOfBigEndian(t *testing.T) {
	f := open(t, golden("big_endian.gguf"))
	pairs, err := f.Pairs()
	if err != nil {
		t.Fatal(err)
	}
	head, _, _, err := Header(pairs, []Tensor{F32Tensor("a", 3)})
	if err != nil {
		t.Fatal(err)
	}
	g := open(t, writeFile(t, append(head, make([]byte, 32)...)))
	if !slices.Equal(g.Keys, f.Keys) {
		t.Errorf("%v, want %v", g.Keys, f.Keys)
	}
	raw, err := os.ReadFile(g.Path)
	if err != nil || binary.LittleEndian.Uint32(raw[4:]) != 3 {
		t.Errorf("%x, %v", raw[:8], err)
	}
}
