package verify

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// awqFiles are a model and what llm-compressor's AWQ made of it.
func awqFiles(name string) string { return filepath.Join("..", "align", "testdata", "awq", name) }

// A checkpoint that another tool smoothed is measured after that is undone: no norm
// and no matrix is a problem, and the report says what was found.
func TestSmoothed(t *testing.T) {
	rep := runOn(t, awqFiles("master"), awqFiles("awq"))
	for _, p := range rep.Problems {
		if p.ID == TensorChanged || p.ID == ErrorBound || p.ID == CodesDiffer {
			t.Errorf("%+v", p)
		}
	}
	if rel := float64(rep.MeanRelL2); rel > 0.1 || rel < 0.05 || float64(rep.WorstRelL2) > 0.12 {
		t.Errorf("mean relative error %v, worst %v", rep.MeanRelL2, rep.WorstRelL2)
	}
	for _, want := range []string{"smoothing was found and undone: 18 matrices are measured after that, 6 norms", "smoothing undone: s in [0.319, 3.14], from input_layernorm (3 tensors)"} {
		if !slices.ContainsFunc(rep.Notes, func(n string) bool { return strings.Contains(n, want) }) {
			t.Errorf("no note says %q: %q", want, rep.Notes)
		}
	}
	if rep.UntouchedTensors-rep.UntouchedIdentical != 6 {
		t.Errorf("%d of %d untouched tensors are the source's", rep.UntouchedIdentical, rep.UntouchedTensors)
	}
}

// One matrix that is another's is a problem under smoothing too.
func TestSmoothedFault(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		data, err := os.ReadFile(filepath.Join(awqFiles("awq"), name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := ck.Lookup("model.layers.0.mlp.gate_proj.weight_packed")
	b, _ := ck.Lookup("model.layers.1.mlp.gate_proj.weight_packed")
	raw := make([]byte, b.Size)
	if err := ck.ReadAt(t.Context(), b, 0, raw); err != nil {
		t.Fatal(err)
	}
	at := a.Offset
	name := filepath.Join(dir, ck.Files[a.File].Name)
	if err := ck.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(raw, at); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	rep := runOn(t, awqFiles("master"), dir)
	if !slices.ContainsFunc(rep.Problems, func(p Problem) bool {
		return p.Tensor == "model.layers.0.mlp.gate_proj.weight_packed" && p.ID == ErrorBound
	}) {
		t.Errorf("%+v", rep.Problems)
	}
}

func runOn(t *testing.T, src, out string) *Report {
	t.Helper()
	ck, err := checkpoint.Open(src)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	model, err := topology.FromCheckpoint(ck)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := Run(t.Context(), ck, model, out, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}
