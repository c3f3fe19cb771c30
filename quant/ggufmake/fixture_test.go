package ggufmake

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/gguf"
)

// ggufFile writes a llama of one layer with normal weights in F32: hidden 256, rows
// of ffn_down of 320, with a few odd keys.
func ggufFile(t testing.TB, change func(pairs []gguf.Pair, values map[string][]float32) []gguf.Pair) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(4, 2))
	count := func(n uint32) gguf.Value { return gguf.Count(n) }
	pairs := []gguf.Pair{
		{Key: "general.architecture", Value: gguf.Word("llama")}, {Key: "general.file_type", Value: count(0)}, {Key: "llama.block_count", Value: count(1)}, {Key: "llama.context_length", Value: count(64)},
		{Key: "llama.embedding_length", Value: count(256)}, {Key: "llama.feed_forward_length", Value: count(320)}, {Key: "llama.attention.head_count", Value: count(4)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: gguf.Value{Type: gguf.Float32, V: float32(1e-5)}}, {Key: "general.alignment", Value: count(64)},
		{Key: "odd.list", Value: gguf.Value{Type: gguf.Array, Elem: gguf.Int16, List: []int64{-3, 7}}}, {Key: "odd.word", Value: gguf.Word("ja")},
		{Key: "quantize.imatrix.file", Value: gguf.Word("an older one")},
	}
	shapes := []struct {
		name  string
		shape []int64
	}{
		{"token_embd.weight", []int64{24, 256}}, {"blk.0.attn_norm.weight", []int64{256}}, {"blk.0.attn_q.weight", []int64{256, 256}}, {"blk.0.attn_k.weight", []int64{256, 256}},
		{"blk.0.attn_v.weight", []int64{256, 256}}, {"blk.0.attn_output.weight", []int64{256, 256}}, {"blk.0.ffn_norm.weight", []int64{256}}, {"blk.0.ffn_gate.weight", []int64{320, 256}},
		{"blk.0.ffn_up.weight", []int64{320, 256}}, {"blk.0.ffn_down.weight", []int64{256, 320}}, {"output_norm.weight", []int64{256}}, {"output.weight", []int64{24, 256}},
	}
	values := map[string][]float32{}
	var tensors []gguf.Tensor
	for _, s := range shapes {
		n := int64(1)
		for _, d := range s.shape {
			n *= d
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64()) / 50
		}
		values[s.name] = x
		tensors = append(tensors, gguf.F32Tensor(s.name, s.shape...))
	}
	if change != nil {
		pairs = change(pairs, values)
	}
	path := filepath.Join(t.TempDir(), "source.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := gguf.NewWriter(f, pairs, tensors)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shapes {
		if err := w.WriteF32(values[s.name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func openSource(t testing.TB, path string) *Source {
	t.Helper()
	s, err := OpenGGUF(path, gguf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func target(p *Plan, name string) *Target {
	i := slices.IndexFunc(p.Targets, func(t Target) bool { return t.Name == name })
	if i < 0 {
		return &Target{Input: &Input{}}
	}
	return &p.Targets[i]
}

func ptr(t kernels.GGUFType) *kernels.GGUFType { return &t }
