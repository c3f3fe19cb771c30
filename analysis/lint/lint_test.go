package lint

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/topology"
)

const cases = "../../cmd/quantscope/testdata/cases/"

func lintPath(t *testing.T, path string) []Finding {
	t.Helper()
	c, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return lintOpened(t, c)
}

func lintOpened(t *testing.T, c *checkpoint.Checkpoint) []Finding {
	t.Helper()
	defer c.Close()
	m, err := topology.FromCheckpoint(c)
	if err != nil {
		t.Fatal(err)
	}
	found, err := Run(t.Context(), c, m)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func of(id string, found []Finding) (out []Finding) {
	for _, f := range found {
		if f.ID == id {
			out = append(out, f)
		}
	}
	return out
}

func ofRule(rule string, found []Finding) (out []Finding) {
	for _, f := range found {
		if f.Rule == rule {
			out = append(out, f)
		}
	}
	return out
}

func TestTheDemoIsClean(t *testing.T) {
	c, err := demo.Open()
	if err != nil {
		t.Fatal(err)
	}
	if found := lintOpened(t, c); len(found) != 0 {
		t.Errorf("%+v", found)
	}
}

func TestNaNScalesAreCounted(t *testing.T) {
	found := of("scale-nonfinite", lintPath(t, cases+"C20-nan-scale/model.safetensors"))
	if len(found) != 1 {
		t.Fatalf("%+v", found)
	}
	f := found[0]
	if f.Severity != Error || f.File != "model.safetensors" || f.Tensor != "model.layers.4.self_attn.o_proj.weight_scale" || !strings.HasPrefix(f.Message, "3 of 32 scales are NaN, at [0,3] [5,0] [7,1]") {
		t.Errorf("%+v", f)
	}
}

func TestUnindexedTensorFailsTheGate(t *testing.T) {
	found := lintPath(t, cases+"C08-index/leftover")
	if layout := of("index-unlisted", found); len(layout) != 1 || layout[0].Tensor != "model.layers.0.mlp.old_proj.weight" || !Failed(found) {
		t.Errorf("%+v", found)
	}
}

// Scales of every storage: an infinite global scale, the NaN exponent of E8M0
// stored as U8, and a zero-size one, which is no defect.
func TestScalesOfEveryStorage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	specs := []checkpoint.Spec{
		{Name: "model.layers.0.mlp.up_proj.weight_scale_2", DType: checkpoint.F32, Shape: []int64{}},
		{Name: "model.layers.0.mlp.down_proj.weight_scale", DType: checkpoint.U8, Shape: []int64{2, 3}},
		{Name: "model.layers.1.mlp.down_proj.weight_scale", DType: checkpoint.F8E4M3, Shape: []int64{0, 4}},
		{Name: "model.layers.1.mlp.up_proj.weight", DType: checkpoint.F32, Shape: []int64{1, 1}},
	}
	data := map[string][]byte{
		specs[0].Name: binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.Inf(-1)))),
		specs[1].Name: {127, 0, 255, 254, 255, 1},
		specs[2].Name: {},
		specs[3].Name: binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.NaN()))), // a weight, not a scale
	}
	w, err := checkpoint.NewWriter(path, specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for next, _ := w.Next(); next != nil; next, _ = w.Next() {
		if _, err := w.Write(data[next.Name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range of("scale-nonfinite", lintPath(t, path)) {
		got[f.Tensor] = f.Message
	}
	if len(got) != 2 || !strings.HasPrefix(got[specs[0].Name], "1 of 1 scales are infinite") || !strings.HasPrefix(got[specs[1].Name], "2 of 6 scales are NaN, at [0,2] [1,1]") {
		t.Errorf("%q", got)
	}
}

// A tensor is read in pieces; positions are those in the whole tensor. Where NaN
// and infinity both occur the message says so, and lists the first of either.
func TestPositionsInALargeTensor(t *testing.T) {
	const rows, cols = 300, 256 // 76,800 elements
	path := filepath.Join(t.TempDir(), "model.safetensors")
	name := "model.layers.0.mlp.up_proj.weight_scale"
	raw := make([]byte, 4*rows*cols)
	set := func(i int, x float64) { binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(float32(x))) }
	for i := range rows * cols {
		set(i, 1)
	}
	set(65536+7, math.NaN())   // row 256
	set(299*cols, math.Inf(1)) // the last row
	w, err := checkpoint.NewWriter(path, []checkpoint.Spec{{Name: name, DType: checkpoint.F32, Shape: []int64{rows, cols}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	found := of("scale-nonfinite", lintPath(t, path))
	if len(found) != 1 || found[0].Tensor != name || found[0].Message != "2 of 76800 scales are NaN or infinite, at [256,7] [299,0]" {
		t.Errorf("%+v", found)
	}
}

// Warnings alone let the gate pass; one error among them does not.
func TestTheGateFailsOnErrorsOnly(t *testing.T) {
	warning, failure := Finding{ID: "structure", Severity: Warning}, Finding{ID: "layout", Severity: Error}
	for _, c := range []struct {
		name     string
		findings []Finding
		want     bool
	}{
		{"none", nil, false},
		{"warnings", []Finding{warning, warning}, false},
		{"an error", []Finding{failure}, true},
		{"an error behind warnings", []Finding{warning, failure}, true},
	} {
		if got := Failed(c.findings); got != c.want {
			t.Errorf("%s: failed is %v", c.name, got)
		}
	}
}
