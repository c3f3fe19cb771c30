package candidate

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/analysis/model"
	"quantscope/analysis/yardstick/kld"
	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// ggufModels are the golden models as convert_hf_to_gguf.py of llama.cpp writes
// them (testdata/gguf/make.py). rows is how many positions of a sequence can
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
	return tensorOf(t, filepath.Join("..", "model", "testdata", name+".expected.safetensors"), tensor)
}

func tensorOf(t *testing.T, path, tensor string) ([]float32, []int64) {
	t.Helper()
	ck, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	x, ok := ck.Lookup(tensor)
	if !ok {
		t.Fatalf("%s has no %s", path, tensor)
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

// Twelve types of blocks, by matrix, by llama-quantize; the logits are of
// transformers on what gguf-py dequantizes them to (testdata/gguf/make.py).
func TestGGUFOfManyTypes(t *testing.T) {
	c, err := Open(context.Background(), filepath.Join("testdata", "gguf", "mixed.gguf"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ids, shape := tensorOf(t, filepath.Join("testdata", "gguf", "mixed.expected.safetensors"), "input_ids")
	want, _ := tensorOf(t, filepath.Join("testdata", "gguf", "mixed.expected.safetensors"), "logits")
	got := ggufLogits(t, c, chunksOf(ids, shape))
	for i := range want {
		if d := math.Abs(float64(got[i] - want[i])); !(d <= logitsTolerance) {
			t.Fatalf("logit %d is %g, want %g", i, got[i], want[i])
		}
	}
	// By hand: bytes of a block over its elements, weighed by elements.
	var bits, params int64
	for _, m := range []struct{ n, block, bytes int64 }{
		{64 * 256, 32, 18}, {64 * 256, 256, 210}, // embedding Q4_0, head Q6_K
		{65536, 256, 144}, {32768, 256, 210}, {32768, 256, 110}, {65536, 256, 84}, {65536, 256, 176}, {65536, 256, 136}, {65536, 256, 144},
		{65536, 32, 22}, {32768, 32, 34}, {32768, 32, 18}, {65536, 32, 18}, {65536, 32, 20}, {65536, 32, 24}, {65536, 256, 210},
	} {
		bits += 8 * m.n / m.block * m.bytes
		params += m.n
	}
	if want := float64(bits) / float64(params); c.BitsPerWeight != want {
		t.Errorf("%g bits a weight, want %g", c.BitsPerWeight, want)
	}
	if want := bits/8 + 5*256*4; c.Bytes != want { // five norms of f32
		t.Errorf("%d bytes, want %d", c.Bytes, want)
	}
	if c.Schemes[0] != (Share{"Q4_K", 2, 2 * 65536, float64(2*65536) / float64(params)}) || len(c.Schemes) != 12 || len(c.Fallbacks) > 0 {
		t.Errorf("schemes %v, fallbacks %v", c.Schemes, c.Fallbacks)
	}
}

// The logits of a whole program, llama-perplexity, over text: an f32 model, the
// second half of each chunk, BOS in the place of its first token.
func TestGGUFMeetsLlamaPerplexity(t *testing.T) {
	dir := filepath.Join("..", "yardstick", "kld", "testdata")
	base, err := kld.Open(filepath.Join(dir, "base.kld"))
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	raw, err := os.ReadFile(filepath.Join(dir, "base.f32"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(context.Background(), filepath.Join(dir, "tiny.gguf"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	chunks := make([][]int32, base.Chunks)
	for i, ids := range base.Tokens {
		chunks[i] = append([]int32{1}, ids[1:]...)
	}
	got := ggufLogits(t, c, chunks)
	var s kld.Statistics
	var row kld.Row
	for k := range base.Chunks {
		for i := range base.Rows() {
			at := got[(k*base.NCtx+base.First()+i)*base.Vocab:][:base.Vocab]
			for v := range at {
				bits := raw[4*((k*base.Rows()+i)*base.Vocab+v):]
				want := math.Float32frombits(uint32(bits[0]) | uint32(bits[1])<<8 | uint32(bits[2])<<16 | uint32(bits[3])<<24)
				if math.Abs(float64(at[v]-want)) > logitsTolerance {
					t.Fatalf("chunk %d, row %d, token %d: %g, want %g", k, i, v, at[v], want)
				}
			}
			if err := base.Row(k, i, &row); err != nil {
				t.Fatal(err)
			}
			s.Add(kld.Compare(&row, at, base.Tokens[k][base.First()+i+1]))
		}
	}
	// What is left is what 16 bits cannot hold.
	if kl := s.KL().Value; math.Abs(kl) > 1e-5 || s.SameTop().Value < 0.99 || math.Abs(s.LogRatio().Value) > 1e-4 {
		t.Errorf("KL %g, same top %g, ln of the ratio of perplexities %g", kl, s.SameTop().Value, s.LogRatio().Value)
	}
}

// A GGUF's MTP layer drafts as that of the checkpoint does.
func TestGGUFHasItsMTPLayer(t *testing.T) {
	c, err := Open(context.Background(), filepath.Join("testdata", "gguf", "glm4_moe_mtp.gguf"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	src, err := c.Source()
	if err != nil {
		t.Fatal(err)
	}
	o := model.Options{Set: kernels.Best(), Threads: 2}
	mtp, err := model.NewMTP(context.Background(), c.Arch, src, o)
	if err != nil {
		t.Fatal(err)
	}
	ids, shape := expectedTensor(t, "glm4_moe_mtp", "input_ids")
	normed, _ := expectedTensor(t, "glm4_moe_mtp", "final_norm")
	want, _ := expectedTensor(t, "glm4_moe_mtp", "mtp.logits")
	next := chunksOf(ids, shape)[0][1:]
	got, err := mtp.Feed(context.Background(), normed[:len(next)*c.Arch.Hidden], next)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if math.Abs(float64(got[i]-want[i])) > logitsTolerance {
			t.Fatalf("logit %d is %g, want %g", i, got[i], want[i])
		}
	}
}

func TestGGUFRefusals(t *testing.T) {
	if _, err := Open(context.Background(), filepath.Join("testdata", "gguf", "none.gguf"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	good, err := os.ReadFile(filepath.Join("testdata", "gguf", "llama_rope_linear.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	// Another name of the same length is a tensor that nobody knows; another size in
	// the metadata one that does not fit.
	damaged := func(from, to string) error {
		path := filepath.Join(t.TempDir(), "model.gguf")
		if !bytes.Contains(good, []byte(from)) {
			t.Fatalf("no %q", from)
		}
		if err := os.WriteFile(path, bytes.ReplaceAll(good, []byte(from), []byte(to)), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Open(context.Background(), path, Options{})
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	for _, c := range []struct{ from, to, mention string }{
		{"blk.1.attn_v.weight", "blk.1.attn_w.weight", `"blk.1.attn_w.weight"`},
		{"blk.1.attn_v.weight", "blk.2.attn_v.weight", "layer 1 attention v"},
		{"blk.0.ffn_norm.weight", "blk.3.ffn_norm.weight", "layer 0 norm post_attention_layernorm"},
		{"llama.feed_forward_length\x04\x00\x00\x00\x40", "llama.feed_forward_length\x04\x00\x00\x00\x41", "the metadata ask for 65×32"},
	} {
		if err := damaged(c.from, c.to); err == nil || !strings.Contains(err.Error(), c.mention) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q for %q: %v", c.to, c.from, err)
		}
	}
	stop, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Open(stop, filepath.Join("testdata", "gguf", "mixed.gguf"), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a stopped opening: %v", err)
	}
}

// What a source cannot give is an error that says so.
func TestGGUFSourceOutside(t *testing.T) {
	c, err := Open(context.Background(), filepath.Join("testdata", "gguf", "mixed.gguf"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	src, err := c.Source()
	if err != nil {
		t.Fatal(err)
	}
	nowhere := model.Place{Kind: topology.Attention, Layer: 7, Expert: -1, Projection: "q"}
	_, err = src.Weight(context.Background(), nowhere)
	_, err2 := src.Vector(context.Background(), nowhere, "bias")
	err3 := src.Rows(context.Background(), nowhere, []int32{0}, make([]float32, 256))
	for _, err := range []error{err, err2, err3} {
		if !errors.Is(err, model.ErrAbsent) {
			t.Errorf("a place without a tensor: %v", err)
		}
	}
	if src.Has(nowhere, "weight") || !src.Has(embeddingAt, "weight") || src.Has(embeddingAt, "bias") {
		t.Error("Has")
	}
	if err := src.Rows(context.Background(), finalNormAt, []int32{0}, make([]float32, 256)); err == nil {
		t.Error("rows of a norm")
	}
}
