package calibrate

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/codes"
	"quantscope/quant/topology"
)

// openRef opens a model of a golden file, or demo.
func openRef(t *testing.T, path string) *candidate.Candidate {
	t.Helper()
	c, err := candidate.Open(t.Context(), path, candidate.Options{Set: kernels.Best(), Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func ggufModel(name string) string {
	return filepath.Join("..", "candidate", "testdata", "gguf", name+".gguf")
}

// madeUp are moments of random rows.
func madeUp(rng *rand.Rand, in Kept, rows int) *Moments {
	m := &Moments{At: in.At, N: in.N, Rows: int64(rows), Sum2: make([]float64, in.N)}
	if in.Hessian && rows > 0 {
		m.H, _ = kernels.NewDense(in.N, in.N)
	}
	x := make([]float32, in.N)
	for range rows {
		for i := range x {
			x[i] = float32(rng.NormFloat64())
			m.Sum2[i] += float64(x[i]) * float64(x[i])
		}
		for r := range m.H.Rows {
			for c := range m.H.Cols {
				m.H.Data[r*m.H.Stride+c] += x[r] * x[c]
			}
		}
	}
	return m
}

// madeUpFile is what a file of made-up moments is written from.
type madeUpFile struct {
	header Header
	units  []KeptUnit
	chunks [][]int32
	rows   map[model.Place]int // 0: of an expert that no token reached
	counts map[string]*Counts
}

func newMadeUp(hessians bool) *madeUpFile {
	m := &madeUpFile{rows: map[model.Place]int{}, counts: map[string]*Counts{}, chunks: [][]int32{{1, 2, 3}, {4, 5}}}
	m.header = Header{Source: "abc", Family: "f", Through: ThroughReference, Hessians: hessians, Numerics: "1", Program: "p",
		Corpus: codes.Corpus{Name: "text", Source: "text.txt", SHA256: "00", Chunks: 2, Tokens: 5}}
	for layer := range 3 {
		l := model.Layer{Index: layer, MTP: layer == 2, Attn: model.Attention{Heads: 2, KVHeads: 1, Dim: 3, VDim: 3}, MLP: model.FeedForward{Inner: 5}}
		if layer > 0 {
			l.MoE = &model.MoE{FeedForward: model.FeedForward{Inner: 4}, Experts: 3, TopK: 2}
			m.counts[UnitName(&l)] = &Counts{Layer: layer, MTP: l.MTP, Tokens: 5, TopK: 2, Expert: []int64{5, 5, 0}}
		}
		u := KeptUnit{Name: UnitName(&l)}
		for _, in := range Inputs(&model.Spec{Hidden: 6}, &l, false) {
			u.Inputs = append(u.Inputs, Kept{in.At, in.N, hessians, readersOf(&model.Spec{Hidden: 6}, &l)[in.At]})
			m.rows[in.At] = 5
			if in.At.Expert == 2 {
				m.rows[in.At] = 0
			}
		}
		m.units = append(m.units, u)
	}
	return m
}

// put writes a unit, its inputs in another order than they are listed in, and those
// that no token reached not at all.
func (m *madeUpFile) put(w *FileWriter, u KeptUnit) error {
	uw, err := w.Begin(u.Name)
	if err != nil {
		return err
	}
	defer uw.Abandon()
	for i, in := range slices.Backward(u.Inputs) {
		if m.rows[in.At] == 0 {
			continue
		}
		if err := uw.Add(madeUp(rand.New(rand.NewPCG(uint64(i), uint64(in.At.Layer))), in, m.rows[in.At])); err != nil {
			return err
		}
	}
	return uw.Commit(m.counts[u.Name])
}

// create makes the file.
func (m *madeUpFile) create(ctx context.Context, path string) error {
	w, err := CreateFile(path, m.header, m.units, m.chunks)
	if err != nil {
		return err
	}
	for _, u := range m.units {
		if err := m.put(w, u); err != nil {
			return err
		}
	}
	return w.Commit(ctx)
}

func (m *madeUpFile) write(t *testing.T, path string) {
	t.Helper()
	if err := m.create(t.Context(), path); err != nil {
		t.Fatal(err)
	}
}

func openMadeUp(t *testing.T, path string) *File {
	t.Helper()
	f, err := OpenFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// What was written is read, bit for bit; other readers of safetensors see the same.
func TestFileRoundTrip(t *testing.T) {
	for _, hessians := range []bool{true, false} {
		m := newMadeUp(hessians)
		path := filepath.Join(t.TempDir(), "any name")
		m.write(t, path)
		if _, err := os.Stat(path + partsSuffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the folder of parts: %v", err)
		}
		f := openMadeUp(t, path)
		want := m.header
		want.Format, want.Counts = 1, []Counts{*m.counts["layer 1"], *m.counts["mtp 2"]}
		if !reflect.DeepEqual(f.Header, want) || !reflect.DeepEqual(f.Units(), m.units) || len(f.Identity()) != 64 {
			t.Errorf("header %+v, want %+v; units %+v", f.Header, want, f.Units())
		}
		chunks, err := f.Chunks(t.Context())
		if err != nil || !reflect.DeepEqual(chunks, m.chunks) {
			t.Errorf("chunks %v, %v", chunks, err)
		}
		for _, u := range m.units {
			for i, in := range u.Inputs {
				rows := m.rows[in.At]
				if f.Has(in.At, false) != (rows > 0) || f.Has(in.At, true) != (rows > 0 && hessians) || f.Rows(in.At) != int64(rows) {
					t.Errorf("%s: has %t, %t, %d rows", in.At, f.Has(in.At, false), f.Has(in.At, true), f.Rows(in.At))
				}
				got, err := f.Moments(t.Context(), in.At)
				if rows == 0 {
					if !errors.Is(err, ErrNotMeasured) {
						t.Errorf("%s: %v", in.At, err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				want := madeUp(rand.New(rand.NewPCG(uint64(i), uint64(in.At.Layer))), in, rows)
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %+v, want %+v", in.At, got, want)
				}
			}
		}
		if _, err := f.Moments(t.Context(), model.Place{Kind: topology.MLP, Layer: 9, Expert: -1, Projection: "down"}); !errors.Is(err, ErrNotMeasured) || !strings.Contains(err.Error(), "layer 9 mlp down") {
			t.Errorf("an input that is not there: %v", err)
		}
		ck, err := checkpoint.OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		defer ck.Close()
		x, ok := ck.Lookup("layer 0 mlp down.sum2")
		if !ok || x.DType != checkpoint.F64 || x.Elements() != 5 {
			t.Errorf("%+v", x)
		}
		if h, ok := ck.Lookup("layer 0 mlp down.hessian"); ok != hessians || ok && (h.DType != checkpoint.F32 || h.Elements() != 15) {
			t.Errorf("%+v", h)
		}
	}
}

// However often it is broken off, between units or within one, the file comes out
// byte for byte as without.
func TestFileGoesOn(t *testing.T) {
	m := newMadeUp(true)
	whole, parts := filepath.Join(t.TempDir(), "f"), filepath.Join(t.TempDir(), "f")
	m.write(t, whole)
	for i, u := range m.units {
		w, err := CreateFile(parts, m.header, m.units, m.chunks)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range m.units {
			if w.Has(v.Name) != (k < i) || k < i && !reflect.DeepEqual(w.Counts(v.Name), m.counts[v.Name]) {
				t.Errorf("after %d units %s is there: %t", i, v.Name, w.Has(v.Name))
			}
		}
		if err := w.Commit(t.Context()); err == nil || !strings.Contains(err.Error(), u.Name+" was not measured") {
			t.Errorf("a file of %d units: %v", i, err)
		}
		if _, err := OpenFile(t.Context(), parts); err == nil || !strings.Contains(err.Error(), "is not finished") {
			t.Errorf("opened half: %v", err)
		}
		if i == 1 { // as a process that was killed within the unit leaves it
			if err := os.WriteFile(w.unitFile(i, "bin"), []byte("half"), 0o666); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(w.dir, ".unit-0001.json.abc.tmp"), []byte("{"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.put(w, u); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Begin(u.Name); err == nil {
			t.Errorf("%s twice", u.Name)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	m.header.Program = "another version" // may differ; that of the beginning stays
	w, err := CreateFile(parts, m.header, m.units, m.chunks)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(parts)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a, b) {
		t.Error("the bytes differ")
	}
	if _, err := CreateFile(whole, m.header, m.units, m.chunks); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
}

// Whoever goes on must mean the same; a second writer is refused.
func TestFileOfAnotherRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	m := newMadeUp(true)
	w, err := CreateFile(path, m.header, m.units, m.chunks)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := CreateFile(path, m.header, m.units, m.chunks); err == nil || !strings.Contains(err.Error(), "held by process") {
		t.Errorf("a second writer: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*madeUpFile){
		"checkpoint is abc, and xyz":           func(m *madeUpFile) { m.header.Source = "xyz" },
		"through the layers is reference, and": func(m *madeUpFile) { m.header.Through = "nvfp4" },
		"arithmetic is 1, and 2":               func(m *madeUpFile) { m.header.Numerics = "2" },
		"text is 00, and 11":                   func(m *madeUpFile) { m.header.Corpus.SHA256 = "11" },
		"number of chunks is 2, and 1":         func(m *madeUpFile) { m.header.Corpus.Chunks = 1 },
		"Hessians) is true, and false":         func(m *madeUpFile) { *m = *newMadeUp(false) },
		"chunking is":                          func(m *madeUpFile) { m.chunks = [][]int32{{1, 2}, {3, 4, 5}} },
		"list of inputs is":                    func(m *madeUpFile) { m.units = m.units[1:] },
	} {
		m := newMadeUp(true)
		change(m)
		_, err := CreateFile(path, m.header, m.units, m.chunks)
		var d *DifferError
		if !errors.As(err, &d) || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, what)
		}
	}
}

// Moments that are no moments are refused by their place, and the unit with them.
func TestFileRefusesMoments(t *testing.T) {
	m := newMadeUp(true)
	w, err := CreateFile(filepath.Join(t.TempDir(), "f"), m.header, m.units, m.chunks)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	in := m.units[0].Inputs[2]
	for want, change := range map[string]func(*Moments){
		"layer 0 mlp gate: the sum of squares of column 3 is NaN":         func(m *Moments) { m.Sum2[3] = math.NaN() },
		"layer 0 mlp gate: the sum of squares of column 0 is -1":          func(m *Moments) { m.Sum2[0] = -1 },
		"layer 0 mlp gate: entry (4, 1) of the Hessian is +Inf":           func(m *Moments) { m.H.Data[4*m.H.Stride+1] = float32(math.Inf(1)) },
		"layer 0 mlp gate: entry (2, 2) of the Hessian is -1":             func(m *Moments) { m.H.Data[2*m.H.Stride+2] = -1 },
		"layer 0 mlp gate has 5 columns in place of 6":                    func(m *Moments) { m.N = 5 },
		"layer 0 mlp gate has 6 columns in place of 6, lacks its Hessian": func(m *Moments) { m.H = kernels.Dense{} },
		"layer 8 mlp gate is no input of layer 0":                         func(m *Moments) { m.At.Layer = 8 },
	} {
		u, err := w.Begin("layer 0")
		if err != nil {
			t.Fatal(err)
		}
		bad := madeUp(rand.New(rand.NewPCG(1, 1)), in, 5)
		change(bad)
		if err := u.Add(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if err := u.Commit(nil); err == nil || w.Has("layer 0") {
			t.Errorf("a unit with an error is kept: %v", err)
		}
	}
	left, err := filepath.Glob(filepath.Join(w.dir, "*unit*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	u, err := w.Begin("layer 1")
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(&Counts{Layer: 1, Tokens: 5, TopK: 2, Expert: []int64{5, 4, 0}}); err == nil || !strings.Contains(err.Error(), "experts have 9 tokens") {
		t.Errorf("counts that do not add up: %v", err)
	}
}

// Every byte counts: with any one changed the file is refused, or what is read of
// it is, and a file that is cut short too.
func TestFileDamaged(t *testing.T) {
	m := newMadeUp(true)
	path := filepath.Join(t.TempDir(), "f")
	m.write(t, path)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	good := openMadeUp(t, path).Identity()
	read := func(b []byte) (err error) {
		name := filepath.Join(t.TempDir(), "damaged")
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err != nil && (!strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%q does not name the file in one line", err)
			}
		}()
		f, err := OpenFile(t.Context(), name)
		if err != nil {
			return err
		}
		defer f.Close()
		for _, u := range f.Units() {
			for _, in := range u.Inputs {
				if _, err := f.Moments(t.Context(), in.At); err != nil && !errors.Is(err, ErrNotMeasured) {
					return err
				}
			}
		}
		if _, err := f.Chunks(t.Context()); err != nil {
			return err
		}
		if f.Identity() != good {
			t.Errorf("identity %s", f.Identity())
		}
		return nil
	}
	if err := read(raw); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 3))
	zero := 0
	for range 1500 {
		b := slices.Clone(raw)
		at := rng.IntN(len(b))
		b[at] ^= 1 << rng.IntN(8)
		if err := read(b); err == nil {
			zero++ // of an input that no token reached, whose moments nobody reads, or of the program's name
		}
	}
	if zero > 150 {
		t.Errorf("%d changed bytes were not found", zero)
	}
	for _, n := range []int{0, 1, 8, 9, 100, len(raw) / 2, len(raw) - 1} {
		if err := read(raw[:n]); err == nil {
			t.Errorf("a file of %d bytes is read", n)
		}
	}
}

// Whatever a file holds, it is read or refused with its name in one line.
func FuzzFile(f *testing.F) {
	m := newMadeUp(true)
	path := filepath.Join(f.TempDir(), "f")
	if err := m.create(f.Context(), path); err != nil {
		f.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(raw[:len(raw)/2])
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		name := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(name, raw, 0o666); err != nil {
			t.Fatal(err)
		}
		said := func(err error) {
			if err != nil && (!strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%q does not name the file in one line", err)
			}
		}
		f, err := OpenFile(t.Context(), name)
		if err != nil {
			said(err)
			return
		}
		defer f.Close()
		for _, u := range f.Units() {
			for _, in := range u.Inputs {
				_, err := f.Moments(t.Context(), in.At)
				said(err)
			}
		}
		_, err = f.Chunks(t.Context())
		said(err)
		_, _, err = f.Imatrix(t.Context())
		said(err)
	})
}

// Moments of another checkpoint are refused, with both identities.
func TestFileOfAnotherCheckpoint(t *testing.T) {
	ref := openRef(t, ggufModel("qwen3_moe"))
	m := newMadeUp(false)
	path := filepath.Join(t.TempDir(), "f")
	m.write(t, path)
	err := openMadeUp(t, path).Check(ref)
	if err == nil || !strings.Contains(err.Error(), "identity abc…") || !strings.Contains(err.Error(), ref.Identity[:16]) {
		t.Errorf("another checkpoint: %v", err)
	}
	m.header.Source = ref.Identity
	m.write(t, path+"2")
	if err := openMadeUp(t, path+"2").Check(ref); err == nil || !strings.Contains(err.Error(), `"layer 0 attention q": has 6 columns, and`) {
		t.Errorf("other columns: %v", err)
	}
}

// Places go both ways.
func TestParsePlace(t *testing.T) {
	for _, p := range []model.Place{
		{Kind: topology.Head, Layer: -1, Expert: -1}, {Kind: topology.Router, Layer: 3, Expert: -1}, {Kind: topology.Expert, Layer: 0, Expert: 12, Projection: "down"},
		{Kind: topology.MTPExtra, Layer: 5, Expert: -1, Projection: "shared_head.head"}, {Kind: topology.Attention, Layer: 10, Expert: -1, Projection: "q_b"},
	} {
		if got, err := ParsePlace(p.String()); err != nil || got != p {
			t.Errorf("%s is read as %+v, %v", p, got, err)
		}
	}
	for _, s := range []string{"", "layer", "layer 1", "layer x mlp up", "layer 01 mlp up", "mlp up up", "layer 1 nothing up", "layer -1 mlp up", "mlp  up", "layer 1 mlp 7 up "} {
		if p, err := ParsePlace(s); err == nil {
			t.Errorf("%q is read as %+v", s, p)
		}
	}
}
