package calibrate

import (
	"crypto/sha256"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/kernels"
	"quantscope/quant/gguf"
)

func imatrixGolden(name string) string {
	return filepath.Join("..", "..", "quant", "gguf", "testdata", "imatrix", name)
}

// imatrixModels are those that llama-imatrix measured.
var imatrixModels = []string{"llama_tied", "qwen3", "qwen3_moe", "mixtral", "glm4_moe_mtp", "deepseek_v3_mtp", "gemma3_text", "gpt_oss"}

// letters is the text that they were measured on.
func letters(t *testing.T) *corpus.Corpus {
	t.Helper()
	raw, err := os.ReadFile(imatrixGolden("expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Chunk int
		IDs   []int32
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	c := &corpus.Corpus{Name: "letters", Source: "letters.txt", Begin: -1, Chunks: slices.Collect(slices.Chunk(v.IDs, v.Chunk)), SHA256: sha256.Sum256(raw)}
	if c.Tokens() != 384 {
		t.Fatalf("%d tokens", c.Tokens())
	}
	return c
}

// Two models were changed before llama-imatrix ran: it rounds the bounds of
// gpt-oss's yarn, and takes a deepseek2 that does not say its gating function for
// one with softmax.
const (
	withoutYarn = "gpt_oss"
	withSigmoid = "deepseek_v3_mtp"
)

// openImatrixModel opens the model that llama-imatrix measured.
func openImatrixModel(t *testing.T, name string) *candidate.Candidate {
	t.Helper()
	if name != withoutYarn && name != withSigmoid {
		return openRef(t, ggufModel(name))
	}
	f, err := gguf.Open(ggufModel(name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var pairs []gguf.Pair
	for _, k := range f.Keys {
		if name != withoutYarn || !strings.Contains(k, ".rope.scaling.") {
			pairs = append(pairs, gguf.Pair{Key: k, Value: f.Metadata[k]})
		}
	}
	if name == withSigmoid {
		pairs = append(pairs, gguf.Pair{Key: "deepseek2.expert_gating_func", Value: gguf.Count(2)})
	}
	path := filepath.Join(t.TempDir(), name+".gguf")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w, err := gguf.NewWriter(out, pairs, f.Tensors)
	for i := range f.Tensors {
		raw := make([]byte, f.Tensors[i].Bytes)
		if err == nil {
			err = f.ReadAt(t.Context(), &f.Tensors[i], 0, raw)
		}
		if err == nil {
			_, err = w.Write(raw)
		}
	}
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return openRef(t, path)
}

// measureFile measures a model into a file.
func measureFile(t *testing.T, ref *candidate.Candidate, c *corpus.Corpus, hessians bool) *File {
	t.Helper()
	j, err := PrepareMeasure(t.Context(), MeasureSetup{Reference: ref, Corpus: c, Hessians: hessians, Set: kernels.Best(), Threads: 2, Program: "test"})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "moments.safetensors")
	w, err := CreateFile(path, j.Header(), j.Units(), c.Chunks)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Run(t.Context(), w, Sink{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := openMadeUp(t, path)
	if err := f.Check(ref); err != nil {
		t.Fatal(err)
	}
	return f
}

// apart is how far two lists are apart: ‖a−b‖/‖b‖.
func apart(a, b []float64) float64 {
	var d, n float64
	for i := range b {
		d += (a[i] - b[i]) * (a[i] - b[i])
		n += b[i] * b[i]
	}
	return math.Sqrt(d / max(n, 1e-300))
}

// llama-imatrix ran on the same weights in f32, so that its sums are ours but for
// rounding: of every input of every family, experts' down projections over the
// tokens routed to each, and attention's outputs, whose columns converters leave in
// their order. Its GELU is a table in f16.
func TestMomentsAreLlamas(t *testing.T) {
	text := letters(t)
	for _, name := range imatrixModels {
		ref := openImatrixModel(t, name)
		ours := measureFile(t, ref, text, false)
		theirs := openMadeUp(t, imatrixGolden(name+".gguf"))
		if err := theirs.Check(ref); err != nil {
			t.Fatal(err)
		}
		seen, worst := 0, 0.0
		for _, u := range theirs.Units() {
			for _, in := range u.Inputs {
				if !theirs.Has(in.At, false) {
					if ours.Has(in.At, false) {
						t.Errorf("%s: %s was measured here only", name, in.At)
					}
					continue
				}
				want, err := theirs.Moments(t.Context(), in.At)
				if err != nil {
					t.Fatal(err)
				}
				got, err := ours.Moments(t.Context(), in.At)
				if err != nil {
					t.Fatal(err)
				}
				if got.Rows != want.Rows || got.N != want.N {
					t.Errorf("%s: %s over %d tokens, llama.cpp has %d", name, in.At, got.Rows, want.Rows)
				}
				worst = max(worst, apart(got.Sum2, want.Sum2))
				seen++
			}
		}
		// All of ours are there but the tied head, MTP layers, and kv_b.
		total := 0
		for _, u := range ours.Units() {
			for _, in := range u.Inputs {
				if !strings.HasPrefix(u.Name, "mtp") && in.At.Projection != "kv_b" && in.At.Kind.String() != "embedding" && ours.Has(in.At, false) {
					total++
				}
			}
		}
		if seen != total || worst > toleranceOf(name) {
			t.Errorf("%s: %d inputs of %d, the worst apart by %.2g", name, seen, total, worst)
		}
		t.Logf("%s: %d inputs, the worst %.2g apart", name, seen, worst)
		if counts := theirs.Header.Counts; len(ours.Header.Counts) > 0 {
			for i, c := range counts {
				if o := ours.Header.Counts[i]; o.Layer != c.Layer || o.TopK != c.TopK || o.Tokens != c.Tokens || !slices.Equal(o.Expert, c.Expert) {
					t.Errorf("%s: counts %+v, llama.cpp has %+v", name, o, c)
				}
			}
		}
	}
}

// toleranceOf is four times what sums differ by.
func toleranceOf(model string) float64 {
	if model == "gemma3_text" {
		return 4e-4
	}
	return 8e-6
}

// What is written for llama.cpp has its names and shapes, and but for gate and up of
// experts, which share what all tokens give, its values.
func TestImatrixForLlama(t *testing.T) {
	text := letters(t)
	for _, name := range imatrixModels {
		ref := openImatrixModel(t, name)
		m, unnamed, err := measureFile(t, ref, text, false).Imatrix(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want, err := gguf.ReadImatrix(imatrixGolden(name + ".gguf"))
		if err != nil {
			t.Fatal(err)
		}
		if m.ChunkCount != 6 || m.ChunkSize != 64 || m.Datasets[0] != "letters.txt" {
			t.Errorf("%s: %d chunks of %d of %v", name, m.ChunkCount, m.ChunkSize, m.Datasets)
		}
		have := map[string]gguf.ImatrixEntry{}
		for _, e := range m.Entries {
			have[e.Name] = e
		}
		for _, w := range want.Entries {
			e, ok := have[w.Name]
			delete(have, w.Name)
			if strings.Contains(w.Name, "attn_k_b") || strings.Contains(w.Name, "attn_v_b") {
				continue
			}
			if !ok || e.Cols != w.Cols || e.Matrices != w.Matrices {
				t.Errorf("%s: %s is %d×%d, llama.cpp has %d×%d", name, w.Name, e.Matrices, e.Cols, w.Matrices, w.Cols)
				continue
			}
			if strings.Contains(w.Name, "_exps") && !strings.Contains(w.Name, "down") {
				// Every token adds to as many experts as are chosen, and to all here.
				sum := make([]float64, w.Cols)
				for i, x := range w.Sum2 {
					sum[i%w.Cols] += float64(x)
				}
				k := float64(ref.Arch.Layers[len(ref.Arch.Layers)-1].MoE.TopK)
				for x := range e.Matrices {
					row := make([]float64, w.Cols)
					for i := range row {
						row[i] = k * float64(e.Sum2[x*w.Cols+i])
					}
					if d := apart(row, sum); d > toleranceOf(name) || e.Counts[x] != 384 {
						t.Errorf("%s: %s of expert %d is %.2g apart, of %g tokens", name, w.Name, x, d, e.Counts[x])
					}
				}
				continue
			}
			if !slices.Equal(e.Counts, w.Counts) || apart(wide(e.Sum2), wide(w.Sum2)) > toleranceOf(name) {
				t.Errorf("%s: %s is %.2g apart, counts %v and %v", name, w.Name, apart(wide(e.Sum2), wide(w.Sum2)), e.Counts, w.Counts)
			}
		}
		for other := range have { // what llama.cpp does not run, or has in halves
			if !strings.Contains(other, "nextn") && !strings.Contains(other, "attn_kv_b") && !strings.HasPrefix(other, "blk.2.") {
				t.Errorf("%s: %s is nothing of llama.cpp's", name, other)
			}
		}
		var words []string
		for _, u := range unnamed {
			words = append(words, u.String())
		}
		if s := strings.Join(words, "; "); strings.Contains(s, "kv_b of") != (name == "deepseek_v3_mtp") || strings.Contains(s, "head") != (ref.Topology.Tied && !ref.Topology.HeadStored) {
			t.Errorf("%s: without a name: %s", name, s)
		}
		// It comes back as it went.
		path := filepath.Join(t.TempDir(), "imatrix.gguf")
		if err := SaveImatrix(path, m); err != nil {
			t.Fatal(err)
		}
		if err := openMadeUp(t, path).Check(ref); err != nil {
			t.Error(err)
		}
	}
}

func wide(x []float32) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = float64(x[i])
	}
	return out
}

// The older format gives the same means, experts apart though it does not say how
// many there are.
func TestImatrixOfBefore(t *testing.T) {
	ref := openRef(t, ggufModel("mixtral"))
	old, now := openMadeUp(t, imatrixGolden("mixtral.dat")), openMadeUp(t, imatrixGolden("mixtral.gguf"))
	if err := old.Check(ref); err != nil {
		t.Fatal(err)
	}
	if len(old.inputs) != len(now.inputs) || old.Identity() == now.Identity() || len(old.Notes()) != 1 || !strings.Contains(old.Notes()[0], "counts chunks") {
		t.Errorf("%d inputs and %d, notes %v", len(old.inputs), len(now.inputs), old.Notes())
	}
	for _, u := range now.Units() {
		for _, in := range u.Inputs {
			a, err := now.Moments(t.Context(), in.At)
			if err != nil {
				continue // of an expert without tokens, of which the older format has ones
			}
			b, err := old.Moments(t.Context(), in.At)
			if err != nil {
				t.Fatal(err)
			}
			for i := range a.Sum2 {
				a.Sum2[i] /= float64(a.Rows)
				b.Sum2[i] /= float64(b.Rows)
			}
			if d := apart(b.Sum2, a.Sum2); d > 1e-6 {
				t.Errorf("%s: means are %.2g apart", in.At, d)
			}
		}
	}
}

// Where the router was left out, the gates of all experts give the same means,
// whether each was measured over its own tokens or all have the same.
func TestImatrixWithoutRouter(t *testing.T) {
	ref := openImatrixModel(t, "qwen3_moe")
	golden := openMadeUp(t, imatrixGolden("qwen3_moe.gguf"))
	ours, _, err := measureFile(t, ref, letters(t), false).Imatrix(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := gguf.ReadImatrix(imatrixGolden("qwen3_moe.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	at, err := ParsePlace("layer 1 router")
	if err != nil {
		t.Fatal(err)
	}
	want, err := golden.Moments(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	for rows, m := range map[int64]*gguf.Imatrix{384: ours, 384 * 2: theirs} {
		m.Entries = slices.DeleteFunc(m.Entries, func(e gguf.ImatrixEntry) bool { return strings.Contains(e.Name, "ffn_gate_inp") })
		path := filepath.Join(t.TempDir(), "imatrix.gguf")
		if err := SaveImatrix(path, m); err != nil {
			t.Fatal(err)
		}
		got, err := openMadeUp(t, path).Moments(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got.Sum2 {
			got.Sum2[i] *= float64(want.Rows) / float64(got.Rows)
		}
		if d := apart(got.Sum2, want.Sum2); d > 8e-6 || got.Rows != rows {
			t.Errorf("means are %.2g apart, over %d tokens, want %d", d, got.Rows, rows)
		}
	}
}
