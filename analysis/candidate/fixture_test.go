package candidate

import (
	"os"
	"path/filepath"
	"testing"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/method"
	"quantscope/quant/topology"
)

// open opens a candidate for the time of the test.
func open(t testing.TB, path string) *Candidate {
	t.Helper()
	c, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func mustParse(t testing.TB, ref *Candidate, spec string, o Options) *Candidate {
	t.Helper()
	c, err := Parse(t.Context(), ref, spec, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func source(t testing.TB, c *Candidate) traced {
	t.Helper()
	s, err := c.Source()
	if err != nil {
		t.Fatal(err)
	}
	return s.(traced)
}

// values are all of a matrix.
func values(t testing.TB, s model.Source, p model.Place) []float32 {
	t.Helper()
	w, err := s.Weight(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, w.Rows*w.Cols)
	if err := kernels.Best().ExpandRows(out, w.Operand, 0); err != nil {
		t.Fatal(err)
	}
	s.Release()
	return out
}

// exported writes an export of some of a reference's matrices by the default
// settings of a layout.
func exported(t testing.TB, ck *checkpoint.Checkpoint, top *topology.Model, targets, layout, name string) string {
	t.Helper()
	return exportedWith(t, ck, top, targets, layout, name, export.Shared)
}

func exportedWith(t testing.TB, ck *checkpoint.Checkpoint, top *topology.Model, targets, layout, name string, globals export.Globals) string {
	t.Helper()
	matrices, _, err := selectTargets(top, targets, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := method.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	conv, err := export.DefaultConvention(layout, v.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	if v, err = v.WithConvention(conv); err != nil {
		t.Fatal(err)
	}
	p, err := export.NewPlan(ck, top, matrices, v, export.Settings{Layout: layout, Globals: globals})
	if err != nil {
		t.Fatal(err)
	}
	amax := make([]float32, len(matrices))
	load := func(i int) kernels.Matrix {
		m := &matrices[i]
		tensor, _ := ck.Lookup(m.Tensor)
		out := kernels.Matrix{Element: kernels.BF16, Rows: m.Rows, Cols: m.Cols}
		if tensor.DType == checkpoint.F32 {
			out.Element = kernels.F32
		}
		raw, size := make([]byte, tensor.Size), int64(out.Element.Size())
		if err := ck.ReadAt(t.Context(), tensor, 0, raw); err != nil {
			t.Fatal(err)
		}
		for r := range int64(m.Rows) {
			for c := range int64(m.Cols) {
				out.Data = append(out.Data, raw[m.Offset+(r*m.RowStride+c*m.ColStride)*size:][:size]...)
			}
		}
		return out
	}
	for i := range matrices {
		if amax[i], err = kernels.Reference().AbsMax(load(i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range p.Groups() {
		most := float32(0)
		for _, i := range g {
			most = max(most, amax[i])
		}
		for _, i := range g {
			amax[i] = most
		}
	}
	dir := filepath.Join(t.TempDir(), "out")
	w, err := export.Create(t.Context(), p, dir, export.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i := range matrices {
		m := load(i)
		made := v
		made.Spec = p.Spec
		spec, err := made.Prepared(kernels.Best(), kernels.StoredOperand(m), amax[i], nil)
		if err != nil {
			t.Fatal(err)
		}
		pass, err := kernels.Best().Begin(spec, m.Element, m.Rows, m.Cols, amax[i])
		if err != nil {
			t.Fatal(err)
		}
		s := pass.Sizes(m.Rows)
		out := kernels.Output{Codes: make([]byte, s.Codes), Scales: make([]byte, s.Scales), Mins: make([]byte, s.Mins)}
		if err := pass.Rows(m.Data, &out); err != nil {
			t.Fatal(err)
		}
		spec.Global = pass.Global()
		if err := w.StoreMade(i, 0, &out, spec); err != nil {
			t.Fatal(err)
		}
		if _, err := pass.Finish(); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := w.Finish(t.Context()); err != nil || !r.Whole {
		t.Fatal(r, err)
	}
	return dir
}

// tensor is a stored tensor of a checkpoint that a test makes.
type tensor struct {
	name  string
	dtype checkpoint.DType
	shape []int64
	data  []byte
}

// readAll reads every tensor of a checkpoint.
func readAll(t testing.TB, ck *checkpoint.Checkpoint) []tensor {
	t.Helper()
	var out []tensor
	for i := range ck.Tensors {
		s := &ck.Tensors[i]
		raw := make([]byte, s.Size)
		if err := ck.ReadAt(t.Context(), s, 0, raw); err != nil {
			t.Fatal(err)
		}
		out = append(out, tensor{s.Name, s.DType, s.Shape, raw})
	}
	return out
}

// writeModel writes a checkpoint of one file with a config.
func writeModel(t testing.TB, config []byte, tensors []tensor) string {
	t.Helper()
	dir := t.TempDir()
	var specs []checkpoint.Spec
	for _, x := range tensors {
		specs = append(specs, checkpoint.Spec{Name: x.name, DType: x.dtype, Shape: x.shape})
	}
	w, err := checkpoint.NewWriter(filepath.Join(dir, "model.safetensors"), specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tensors {
		if _, err := w.Write(x.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// stored is the checkpoint below a candidate that was opened of files.
func stored(t testing.TB, c *Candidate) *opened {
	t.Helper()
	n, ok := source(t, c).(*native)
	if !ok {
		t.Fatalf("%s is no checkpoint of safetensors", c.Label)
	}
	return n.x
}
