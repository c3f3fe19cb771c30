package topology

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// cover marks each element that a model's matrices address and fails on one
// that is addressed twice or lies outside its tensor.
func cover(t rapid.TB, m *Model) [][]bool {
	t.Helper()
	seen := make([][]bool, len(m.Tensors))
	for k, mat := range m.Matrices {
		i := m.MatrixTensor[k]
		ts := &m.Tensors[i]
		if mat.Tensor != ts.Name {
			t.Fatalf("%s is in %s, not in %s", mat.Name, mat.Tensor, ts.Name)
		}
		if seen[i] == nil {
			n, _ := elements(ts.Shape)
			seen[i] = make([]bool, n)
		}
		size := floatSize(ts.DType)
		if mat.Offset%size != 0 {
			t.Fatalf("%s: offset %d is inside an element", mat.Name, mat.Offset)
		}
		for r := range mat.Rows {
			for c := range mat.Cols {
				at := mat.Offset/size + int64(r)*mat.RowStride + int64(c)*mat.ColStride
				if at < 0 || at >= int64(len(seen[i])) || seen[i][at] {
					t.Fatalf("%s: element (%d, %d) at %d is outside or taken", mat.Name, r, c, at)
				}
				seen[i][at] = true
			}
		}
	}
	return seen
}

func whole(t rapid.TB, m *Model, seen [][]bool) {
	t.Helper()
	for i, s := range seen {
		for at, ok := range s {
			if !ok {
				t.Fatalf("%s: no matrix holds element %d", m.Tensors[i].Name, at)
			}
		}
	}
}

// The matrices of every model cover their tensors exactly once, in storage
// order, under names that are unique.
func TestMatricesCover(t *testing.T) {
	for _, name := range fixtures(t) {
		m := resolveFixture(t, name)
		whole(t, m, cover(t, m))
		names := map[string]bool{}
		last := -1
		for k, mat := range m.Matrices {
			if names[mat.Name] {
				t.Errorf("%s: %s stands twice", name, mat.Name)
			}
			names[mat.Name] = true
			if m.MatrixTensor[k] < last {
				t.Errorf("%s: %s is out of storage order", name, mat.Name)
			}
			last = m.MatrixTensor[k]
		}
	}
}

func TestStackedCoverProperty(t *testing.T) {
	layouts := []struct {
		family                   string
		transposed, interleaving bool
	}{{"qwen3_5_moe", false, false}, {"gpt_oss", true, true}, {"llama4", true, false}, {"qwen3_vl_moe", true, false}, {"step3p5", false, false}}
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.SampledFrom(layouts).Draw(t, "family")
		experts := rapid.Int64Range(1, 5).Draw(t, "experts")
		hidden, inner := rapid.Int64Range(1, 6).Draw(t, "hidden"), rapid.Int64Range(1, 6).Draw(t, "inner")
		joined, down := []int64{experts, 2 * inner, hidden}, []int64{experts, hidden, inner}
		if l.transposed {
			joined, down = []int64{experts, hidden, 2 * inner}, []int64{experts, inner, hidden}
		}
		dtype := rapid.SampledFrom([]string{"BF16", "F16", "F32", "F64", "F8_E4M3"}).Draw(t, "dtype")
		suffix := rapid.SampledFrom([]string{"", ".weight"}).Draw(t, "suffix")
		m, err := FromConfig(fmt.Appendf(nil, `{"model_type":%q,"hidden_size":%d,"moe_intermediate_size":%d,"num_experts":%d,"num_hidden_layers":1}`, l.family, hidden, inner, experts),
			[]Named{{"model.layers.0.mlp.experts.gate_up_proj" + suffix, dtype, joined}, {"model.layers.0.mlp.experts.down_proj" + suffix, dtype, down}})
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Unresolved) > 0 || len(m.Matrices) != int(3*experts) {
			t.Fatalf("%d matrices, unresolved %v", len(m.Matrices), m.Unresolved)
		}
		whole(t, m, cover(t, m))
		for k, mat := range m.Matrices {
			rows, cols := inner, hidden
			if mat.Role.Projection == "down" {
				rows, cols = hidden, inner
			}
			if int64(mat.Rows) != rows || int64(mat.Cols) != cols {
				t.Fatalf("%s is %d × %d, want %d × %d", mat.Name, mat.Rows, mat.Cols, rows, cols)
			}
			if k < int(2*experts) && mat.Role.Projection != []string{"gate", "up"}[k%2] {
				t.Fatalf("matrix %d is %s of expert %d", k, mat.Role.Projection, mat.Role.Expert)
			}
		}
	})
}

