package gguf

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
)

// fixture is a file that a test writes: version 3, little-endian, alignment 32.
type fixture struct {
	keys    map[string]any // uint32, float32, bool, string, []string, []int32, []float32, []bool
	tensors []fixtureTensor
}

type fixtureTensor struct {
	name  string
	kind  kernels.GGUFType
	shape []int // row-major
	data  []byte
}

// add puts a tensor of random blocks, whose scales are moderate, into the file.
func (x *fixture) add(rng *rand.Rand, name string, kind kernels.GGUFType, shape ...int) *fixture {
	n := 1
	for _, d := range shape {
		n *= d
	}
	block, bytes := kind.Block()
	data := make([]byte, n/block*bytes)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	switch kind {
	case kernels.GGUFF32:
		for i := range n {
			binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(rng.NormFloat64())))
		}
	case kernels.GGUFF16, kernels.GGUFBF16:
		for i := range n { // exponents in the middle
			binary.LittleEndian.PutUint16(data[2*i:], uint16(rng.Uint32())&0xBFFF|0x2000)
		}
	default: // a scale of the format's f16 stands first or last
		for at := 0; at < len(data); at += bytes {
			for _, f := range []int{0, 2, bytes - 4, bytes - 2} {
				if f+2 <= bytes {
					data[at+f+1] = data[at+f+1]&0x80 | 0x2C
				}
			}
		}
	}
	x.tensors = append(x.tensors, fixtureTensor{name, kind, shape, data})
	return x
}

func text(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

func (x *fixture) bytes() []byte {
	b := []byte("GGUF")
	b = binary.LittleEndian.AppendUint32(b, 3)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(x.tensors)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(x.keys)))
	for _, k := range slices.Sorted(maps.Keys(x.keys)) {
		b = value(text(b, k), x.keys[k])
	}
	at := 0
	for _, t := range x.tensors {
		b = binary.LittleEndian.AppendUint32(text(b, t.name), uint32(len(t.shape)))
		for i := range t.shape {
			b = binary.LittleEndian.AppendUint64(b, uint64(t.shape[len(t.shape)-1-i]))
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(t.kind))
		b = binary.LittleEndian.AppendUint64(b, uint64(at))
		at += (len(t.data) + 31) / 32 * 32
	}
	for _, t := range x.tensors {
		for len(b)%32 != 0 {
			b = append(b, 0)
		}
		b = append(b, t.data...)
	}
	for len(b)%32 != 0 {
		b = append(b, 0)
	}
	return b
}

func value(b []byte, v any) []byte {
	u32 := binary.LittleEndian.AppendUint32
	list := func(t ValueType, n int) []byte {
		return binary.LittleEndian.AppendUint64(u32(u32(b, uint32(Array)), uint32(t)), uint64(n))
	}
	switch v := v.(type) {
	case uint32:
		return u32(u32(b, uint32(Uint32)), v)
	case int32:
		return u32(u32(b, uint32(Int32)), uint32(v))
	case float32:
		return u32(u32(b, uint32(Float32)), math.Float32bits(v))
	case bool:
		return append(u32(b, uint32(Bool)), map[bool]byte{true: 1}[v])
	case string:
		return text(u32(b, uint32(String)), v)
	case []string:
		b = list(String, len(v))
		for _, s := range v {
			b = text(b, s)
		}
	case []int32:
		b = list(Int32, len(v))
		for _, n := range v {
			b = u32(b, uint32(n))
		}
	case []uint32:
		b = list(Uint32, len(v))
		for _, n := range v {
			b = u32(b, n)
		}
	case []float32:
		b = list(Float32, len(v))
		for _, n := range v {
			b = u32(b, math.Float32bits(n))
		}
	case []bool:
		b = list(Bool, len(v))
		for _, n := range v {
			b = append(b, map[bool]byte{true: 1}[n])
		}
	default:
		panic(fmt.Sprintf("a value of %T", v))
	}
	return b
}

func (x *fixture) model(t testing.TB) (*Model, error) {
	t.Helper()
	m, err := OpenModel(writeFile(t, x.bytes()))
	if err == nil {
		t.Cleanup(func() { _ = m.Close() })
	}
	return m, err
}

// llamaFixture is a whole llama model of one layer: hidden 64, 4 heads and 2 of
// keys, weights of a type.
func llamaFixture(kind kernels.GGUFType) *fixture {
	rng := rand.New(rand.NewPCG(7, uint64(kind)))
	x := &fixture{keys: map[string]any{
		"general.architecture": "llama", "llama.block_count": uint32(1), "llama.context_length": uint32(512), "llama.embedding_length": uint32(64),
		"llama.feed_forward_length": uint32(96), "llama.attention.head_count": uint32(4), "llama.attention.head_count_kv": uint32(2),
		"llama.attention.layer_norm_rms_epsilon": float32(1e-5), "llama.rope.dimension_count": uint32(16), "llama.vocab_size": uint32(8),
	}}
	x.add(rng, "token_embd.weight", kind, 8, 64).add(rng, "output_norm.weight", kernels.GGUFF32, 64)
	shapes := map[string][]int{
		"attn_q": {64, 64}, "attn_k": {32, 64}, "attn_v": {32, 64}, "attn_output": {64, 64}, "ffn_gate": {96, 64}, "ffn_up": {96, 64}, "ffn_down": {64, 96},
	}
	for _, name := range slices.Sorted(maps.Keys(shapes)) { // the same values in every fixture
		x.add(rng, "blk.0."+name+".weight", kind, shapes[name]...)
	}
	x.add(rng, "blk.0.attn_norm.weight", kernels.GGUFF32, 64).add(rng, "blk.0.ffn_norm.weight", kernels.GGUFF32, 64)
	return x
}

// refused asks that an error is one line and mentions words.
func refused(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	for _, w := range append(words, "model.gguf") {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not mention %q", what, err, w)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %q is more than a line", what, err)
	}
}

func writeFile(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
