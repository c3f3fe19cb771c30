package ggufmake

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/gguf"
)

// Models of which there are both a checkpoint and what llama.cpp's converter made of
// it, all weights in bf16.
const (
	checkpoints = "../../analysis/model/testdata"
	converted   = "../../analysis/candidate/testdata/gguf"
	readFiles   = "../gguf/testdata/families"
)

func openCheckpoint(t testing.TB, path string, o Options) *Source {
	t.Helper()
	ck, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := FromCheckpoint(ck, o)
	if err != nil {
		_ = ck.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func openGGUF(t testing.TB, path string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// write makes a file and opens it.
func write(t testing.TB, s *Source, r Request, threads int) (*gguf.File, *Plan, []Error) {
	t.Helper()
	p, err := NewPlan(s, r)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "out.gguf")
	errs, err := p.Write(context.Background(), path, Settings{Threads: threads, Set: kernels.Best()})
	if err != nil {
		t.Fatal(err)
	}
	return openGGUF(t, path), p, errs
}

func stored(t testing.TB, f *gguf.File, x *gguf.Tensor) []byte {
	t.Helper()
	b := make([]byte, x.Bytes)
	if err := f.ReadStored(context.Background(), x, 0, b); err != nil {
		t.Fatal(err)
	}
	return b
}

// newest are those whose files stand with the package that reads them.
var newest = []string{"qwen3_next", "qwen3_5", "qwen3_5_moe", "step3p7", "deepseek_v2", "deepseek_v4", "gemma4_moe", "gemma4_ple"}

// Every architecture comes out with the tensors of llama.cpp's converter, byte for
// byte, and with its metadata.
func TestAsLlamaCppConverts(t *testing.T) {
	for _, name := range append([]string{
		"llama_tied", "llama_rope_linear", "llama_rope_llama3", "llama_rope_yarn", "qwen2", "qwen3", "qwen3_moe", "mixtral", "glm4_moe_mtp", "deepseek_v3_mtp", "gemma3_text", "gpt_oss",
	}, newest...) {
		t.Run(name, func(t *testing.T) {
			got, _, _ := write(t, openCheckpoint(t, filepath.Join(checkpoints, name), Options{}), Request{Type: kernels.GGUFBF16}, 2)
			at := converted
			if slices.Contains(newest, name) {
				at = readFiles
			}
			want := openGGUF(t, filepath.Join(at, name+".gguf"))
			asConverted(t, got, want)
		})
	}
}

// asConverted wants the tensors and keys of llama.cpp's converter.
func asConverted(t *testing.T, got, want *gguf.File) {
	t.Helper()
	{
		{
			for i := range want.Tensors {
				w := &want.Tensors[i]
				g, ok := got.Lookup(w.Name)
				switch {
				case !ok:
					t.Errorf("no tensor %s", w.Name)
				case g.Type != w.Type || !slices.Equal(g.Shape, w.Shape):
					t.Errorf("%s is %s %v, want %s %v", w.Name, g.Type, g.Shape, w.Type, w.Shape)
				case w.Name == "rope_freqs.weight" || strings.HasSuffix(w.Name, ".ssm_a"): // computed in f64 here, in f32 there
					a, b := make([]float32, g.Elements()), make([]float32, g.Elements())
					if err := got.Decode(context.Background(), g, 0, a); err != nil {
						t.Fatal(err)
					}
					if err := want.Decode(context.Background(), w, 0, b); err != nil {
						t.Fatal(err)
					}
					for k := range a {
						if d := a[k]/b[k] - 1; d > 1e-6 || d < -1e-6 {
							t.Errorf("%s: value %d is %g, want %g", w.Name, k, a[k], b[k])
						}
					}
				case !bytes.Equal(stored(t, got, g), stored(t, want, w)):
					t.Errorf("%s has other bytes", w.Name)
				}
			}
			if len(got.Tensors) != len(want.Tensors) {
				t.Errorf("%d tensors, want %d", len(got.Tensors), len(want.Tensors))
			}
			for _, key := range want.Keys {
				if strings.HasPrefix(key, "tokenizer.") || key == "general.size_label" || key == "general.name" || key == "general.file_type" && got.Metadata["general.architecture"].V == "deepseek4" {
					continue
				}
				w, g := want.Metadata[key], got.Metadata[key]
				if fmt.Sprint(w.Type, w.V, w.List) != fmt.Sprint(g.Type, g.V, g.List) {
					t.Errorf("%s is %v %v %v, want %v %v %v", key, g.Type, g.V, g.List, w.Type, w.V, w.List)
				}
			}
			for _, key := range got.Keys {
				if _, ok := want.Metadata[key]; !ok {
					t.Logf("%s is %v, which the converter does not write", key, got.Metadata[key].V)
				}
			}
		}
	}
}