// Where single elements stand, written out by hand for each layout.
func TestStackedAddresses(t *testing.T) {
	tests := []struct {
		family string
		shape  []int64
		at     map[string]int64 // matrix and (row, column) to the element's index
	}{
		// [2 experts, 2·3, 4]: gate rows 0-2, up rows 3-5.
		{"qwen3_5_moe", []int64{2, 6, 4}, map[string]int64{"[0].gate 1 2": 1*4 + 2, "[0].up 1 2": (3+1)*4 + 2, "[1].gate 2 3": 24 + 2*4 + 3, "[1].up 0 0": 24 + 12}},
		// [2, 4, 2·3]: gate in even columns, up in odd ones.
		{"gpt_oss", []int64{2, 4, 6}, map[string]int64{"[0].gate 1 2": 2*6 + 2*1, "[0].up 1 2": 2*6 + 2*1 + 1, "[1].gate 2 3": 24 + 3*6 + 4, "[1].up 0 0": 24 + 1}},
		// [2, 4, 2·3]: gate in columns 0-2, up in 3-5.
		{"llama4", []int64{2, 4, 6}, map[string]int64{"[0].gate 1 2": 2*6 + 1, "[0].up 1 2": 2*6 + 3 + 1, "[1].gate 2 3": 24 + 3*6 + 2, "[1].up 0 0": 24 + 3}},
		// gpt_oss with its experts turned round: gate in even rows.
		{"gpt_oss", []int64{2, 6, 4}, map[string]int64{"[0].gate 1 2": 2*4 + 2, "[0].up 1 2": 3*4 + 2}},
	}
	for _, tt := range tests {
		const tensor = "model.layers.0.mlp.experts.gate_up_proj"
		m, err := FromConfig(fmt.Appendf(nil, `{"model_type":%q,"hidden_size":4,"moe_intermediate_size":3,"num_local_experts":2}`, tt.family), []Named{{tensor, "BF16", tt.shape}})
		if err != nil {
			t.Fatal(err)
		}
		byName := map[string]Matrix{}
		for _, mat := range m.Matrices {
			byName[mat.Name] = mat
		}
		for where, want := range tt.at {
			var half string
			var r, c int64
			if _, err := fmt.Sscan(where, &half, &r, &c); err != nil {
				t.Fatal(err)
			}
			mat, ok := byName[tensor+half]
			if !ok {
				t.Fatalf("%s %v: no matrix %s in %v", tt.family, tt.shape, half, m.Matrices)
			}
			if got := mat.Offset/2 + r*mat.RowStride + c*mat.ColStride; got != want {
				t.Errorf("%s %v: %s is element %d, want %d", tt.family, tt.shape, where, got, want)
			}
		}
	}
}

