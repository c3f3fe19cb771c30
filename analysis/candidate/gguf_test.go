package candidate

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// ggufModels are the golden models as convert_hf_to_gguf.py of llama.cpp writes
// them (testdata/gguf/convert.py). rows is how many positions of a sequence can
// be compared: the format cannot say that Mixtral has a window, of 24 there.
var ggufModels = []struct {
	name, effective string
	rows            int
	reordered       bool
}{
	{"llama_tied", "bf16", 0, true},
	{"llama_rope_linear", "bf16", 0, true},
	{"llama_rope_llama3", "bf16", 0, true},
	{"llama_rope_yarn", "bf16", 0, true},
	{"qwen2", "bf16", 0, false},
	{"qwen3", "bf16", 0, false},
	{"qwen3_moe", "bf16, f32", 0, false},
	{"mixtral", "bf16, f32", 24, true},
	{"glm4_moe_mtp", "bf16, f32", 0, false},
	{"deepseek_v3_mtp", "bf16, f32", 0, false},
	{"gemma3_text", "bf16", 0, false},
	{"gpt_oss", "bf16, f32", 0, false},
}

// expectedTensor reads one array of the golden file of a model.
func expectedTensor(t *testing.T, name, tensor string) ([]float32, []int64) {
	t.Helper()
	ck, err := checkpoint.Open(filepath.Join("..", "model", "testdata", name+".expected.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	x, ok := ck.Lookup(tensor)
	if !ok {
		t.Fatalf("%s has no %s", name, tensor)
	}
	raw := make([]byte, x.Elements()*int64(x.DType.Bits())/8)
	if err := ck.ReadAt(context.Background(), x, 0, raw); err != nil {
		t.Fatal(err)
	}
	out := make([]float32, x.Elements())
	if x.DType == checkpoint.I32 {
		for i := range out {
			out[i] = float32(int32(uint32(raw[4*i]) | uint32(raw[4*i+1])<<8 | uint32(raw[4*i+2])<<16 | uint32(raw[4*i+3])<<24))
		}
		return out, x.Shape
	}
	if err := checkpoint.DecodeF32(out, x.DType, raw); err != nil {
		t.Fatal(err)
	}
	return out, x.Shape
}

// ggufLogits takes sequences through a candidate.
func ggufLogits(t *testing.T, c *Candidate, chunks [][]int32) []float32 {
	t.Helper()
	src, err := c.Source()
	if err != nil {
		t.Fatal(err)
	}
	o := model.Options{Set: kernels.Best(), Threads: 2}
	h, err := model.Run(context.Background(), c.Arch, []model.Source{src}, chunks, o)
	if err != nil {
		t.Fatal(err)
	}
	head, err := model.NewHead(context.Background(), c.Arch, src, o)
	if err != nil {
		t.Fatal(err)
	}
	logits, err := head.Logits(nil, h[0].X, h[0].Rows)
	if err != nil {
		t.Fatal(err)
	}
	return logits
}

func chunksOf(ids []float32, shape []int64) [][]int32 {
	chunks := make([][]int32, shape[0])
	for i, id := range ids {
		chunks[i/int(shape[1])] = append(chunks[i/int(shape[1])], int32(id))
	}
	return chunks
}

// The golden tolerance of logits: what f32 in another order of sums may do.
const logitsTolerance = 2e-4

func TestGGUFModelsMeetTransformers(t *testing.T) {
	for _, m := range ggufModels {
		t.Run(m.name, func(t *testing.T) {
			c, err := Open(context.Background(), filepath.Join("testdata", "gguf", m.name+".gguf"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if c.Effective != m.effective || c.Kind != GGUF {
				t.Errorf("it is %s %q, want %q", c.Kind, c.Effective, m.effective)
			}
			if got := len(c.Findings) == 1 && c.Findings[0].ID == "head-order"; got != m.reordered {
				t.Errorf("findings %v", c.Findings)
			}
			if c.TokenizerErr == nil || !strings.Contains(c.TokenizerErr.Error(), "tokenizer.ggml.tokens") {
				t.Errorf("tokenizer: %v", c.TokenizerErr)
			}
			ids, shape := expectedTensor(t, m.name, "input_ids")
			want, _ := expectedTensor(t, m.name, "logits")
			got := ggufLogits(t, c, chunksOf(ids, shape))
			if len(got) != len(want) {
				t.Fatalf("%d logits, want %d", len(got), len(want))
			}
			for i := range got {
				row := i / c.Arch.Vocab % int(shape[1])
				if d := math.Abs(float64(got[i] - want[i])); !(d <= logitsTolerance) && (m.rows == 0 || row < m.rows) {
					t.Fatalf("logit %d of position %d is %g, want %g", i%c.Arch.Vocab, row, got[i], want[i])
				}
			}
		})
	}
}

// A GGUF and the checkpoint that it was made of go through one pass, and give the
// same bits where the format keeps them: all weights here but norms of Gemma are
// stored as they were.
func TestGGUFIsItsCheckpoint(t *testing.T) {
	for _, name := range []string{"llama_tied", "qwen2", "qwen3_moe", "deepseek_v3_mtp", "gpt_oss"} {
		ref, err := Open(context.Background(), filepath.Join("..", "model", "testdata", name), Options{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := Open(context.Background(), filepath.Join("testdata", "gguf", name+".gguf"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := Compatible(ref, c); err != nil {
			t.Error(err)
		}
		ids, shape := expectedTensor(t, name, "input_ids")
		chunks := chunksOf(ids, shape)
		a, b := ggufLogits(t, ref, chunks), ggufLogits(t, c, chunks)
		for i := range a {
			if a[i] != b[i] {
				t.Errorf("%s: logit %d is %g of the checkpoint and %g of the GGUF", name, i, a[i], b[i])
				break
			}
		}
		_, _ = ref.Close(), c.Close()
	}
}

func TestGGUFRefusals(t *testing.T) {
	if _, err := Open(context.Background(), filepath.Join("testdata", "gguf", "none.gguf"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
