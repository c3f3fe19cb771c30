package export

import (
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
	return method.Variant{Name: format, Scheme: format, Spec: kernels.Spec{Format: format, Convention: c, Method: kernels.Methods(format)[0]}}
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

// prepared is a matrix quantized in one piece.
type prepared struct {
	kernels.Output
	global float32
	book   uint16 // of formats of two bits
}

// made is what the rows say of themselves.
func (x *prepared) made() kernels.Spec { return kernels.Spec{Global: x.global, Codebook: x.book} }

// prepare quantizes the matrices of a plan.
func prepare(t testing.TB, p *Plan) []prepared {
	t.Helper()
	amax := amaxes(t, p)
	all := make([]prepared, len(p.Matrices))
	for i := range all {
		m := load(t, p, i)
		spec := p.SpecOf(i)
		if _, book := kernels.CodebookBase(spec.Format); book {
			var err error
			if spec.Codebook, err = kernels.Reference().ChooseCodebook(spec, m, amax[i], nil); err != nil {
				t.Fatal(err)
			}
			all[i].book = spec.Codebook
		}
		pass, err := kernels.Reference().Begin(spec, m.Element, m.Rows, m.Cols, amax[i])
		if err != nil {
			t.Fatal(err)
		}
		s := pass.Sizes(m.Rows)
		all[i].Output = kernels.Output{Codes: make([]byte, s.Codes), Scales: make([]byte, s.Scales), Mins: make([]byte, s.Mins)}
		if err := pass.Rows(m.Data, &all[i].Output); err != nil {
			t.Fatal(err)
		}
		all[i].global = pass.Global()
		if _, err := pass.Finish(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// rows are n rows of it from first on.
func (x *prepared) rows(p *Plan, i, first, n int) *kernels.Output {
	m, f := &p.Matrices[i], p.storeOf(i).format
	tile := 1
	if f.Scope == kernels.ScopeTile {
		tile = f.Group
	}
	codes, all := len(x.Codes)/m.Rows, (m.Rows+tile-1)/tile
	scales, mins := len(x.Scales)/all, len(x.Mins)/all
	from, to := first/tile, (first+n+tile-1)/tile
	out := &kernels.Output{Codes: x.Codes[first*codes : (first+n)*codes], Scales: x.Scales[from*scales : to*scales], Mins: x.Mins[from*mins : to*mins]}
	if f.Scope == kernels.ScopeTensor {
		if out.Scales = nil; first == 0 {
			out.Scales = x.Scales
		}
	}
	return out
}

// store stores a matrix in chunks of about so many rows.
func store(w *Writer, i, rows int, x *prepared) error {
	p := w.plan
	rows = max(rows/p.RowMultiple(), 1) * p.RowMultiple()
	for first := 0; first < p.Matrices[i].Rows; first += rows {
		n := min(rows, p.Matrices[i].Rows-first)
		if err := w.StoreMade(i, first, x.rows(p, i, first, n), x.made()); err != nil {
			return err
		}
	}
	return nil
}

// write writes an export from where it stands to its end, and says how it ended.
func write(t testing.TB, p *Plan, all []prepared, dir string, o Options) (Result, error) {
	t.Helper()
	if o.files == nil {
		o.files = &faults{} // which does not wait for the disk
	}
	w, err := Create(t.Context(), p, dir, o)
	if err != nil {
		return Result{}, err
	}
	defer w.Close()
	for i := range p.Matrices {
		if !w.Wanted(i) {
			continue
		}
		if err := store(w, i, 16, &all[i]); err != nil {
			return Result{}, err
		}
	}
	return w.Finish(t.Context())
}

// mustWrite writes a whole export.
func mustWrite(t testing.TB, p *Plan, all []prepared, dir string, o Options) {
	t.Helper()
	r, err := write(t, p, all, dir, o)
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
	mustWrite(t, p, prepare(t, p), dir, Options{files: osFiles{}})
	out, _ := openModel(t, dir)
	size := int64(0)
	for _, text := range files(t, dir) {
		size += int64(len(text))
	}
	if size != p.Bytes || out.Bytes() != p.WeightBytes || len(out.Findings) != 0 {
		t.Errorf("%d bytes, planned %d; findings %v", size, p.Bytes, out.Findings)
	}
}