// A layout is decided by shapes first, then by the family; else it is refused.
func TestOrientation(t *testing.T) {
	const joined, down = "model.layers.0.mlp.experts.gate_up_proj", "model.layers.0.mlp.experts.down_proj"
	norm := Named{"model.layers.0.input_layernorm.weight", "BF16", []int64{16}}
	tests := []struct {
		name, config string
		tensors      []Named
		matrices     int
		transposed   bool   // of the last tensor
		unresolved   string // part of the reason; of the last tensor
	}{
		{name: "no config, shape decides", tensors: []Named{norm, {down, "BF16", []int64{2, 16, 8}}}, matrices: 2},
		{name: "no config, transposed", tensors: []Named{norm, {down, "BF16", []int64{2, 8, 16}}}, matrices: 2, transposed: true},
		{name: "no config, square", tensors: []Named{norm, {down, "BF16", []int64{2, 16, 16}}}, unresolved: "fits both"},
		{name: "no config, square with a neighbour", tensors: []Named{norm, {joined, "BF16", []int64{2, 32, 16}}, {down, "BF16", []int64{2, 16, 16}}}, matrices: 6},
		{name: "no config, no sizes at all", tensors: []Named{{down, "BF16", []int64{2, 16, 8}}}, unresolved: "fits both"},
		{name: "no config, joined and transposed", tensors: []Named{norm, {joined, "BF16", []int64{2, 16, 24}}}, unresolved: "interleaved in others"},
		{name: "unknown family", config: `{"model_type":"novel_moe","hidden_size":16,"moe_intermediate_size":16}`, tensors: []Named{{down, "BF16", []int64{2, 16, 16}}}, unresolved: `"novel_moe"`},
		{name: "square, family decides", config: `{"model_type":"gpt_oss","hidden_size":16,"intermediate_size":16,"num_local_experts":2}`, tensors: []Named{{down, "BF16", []int64{2, 16, 16}}}, matrices: 2, transposed: true},
		{name: "square, other family", config: `{"model_type":"mixtral","hidden_size":16,"intermediate_size":16,"num_local_experts":2}`, tensors: []Named{{down, "BF16", []int64{2, 16, 16}}}, matrices: 2},
		{name: "shape against family", config: `{"model_type":"gpt_oss","hidden_size":16,"intermediate_size":8,"num_local_experts":2}`, tensors: []Named{{down, "BF16", []int64{2, 16, 8}}}, matrices: 2},
		{name: "neither", config: `{"model_type":"mixtral","hidden_size":16,"intermediate_size":8,"num_local_experts":2}`, tensors: []Named{{down, "BF16", []int64{2, 16, 9}}}, unresolved: "[16, 8]"},
		{name: "odd outputs", config: `{"model_type":"mixtral","hidden_size":16}`, tensors: []Named{{joined, "BF16", []int64{2, 9, 16}}}, unresolved: "gate and up"},
		{name: "too many", config: `{"model_type":"mixtral","hidden_size":16}`, tensors: []Named{{down, "BF16", []int64{5000, 16, 1}}}, unresolved: "5000 experts"},
		{name: "packed", config: `{"model_type":"mixtral","hidden_size":16}`, tensors: []Named{{down, "U8", []int64{2, 16, 4}}}},
		{name: "empty", config: `{"model_type":"mixtral","hidden_size":16}`, tensors: []Named{{down, "BF16", []int64{0, 16, 4}}}},
		{name: "conv1D by shape", config: `{"model_type":"novel","hidden_size":16}`, tensors: []Named{{"transformer.h.0.mlp.c_fc.weight", "F32", []int64{16, 64}}}, matrices: 1, transposed: true},
		{name: "conv1D square, family", config: `{"model_type":"gpt2","n_embd":16}`, tensors: []Named{{"transformer.h.0.attn.c_proj.weight", "F32", []int64{16, 16}}}, matrices: 1, transposed: true},
		{name: "conv1D square, linear family", config: `{"model_type":"qwen","hidden_size":16}`, tensors: []Named{{"transformer.h.0.attn.c_proj.weight", "F32", []int64{16, 16}}}, matrices: 1},
		{name: "conv1D square, unknown", config: `{"model_type":"novel","hidden_size":16}`, tensors: []Named{{"transformer.h.0.attn.c_proj.weight", "F32", []int64{16, 16}}}, unresolved: "fits both"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := FromConfig([]byte(tt.config), tt.tensors)
			if err != nil {
				t.Fatal(err)
			}
			if len(m.Matrices) != tt.matrices {
				t.Errorf("%d matrices, want %d", len(m.Matrices), tt.matrices)
			}
			whole(t, m, cover(t, m))
			if tt.unresolved != "" {
				if len(m.Unresolved) != 1 || !strings.Contains(m.Unresolved[0].Message, tt.unresolved) || m.Unresolved[0].Tensor != tt.tensors[len(tt.tensors)-1].Name {
					t.Errorf("unresolved %q, want %q", m.Unresolved, tt.unresolved)
				}
				return
			}
			if len(m.Unresolved) > 0 {
				t.Errorf("unresolved %q", m.Unresolved)
			}
			if tt.matrices > 0 {
				if last := m.Matrices[len(m.Matrices)-1]; (last.ColStride != 1) != tt.transposed {
					t.Errorf("strides %d, %d; transposed %t wanted", last.RowStride, last.ColStride, tt.transposed)
				}
			}
		})
	}
}
