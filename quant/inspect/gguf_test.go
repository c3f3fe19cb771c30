package inspect

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/quant/gguf"
)

func ggufReport(t *testing.T, path string, list bool) *GGUFReport {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	r, err := GGUF(context.Background(), f, list)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const ggufCases = "../gguf/testdata/cases"

// A type that is not known is listed by its number, its size as unknown; the other
// tensor is as usual.
func TestGGUFUnknownType(t *testing.T) {
	path := filepath.Join(ggufCases, "C10-unknown-type", "unknown-42.gguf")
	r := ggufReport(t, path, true)
	if r.Tensors != 2 || len(r.Types) != 2 || r.Types[0].Name != "type 42" || r.Types[0].Known || r.Types[0].Bytes != -1 || r.Types[1].Name != "F32" || r.Types[1].Bytes != 256 || r.Bytes != 256 {
		t.Errorf("%+v", r.Types)
	}
	if r.Estimate.Bytes != 256 || r.Estimate.BitsPerWeight != 32 {
		t.Errorf("%+v: what has no size is not counted", r.Estimate)
	}
	if len(r.List) != 2 || !strings.Contains(r.Findings[0].Message, "type 42 is not known") || r.Findings[0].Tensor != "blk.0.ffn_down.weight" {
		t.Errorf("%+v %+v", r.List, r.Findings)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, err := ReadGGUFValues(context.Background(), f, "token_embd.weight")
	if err != nil || v.First[0] != "-0.575110853" || *v.Max != 2.058899164199829 || *v.Min != -2.3972198963165283 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := ReadGGUFValues(context.Background(), f, "blk.0.ffn_down.weight"); err == nil || !strings.Contains(err.Error(), "type 42") || !strings.Contains(err.Error(), "unknown-42.gguf") {
		t.Errorf("%v", err)
	}
	if _, err := ReadGGUFValues(context.Background(), f, "nothing"); err == nil || !strings.Contains(err.Error(), "no such tensor") {
		t.Errorf("%v", err)
	}
}

// Long lists are not printed whole, and texts are cut.
func TestGGUFMetadata(t *testing.T) {
	r := ggufReport(t, filepath.Join(ggufCases, "C15-gguf-names", "nested-arrays.gguf"), false)
	found := false
	for _, k := range r.Metadata {
		if len(k.Value) > 800 {
			t.Errorf("%s has %d characters", k.Key, len(k.Value))
		}
		if k.Key == "tokenizer.ggml.tokens" {
			found = k.Count == 3000 && strings.HasSuffix(k.Value, "… 3000 in all]") && k.Type == "ARRAY of STRING"
		}
	}
	if !found {
		t.Errorf("%+v", r.Metadata)
	}
}

// The figures of a model: one layer's cache is 2 × 2 heads × 16 channels of 2 bytes.
func TestGGUFModel(t *testing.T) {
	r := ggufReport(t, "../../analysis/candidate/testdata/gguf/glm4_moe_mtp.gguf", true)
	g := r.Geometry
	if g == nil || g.Layers != 2 || g.MTPLayers != 1 || g.Heads != 4 || g.KVHeads != 2 || g.HeadDim != 16 || g.RotaryDim != 8 || g.Experts != 6 || g.TopK != 2 || g.KVPerToken != 2*2*2*16*2 {
		t.Errorf("%+v", g)
	}
	var params int64
	var share float64
	for _, x := range r.Types {
		params += x.Params
		share += x.ShareParams
	}
	if params != r.Params || share < 0.999999 || share > 1.000001 || r.Estimate.Bytes != r.Bytes || r.Family != "glm4_moe" {
		t.Errorf("%d params of %d, share %g, %+v", params, r.Params, share, r.Estimate)
	}
	for _, x := range r.List {
		if x.Kind == "" || x.Kind == "unknown" {
			t.Errorf("%s has kind %q", x.Name, x.Kind)
		}
	}
}

// A big-endian file says so, and how its blocks were told.
func TestGGUFBigEndian(t *testing.T) {
	r := ggufReport(t, "../gguf/testdata/golden/big_endian.gguf", false)
	if !r.Files[0].BigEndian || !strings.Contains(r.Findings[0].Message, "within blocks swapped") {
		t.Errorf("%+v %+v", r.Files, r.Findings)
	}
	if s := ggufReport(t, "../gguf/testdata/golden/split-00002-of-00002.gguf", false); len(s.Files) != 2 || s.Files[0].Tensors+s.Files[1].Tensors != 5 {
		t.Errorf("%+v", s.Files)
	}
}

// Integers are shown as they are, whatever the order of bytes.
func TestGGUFIntegers(t *testing.T) {
	for file, want := range map[string][2]string{"model_a.gguf": {"rope_freqs.idx", "0 1 2 3 4 5 6"}, "big_endian_plain.gguf": {"a.i32", "-8 -4 3 6 -8 5 5 2 -9 -6 -7"}} {
		f, err := gguf.Open(filepath.Join("..", "gguf", "testdata", "golden", file))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		v, err := ReadGGUFValues(t.Context(), f, want[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(v.First, " "); got != want[1] || v.NaN+v.Inf != 0 {
			t.Errorf("%s: %s, %+v", file, got, v)
		}
	}
}
