package lint

import (
	"encoding/binary"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
)

// C24: two of four experts have another global scale in gate and up; the
// largest ratio is 10.
func TestGlobalScalesOfGateAndUp(t *testing.T) {
	found := lintPath(t, "../../quant/layout/testdata/cases/C24-gate-up-scales")
	differ := of("globals-differ", found)
	if len(differ) != 1 || !Failed(found) {
		t.Fatalf("%+v", found)
	}
	f := differ[0]
	if f.Severity != Error || f.File != "model.safetensors" || f.Tensor != "model.layers.3.mlp.experts.3.up_proj.weight_scale_2" {
		t.Errorf("%+v", f)
	}
	const want = "layer 3: in 2 of 4 blocks gate and up have different second-level scales: expert 3 up/gate 10, expert 1 up/gate 1.2547; "
	if !strings.HasPrefix(f.Message, want) {
		t.Errorf("%q, want %q…", f.Message, want)
	}
}

// writePacked writes matrices of 8×16 in compressed-tensors' layout with these
// global scales.
func writePacked(t *testing.T, globals map[string]float32) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	var specs []checkpoint.Spec
	data := map[string][]byte{}
	for _, module := range slices.Sorted(maps.Keys(globals)) {
		add := func(param string, d checkpoint.DType, bytes []byte, shape ...int64) {
			specs = append(specs, checkpoint.Spec{Name: module + param, DType: d, Shape: shape})
			data[module+param] = bytes
		}
		add(".weight_packed", checkpoint.U8, make([]byte, 64), 8, 8)
		add(".weight_scale", checkpoint.F8E4M3, make([]byte, 8), 8, 1)
		add(".weight_global_scale", checkpoint.F32, binary.LittleEndian.AppendUint32(nil, math.Float32bits(globals[module])), 1)
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
	return path
}

// compressed-tensors' global scales divide, so that ratios are the other way
// round. What has no partner, is no number, or is not fused says nothing.
func TestGlobalScalesThatDivide(t *testing.T) {
	const a, m = "model.layers.0.self_attn.", "model.layers.0.mlp."
	for _, c := range []struct {
		name    string
		globals map[string]float32
		want    string
	}{
		{"q, k and v", map[string]float32{a + "q_proj": 1000, a + "k_proj": 500, a + "v_proj": 4000, a + "o_proj": 7}, "layer 0: in 1 of 1 blocks q, k and v have different second-level scales: v/q 0.25; "},
		{"equal", map[string]float32{m + "gate_proj": 1000, m + "up_proj": 1000, m + "down_proj": 3}, ""},
		{"no partner", map[string]float32{m + "up_proj": 1000, m + "down_proj": 3}, ""},
		{"no number", map[string]float32{m + "gate_proj": float32(math.NaN()), m + "up_proj": 1000}, ""},
		{"zero", map[string]float32{m + "gate_proj": 1000, m + "up_proj": 0}, ""},
	} {
		found := of("globals-differ", lintPath(t, writePacked(t, c.globals)))
		switch {
		case c.want == "":
			if len(found) != 0 {
				t.Errorf("%s: %+v", c.name, found)
			}
		case len(found) != 1 || !strings.HasPrefix(found[0].Message, c.want):
			t.Errorf("%s: %+v, want %q…", c.name, found, c.want)
		}
	}
}
