package sessions

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// TestGather takes matrices out of a fused tensor in every layout that topology
// describes.
func TestGather(t *testing.T) {
	const size = 2
	// A tensor of 4 rows and 6 columns whose element (r, c) is 10·r + c.
	raw := make([]byte, 4*6*size)
	for r := range 4 {
		for c := range 6 {
			binary.LittleEndian.PutUint16(raw[(r*6+c)*size:], uint16(10*r+c))
		}
	}
	dir := t.TempDir()
	w, err := checkpoint.NewWriter(filepath.Join(dir, "model.safetensors"), []checkpoint.Spec{{Name: "x", DType: checkpoint.BF16, Shape: []int64{4, 6}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	for _, rows := range []int{1, 2, 6} {
		for _, c := range []struct {
			name string
			m    topology.Matrix
			want []uint16
		}{
			{"transposed", topology.Matrix{Rows: 6, Cols: 4, RowStride: 1, ColStride: 6},
				[]uint16{0, 10, 20, 30, 1, 11, 21, 31, 2, 12, 22, 32, 3, 13, 23, 33, 4, 14, 24, 34, 5, 15, 25, 35}},
			{"every other row", topology.Matrix{Rows: 2, Cols: 6, Offset: 6 * size, RowStride: 12, ColStride: 1},
				[]uint16{10, 11, 12, 13, 14, 15, 30, 31, 32, 33, 34, 35}},
			{"odd columns, transposed", topology.Matrix{Rows: 3, Cols: 4, Offset: size, RowStride: 2, ColStride: 6},
				[]uint16{1, 11, 21, 31, 3, 13, 23, 33, 5, 15, 25, 35}},
			{"the left half", topology.Matrix{Rows: 4, Cols: 3, RowStride: 6, ColStride: 1},
				[]uint16{0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32}},
			{"nothing", topology.Matrix{Rows: 0, Cols: 3, RowStride: 6, ColStride: 1}, nil},
		} {
			s := &storedSource{ck: ck, matrices: []topology.Matrix{c.m}, tensor: []*checkpoint.Tensor{&ck.Tensors[0]}}
			got := make([]byte, s.Need(0))
			for from := 0; from < c.m.Rows; from += rows { // in parts of one and two rows, and whole
				n := min(rows, c.m.Rows-from)
				if err := s.ReadRows(t.Context(), 0, from, got[from*c.m.Cols*size:][:n*c.m.Cols*size]); err != nil {
					t.Fatal(err)
				}
			}
			var elements []uint16
			for i := 0; i < len(got); i += size {
				elements = append(elements, binary.LittleEndian.Uint16(got[i:]))
			}
			if !slices.Equal(elements, c.want) {
				t.Errorf("%s, %d rows at once: %v, want %v", c.name, rows, elements, c.want)
			}
		}
	}
}

// TestNaNWeights is case C22: the file, the tensor, what and where, on one line;
// the clean tensor is measured.
func TestNaNWeights(t *testing.T) {
	dir := t.TempDir()
	if err := copyFile(filepath.Join(dir, "model.safetensors"), "testdata/c22-nan-weights.safetensors"); err != nil {
		t.Fatal(err)
	}
	path := sessionPath(t)
	l, err := Start(t.Context(), Options{Checkpoint: dir, Session: path, Variants: []string{"nvfp4"}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Wait(t.Context())
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	if p.Failed != 1 || p.Done != 1 {
		t.Errorf("%+v", p)
	}
	st := openState(t, path)
	i := slices.IndexFunc(st.Log, func(e Event) bool { return e.Kind == EventFailed })
	if i < 0 {
		t.Fatal("no failure in the log")
	}
	const want = `model.safetensors: tensor "model.layers.7.mlp.gate_proj.weight": weights are not finite: NaN at [3,17]; Inf at [0,5]`
	if st.Log[i].Message != want {
		t.Errorf("%q\nwant %q", st.Log[i].Message, want)
	}
}

// writeCheckpoint writes a checkpoint of one shard.
func writeCheckpoint(t *testing.T, dir string, specs []checkpoint.Spec) {
	t.Helper()
	w, err := checkpoint.NewWriter(filepath.Join(dir, "model.safetensors"), specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range specs {
		n, ok := s.Size()
		if !ok {
			t.Fatal("size")
		}
		b := make([]byte, n)
		for k := range b {
			b[k] = byte(0x30 + (k*7+i)%16)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

// TestRowErrorsNeedTheCheckpoint: where it is not to be had, the error says where
// it was.
func TestRowErrorsNeedTheCheckpoint(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ck")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	specs := []checkpoint.Spec{
		{Name: "model.layers.0.mlp.up_proj.weight", DType: checkpoint.BF16, Shape: []int64{16, 32}},
		{Name: "model.layers.0.mlp.down_proj.weight", DType: checkpoint.F32, Shape: []int64{32, 16}},
	}
	writeCheckpoint(t, dir, specs)
	path := sessionPath(t)
	l, err := Start(t.Context(), Options{Checkpoint: dir, Session: path, Variants: []string{"nvfp4", "nvfp4+mse"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Wait(t.Context())
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	f, err := OpenSession(path)
	if err != nil {
		t.Fatal(err)
	}
	st := f.Snapshot()
	if len(st.Tensors) != 2 || st.Progress.Done != 4 {
		t.Fatalf("%+v %+v", st.Tensors, st.Progress)
	}
	for v := range st.Variants {
		for i, ts := range st.Tensors {
			rows, err := f.RowErrors(t.Context(), v, i)
			if err != nil || len(rows) != ts.Rows {
				t.Errorf("%d rows, %v", len(rows), err)
			}
		}
	}
	if err := os.Rename(dir, dir+"-moved"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.RowErrors(t.Context(), 0, 0); err == nil || !strings.Contains(err.Error(), "its checkpoint was "+dir) {
		t.Errorf("gone: %v", err)
	}
	if _, err := f.Detail(t.Context(), 1, 1); err != nil {
		t.Errorf("detail without a checkpoint: %v", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	specs[0].Shape = []int64{32, 32}
	writeCheckpoint(t, dir, specs)
	if _, err := f.RowErrors(t.Context(), 0, 0); err == nil || !strings.Contains(err.Error(), "another checkpoint is there now") {
		t.Errorf("another one: %v", err)
	}
	_, err = Start(t.Context(), Options{Checkpoint: dir, Session: path, Variants: []string{"nvfp4"}})
	var se *SettingsError
	if !errors.As(err, &se) || se.Setting != SettingSource {
		t.Errorf("resume over another one: %v", err)
	}
}

// TestReadRefusesOtherDTypes: weights that are quantized already are not a source.
func TestReadRefusesOtherDTypes(t *testing.T) {
	dir := t.TempDir()
	writeCheckpoint(t, dir, []checkpoint.Spec{{Name: "x.weight", DType: checkpoint.F8E4M3, Shape: []int64{4, 16}}})
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStored(ck, []topology.Matrix{{Name: "x.weight", Tensor: "x.weight", Rows: 4, Cols: 16, RowStride: 16, ColStride: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Read(t.Context(), 0, make([]byte, s.Need(0)))
	if !errors.Is(err, checkpoint.ErrUnsupported) || !strings.Contains(err.Error(), "F8_E4M3") || !strings.Contains(err.Error(), "x.weight") {
		t.Errorf("%v", err)
	}
	if _, err := newStored(ck, []topology.Matrix{{Name: "y", Tensor: "y"}}); err == nil {
		t.Error("a tensor that is not there")
	}
}

func TestStartRefusesBeforeItOpens(t *testing.T) {
	path := sessionPath(t)
	for what, o := range map[string]Options{
		"variant":    {Checkpoint: "demo", Variants: []string{"nvfp4+nonsense"}},
		"checkpoint": {Checkpoint: filepath.Join(t.TempDir(), "none"), Variants: []string{"nvfp4"}},
		"targets":    {Checkpoint: "demo", Variants: []string{"nvfp4"}, Targets: "no.such.tensor"},
	} {
		o.Session = path
		if _, err := Start(t.Context(), o); err == nil {
			t.Errorf("%s: no error", what)
		}
		if _, err := os.Stat(path); err == nil {
			t.Fatalf("%s: a session was made", what)
		}
	}
}

func TestElementClasses(t *testing.T) {
	for _, c := range []struct {
		m        kernels.Matrix
		nan, inf bool
	}{
		{kernels.Matrix{Element: kernels.F16, Data: []byte{0x00, 0x7c}}, false, true},
		{kernels.Matrix{Element: kernels.F16, Data: []byte{0x00, 0xfc}}, false, true},
		{kernels.Matrix{Element: kernels.F16, Data: []byte{0x01, 0x7c}}, true, false},
		{kernels.Matrix{Element: kernels.F16, Data: []byte{0xff, 0x7b}}, false, false},
		{kernels.Matrix{Element: kernels.BF16, Data: []byte{0x80, 0xff}}, false, true},
		{kernels.Matrix{Element: kernels.BF16, Data: []byte{0xc0, 0x7f}}, true, false},
		{kernels.Matrix{Element: kernels.F32, Data: []byte{0, 0, 0x80, 0x7f}}, false, true},
		{kernels.Matrix{Element: kernels.F32, Data: []byte{1, 0, 0x80, 0xff}}, true, false},
		{kernels.Matrix{Element: kernels.F32, Data: []byte{1, 0, 0, 0}}, false, false},
	} {
		v := float64(element(c.m, 0))
		if nan, inf := v != v, v-v != 0 && v == v; nan != c.nan || inf != c.inf {
			t.Errorf("%v %x: NaN %v, Inf %v", c.m.Element, c.m.Data, nan, inf)
		}
	}
}
