package export

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// openModel opens a checkpoint for the time of the test.
func openModel(t testing.TB, dir string) (*checkpoint.Checkpoint, *topology.Model) {
	t.Helper()
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return resolved(t, ck)
}

func openDemo(t testing.TB) (*checkpoint.Checkpoint, *topology.Model) {
	t.Helper()
	ck, err := demo.Open()
	if err != nil {
		t.Fatal(err)
	}
	return resolved(t, ck)
}

func resolved(t testing.TB, ck *checkpoint.Checkpoint) (*checkpoint.Checkpoint, *topology.Model) {
	t.Helper()
	t.Cleanup(func() {
		if err := ck.Close(); err != nil {
			t.Error(err)
		}
	})
	model, err := topology.FromCheckpoint(ck)
	if err != nil {
		t.Fatal(err)
	}
	return ck, model
}

// variantOf is a variant by its format and its convention.
func variantOf(format string, c kernels.Convention) method.Variant {
	return method.Variant{Name: format, Scheme: format, Spec: kernels.Spec{Format: format, Convention: c, Method: "rtn"}}
}

// planOf plans targets of a model, "" for the default ones.
func planOf(t testing.TB, ck *checkpoint.Checkpoint, model *topology.Model, targets, layout, format string) *Plan {
	t.Helper()
	sel, err := recipe.Select(model, targets)
	if err != nil {
		t.Fatal(err)
	}
	conv, err := DefaultConvention(layout, format)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(ck, model, sel.Matrices, variantOf(format, conv), Settings{Layout: layout})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// load reads a matrix of the plan as contiguous rows.
func load(t testing.TB, p *Plan, i int) kernels.Matrix {
	t.Helper()
	m := &p.Matrices[i]
	src, _ := p.ck.Lookup(m.Tensor)
	raw := make([]byte, src.Size)
	if err := p.ck.ReadAt(t.Context(), src, 0, raw); err != nil {
		t.Fatal(err)
	}
	e := map[checkpoint.DType]kernels.Element{checkpoint.BF16: kernels.BF16, checkpoint.F16: kernels.F16, checkpoint.F32: kernels.F32}[src.DType]
	size := e.Size()
	out := kernels.Matrix{Element: e, Rows: m.Rows, Cols: m.Cols, Data: make([]byte, 0, m.Rows*m.Cols*size)}
	for r := range m.Rows {
		for c := range m.Cols {
			at := int(m.Offset) + (r*int(m.RowStride)+c*int(m.ColStride))*size
			out.Data = append(out.Data, raw[at:at+size]...)
		}
	}
	return out
}

// amaxes are the largest magnitudes that each matrix is quantized with.
func amaxes(t testing.TB, p *Plan) []float32 {
	t.Helper()
	set := kernels.Reference()
	amax := make([]float32, len(p.Matrices))
	for i := range amax {
		var err error
		if amax[i], err = set.AbsMax(load(t, p, i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range p.Groups() {
		top := float32(0)
		for _, i := range g {
			top = max(top, amax[i])
		}
		for _, i := range g {
			amax[i] = top
		}
	}
	return amax
}

// whole quantizes a matrix in one piece.
func whole(t testing.TB, p *Plan, i int, amax float32) (kernels.Output, float32) {
	t.Helper()
	m := load(t, p, i)
	pass, err := kernels.Reference().Begin(p.Spec, m.Element, m.Rows, m.Cols, amax)
	if err != nil {
		t.Fatal(err)
	}
	out := makeOutput(pass.Sizes(m.Rows))
	if err := pass.Rows(m.Data, &out); err != nil {
		t.Fatal(err)
	}
	global := pass.Global()
	if _, err := pass.Finish(); err != nil {
		t.Fatal(err)
	}
	return out, global
}

func makeOutput(s kernels.Sizes) kernels.Output {
	return kernels.Output{Codes: make([]byte, s.Codes), Scales: make([]byte, s.Scales), Mins: make([]byte, s.Mins)}
}

// store quantizes a matrix in chunks of about so many rows and stores each.
func store(t testing.TB, w *Writer, i, rows int, amax float32) error {
	t.Helper()
	p := w.plan
	m := load(t, p, i)
	pass, err := kernels.Reference().Begin(p.Spec, m.Element, m.Rows, m.Cols, amax)
	if err != nil {
		t.Fatal(err)
	}
	multiple := max(p.RowMultiple(), pass.RowMultiple())
	rows = max(rows/multiple, 1) * multiple
	stride := m.Cols * m.Element.Size()
	for first := 0; first < m.Rows; first += rows {
		n := min(rows, m.Rows-first)
		out := makeOutput(pass.Sizes(n))
		if err := pass.Rows(m.Data[first*stride:(first+n)*stride], &out); err != nil {
			t.Fatal(err)
		}
		if err := w.Store(i, first, &out, pass.Global()); err != nil {
			_, _ = pass.Finish()
			return err
		}
	}
	_, err = pass.Finish()
	return err
}

// write writes an export from where it stands to its end, and says how it ended.
func write(t testing.TB, p *Plan, dir string, o Options) (Result, error) {
	t.Helper()
	w, err := Create(t.Context(), p, dir, o)
	if err != nil {
		return Result{}, err
	}
	defer w.Close()
	amax := amaxes(t, p)
	for i := range p.Matrices {
		if !w.Wanted(i) {
			continue
		}
		if err := store(t, w, i, 16, amax[i]); err != nil {
			return Result{}, err
		}
	}
	return w.Finish(t.Context())
}

// mustWrite writes a whole export.
func mustWrite(t testing.TB, p *Plan, dir string, o Options) {
	t.Helper()
	r, err := write(t, p, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Whole || r.Bytes != p.Bytes || r.Files != len(p.Shards)+len(p.Texts)+len(p.Side) {
		t.Fatalf("%+v", r)
	}
}

// files are all files of a folder with their contents.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sameFiles compares two folders byte for byte.
func sameFiles(t testing.TB, got, want string) {
	t.Helper()
	a, b := files(t, got), files(t, want)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))); diff != "" {
		t.Errorf("files differ: %s", diff)
	}
	for name, text := range b {
		if a[name] != text {
			t.Errorf("%s differs", name)
		}
	}
}

func TestDemoModelOpt(t *testing.T) {
	ck, model := openDemo(t)
	p := planOf(t, ck, model, "", ModelOpt, "nvfp4")
	dir := filepath.Join(t.TempDir(), "out")
	mustWrite(t, p, dir, Options{})
	out, _ := openModel(t, dir)
	size := int64(0)
	for _, text := range files(t, dir) {
		size += int64(len(text))
	}
	if size != p.Bytes || out.Bytes() != p.WeightBytes || len(out.Findings) != 0 {
		t.Errorf("%d bytes, planned %d; findings %v", size, p.Bytes, out.Findings)
	}
	_ = context.Background
}
