package align

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
)

// weight is a tensor in f32.
type weight struct {
	name  string
	shape []int64
	v     []float32
}

// model is a checkpoint that a test changes.
type model struct {
	config  []byte
	tensors []*weight
}

// load reads a checkpoint of floats.
func load(t testing.TB, path string) *model {
	t.Helper()
	ck, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	m := &model{config: ck.ConfigJSON()}
	for i := range ck.Tensors {
		s := &ck.Tensors[i]
		raw := make([]byte, s.Size)
		if err := ck.ReadAt(t.Context(), s, 0, raw); err != nil {
			t.Fatal(err)
		}
		w := &weight{s.Name, s.Shape, make([]float32, s.Elements())}
		if err := checkpoint.DecodeF32(w.v, s.DType, raw); err != nil {
			t.Fatal(err)
		}
		m.tensors = append(m.tensors, w)
	}
	return m
}

// at finds tensors by the end of their names.
func (m *model) at(t testing.TB, suffix string) *weight {
	t.Helper()
	for _, w := range m.tensors {
		if strings.HasSuffix(w.name, suffix) {
			return w
		}
	}
	t.Fatalf("no tensor …%s", suffix)
	return nil
}

// columns multiplies each column by s, or divides.
func (w *weight) columns(s []float64, by int) {
	for i := range w.v {
		w.v[i] = float32(float64(w.v[i]) * math.Pow(s[i%len(s)], float64(by)))
	}
}

// rows divides each row by s.
func (w *weight) rows(s []float64) {
	cols := len(w.v) / len(s)
	for i := range w.v {
		w.v[i] = float32(float64(w.v[i]) / s[i/cols])
	}
}

// scales are some, about 1.
func scales(n int, seed uint64) []float64 {
	r := rand.New(rand.NewPCG(seed, 8))
	s := make([]float64, n)
	for i := range s {
		s[i] = math.Exp(r.NormFloat64() / 2)
	}
	return s
}

// quantize rounds matrices to int4 in groups of 16, as far as a test wants noise.
func (w *weight) quantize() {
	for g := 0; g+16 <= len(w.v); g += 16 {
		var most float64
		for _, v := range w.v[g : g+16] {
			most = max(most, math.Abs(float64(v)))
		}
		step := most / 7
		if step == 0 {
			continue
		}
		for i := range w.v[g : g+16] {
			w.v[g+i] = float32(math.Round(float64(w.v[g+i])/step) * step)
		}
	}
}

// write writes a checkpoint in f32, or in bf16.
func (m *model) write(t testing.TB, dtype checkpoint.DType) string {
	t.Helper()
	dir := t.TempDir()
	var specs []checkpoint.Spec
	for _, w := range m.tensors {
		specs = append(specs, checkpoint.Spec{Name: w.name, DType: dtype, Shape: w.shape})
	}
	out, err := checkpoint.NewWriter(filepath.Join(dir, "model.safetensors"), specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range m.tensors {
		var raw []byte
		for _, v := range w.v {
			if dtype == checkpoint.BF16 {
				raw = binary.LittleEndian.AppendUint16(raw, kernels.F32ToBF16(v))
			} else {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
			}
		}
		if _, err := out.Write(raw); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), m.config, 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// compare compares two checkpoints by their paths.
func compare(t testing.TB, master, candidate string, o Options) *Report {
	t.Helper()
	var sides [2]*Side
	for i, path := range []string{master, candidate} {
		s, err := Open(t.Context(), path, layout.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		sides[i] = s
	}
	r, err := Compare(t.Context(), sides[0], sides[1], o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// result finds what became of a tensor.
func (r *Report) result(t testing.TB, name string) *Result {
	t.Helper()
	for i := range r.Tensors {
		if r.Tensors[i].Tensor == name {
			return &r.Tensors[i]
		}
	}
	t.Fatalf("nothing about %s", name)
	return nil
}
