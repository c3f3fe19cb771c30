package gguf

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// families are models of which there is what llama.cpp's converter made of them;
// testdata/families/make.py says how. In turns are the matrices whose value heads
// stand in llama.cpp's order, joined those of which each key head's rows were put
// together again.
var families = []struct {
	name             string
	inTurns, grouped int
}{
	{"qwen3_next", 0, 3}, {"qwen3_5", 15, 0}, {"qwen3_5_mtp", 15, 0}, {"qwen3_5_moe", 15, 0}, {"step3p7", 0, 0}, {"step3p7_mtp", 0, 0},
	{"deepseek_v2", 0, 0}, {"deepseek_v4", 0, 0}, {"gemma4_moe", 0, 0}, {"gemma4_ple", 0, 0},
}

// master is a checkpoint whose values are known by role.
type master map[topology.Role][]float32

// masterOf reads a golden checkpoint: linear maps by themselves, other tensors as lists
// of their values.
func masterOf(t *testing.T, name string) (master, *topology.Model) {
	t.Helper()
	ck, err := checkpoint.Open(filepath.Join("..", "..", "analysis", "model", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ck.Close() })
	top, err := topology.FromCheckpoint(ck)
	if err != nil {
		t.Fatal(err)
	}
	out, taken := master{}, map[string]bool{}
	for i := range top.Matrices {
		x := &top.Matrices[i]
		if x.Role.Kind == topology.Vision { // files of the text model have no towers
			continue
		}
		at := &ck.Tensors[top.MatrixTensor[i]]
		taken[at.Name] = true
		all := floats(t, ck, at.Name)[x.Offset/int64(at.DType.Bits()/8):]
		v := make([]float32, 0, x.Rows*x.Cols)
		for r := range x.Rows {
			for c := range x.Cols {
				v = append(v, all[int64(r)*x.RowStride+int64(c)*x.ColStride])
			}
		}
		out[x.Role] = v
	}
	for i := range ck.Tensors {
		if x := &ck.Tensors[i]; !taken[x.Name] && top.Roles[i].Kind != topology.Vision {
			if x.DType == checkpoint.I64 {
				out[top.Roles[i]] = integers(t, ck, x)
				continue
			}
			out[top.Roles[i]] = floats(t, ck, x.Name)
		}
	}
	return out, top
}

func integers(t *testing.T, ck *checkpoint.Checkpoint, x *checkpoint.Tensor) []float32 {
	t.Helper()
	raw := make([]byte, x.Size)
	if err := ck.ReadAt(t.Context(), x, 0, raw); err != nil {
		t.Fatal(err)
	}
	out := make([]float32, x.Elements())
	for i := range out {
		out[i] = float32(raw[8*i])
	}
	return out
}

// withMTP adds the MTP layer that make.py makes of the model's own tensors.
func (v master) withMTP(name string) {
	at := func(k topology.Kind, layer int, projection, param string) topology.Role {
		return topology.Role{Kind: k, Layer: layer, Expert: -1, Projection: projection, Param: param}
	}
	put := func(r topology.Role, x []float32) { r.MTP = true; v[r] = x }
	beside := func(a, b []float32, rows int) (out []float32) {
		for r := range rows {
			out = append(out, a[r*len(a)/rows:][:len(a)/rows]...)
			out = append(out, b[r*len(b)/rows:][:len(b)/rows]...)
		}
		return out
	}
	norm := func(i int) []float32 { return v[at(topology.Norm, i, "input_layernorm", "weight")] }
	switch name {
	case "qwen3_5_mtp":
		for r, x := range v {
			if r.Layer == 3 {
				r.Layer = 4
				put(r, x)
			}
		}
		put(at(topology.MTPExtra, -1, "fc", "weight"), beside(v[at(topology.Attention, 0, "o", "weight")], v[at(topology.Attention, 1, "o", "weight")], 64))
		put(at(topology.MTPExtra, -1, "pre_fc_norm_embedding", "weight"), norm(0))
		put(at(topology.MTPExtra, -1, "pre_fc_norm_hidden", "weight"), norm(1))
		put(at(topology.MTPExtra, -1, "norm", "weight"), norm(2))
	case "step3p7_mtp":
		for r, x := range v {
			mlp := r.Kind == topology.MLP && r.Layer == 0
			if r.Layer == 1 && (r.Kind == topology.Attention || r.Kind == topology.Norm) || mlp {
				r.Layer = 3
				put(r, x)
			}
		}
		put(at(topology.MTPExtra, 3, "eh_proj", "weight"), beside(v[at(topology.Attention, 0, "o", "weight")], v[at(topology.Attention, 2, "o", "weight")], 64))
		put(at(topology.MTPExtra, 3, "enorm", "weight"), norm(0))
		put(at(topology.MTPExtra, 3, "hnorm", "weight"), norm(1))
		put(at(topology.MTPExtra, 3, "shared_head.norm", "weight"), norm(2))
		put(at(topology.MTPExtra, 3, "shared_head.head", "weight"), v[at(topology.Head, -1, "", "weight")])
	}
}

// valuesOf reads a weight as a forward pass does.
func valuesOf(t *testing.T, m *Model, w *Weight) []float32 {
	t.Helper()
	if w.Vector {
		v, err := m.ReadVector(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	l, err := m.Load(t.Context(), w, kernels.Best(), make([]byte, w.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	v := make([]float32, w.Rows*w.Cols)
	for c := 0; c < w.Cols; c += kernels.PanelDepth { // the panels that a product takes
		n := min(kernels.PanelDepth, w.Cols-c)
		panel := make([]float32, w.Rows*n)
		if err := l.panel(panel, 0, w.Rows, c, n); err != nil {
			t.Fatal(err)
		}
		for r := range w.Rows {
			copy(v[r*w.Cols+c:][:n], panel[r*n:])
		}
	}
	return v
}

// Every tensor of the newest families is there by its role, with the checkpoint's own
// bits, however llama.cpp's converter turned it about. Rates of decay are kept as
// −exp(A_log) in f32, so that their logarithm is within the rounding of that.
func TestFamiliesByRole(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			want, top := masterOf(t, strings.TrimSuffix(f.name, "_mtp"))
			want.withMTP(f.name)
			m, err := OpenModel(filepath.Join("testdata", "families", f.name+".gguf"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = m.Close() })
			for r, v := range want {
				w, ok := m.Find(r)
				if !ok {
					t.Errorf("%+v is missing", r)
					continue
				}
				got := valuesOf(t, m, w)
				if len(got) != len(v) {
					t.Errorf("%+v has %d values, want %d", r, len(got), len(v))
					continue
				}
				for i := range v {
					if near := r.Projection == "a_log" && math.Abs(float64(got[i])-float64(v[i])) < 3e-7*max(1, math.Abs(float64(v[i]))); got[i] != v[i] && !near {
						t.Errorf("%+v, stored as %s: value %d is %v, want %v", r, m.Stored(w), i, got[i], v[i])
						break
					}
				}
			}
			if len(m.Weights) != len(want) {
				for i, r := range m.Topology.Roles {
					a, b := r, r
					a.MTP, b.MTP = true, false
					_, x := want[a]
					_, y := want[b]
					if !x && !y {
						t.Errorf("%s is of no role in the checkpoint: %+v", m.Weights[i].Name, r)
					}
				}
			}
			sameSizes(t, &top.Config, &m.Topology.Config)
			orders := map[string]int{}
			for _, o := range m.RowOrders() {
				orders[o.ID] = o.Tensors
			}
			if orders["value-head-order"] != f.inTurns || orders["qkvz-order"] != f.grouped || orders["head-order"] != 0 {
				t.Errorf("orders of rows: %v", orders)
			}
		})
	}
}

// sameSizes wants the metadata to amount to what the checkpoint's config says.
func sameSizes(t *testing.T, a, b *topology.Config) {
	t.Helper()
	if a.Hidden != b.Hidden || a.Layers != b.Layers || a.Heads != b.Heads || a.KVHeads != b.KVHeads || a.Vocab != b.Vocab || a.Experts != b.Experts || a.TopK != b.TopK ||
		a.Tied != b.Tied || a.QKRope != b.QKRope || a.RopeScaling() != b.RopeScaling() || len(b.Notes) > 0 {
		t.Errorf("config: %+v\nof the checkpoint: %+v", *b, *a)
	}
	for i := range a.Layers {
		q, kv, dim := a.AttentionSizes(i)
		q2, kv2, dim2 := b.AttentionSizes(i)
		moe, _ := a.MoELayer(i)
		moe2, _ := b.MoELayer(i)
		if a.LayerType(i) != b.LayerType(i) || a.Window(i) != b.Window(i) || a.CompressRate(i) != b.CompressRate(i) || a.SharedKV(i) != b.SharedKV(i) || moe != moe2 || q != q2 || kv != kv2 || dim != dim2 && a.KVLoRA == 0 {
			t.Errorf("layer %d: %s, %d heads, %d of keys, of %d channels, experts %t, shares %t; in the checkpoint %s, %d, %d, %d, %t, %t",
				i, b.LayerType(i), q2, kv2, dim2, moe2, b.SharedKV(i), a.LayerType(i), q, kv, dim, moe, a.SharedKV(i))
		}
	}
}

// The tensors that hold a linear map, by the names that imatrices and lists of types go
// by, are those of the file, and every matrix of a layer in the file is one of them.
func TestFamiliesByName(t *testing.T) {
	for _, f := range families {
		_, top := masterOf(t, strings.TrimSuffix(f.name, "_mtp"))
		file := open(t, filepath.Join("testdata", "families", f.name+".gguf"))
		named := map[string]bool{}
		for i := range top.Matrices {
			r := top.Matrices[i].Role
			if r.Kind == topology.Vision || r.Kind == topology.Embedding {
				continue
			}
			names := LinearNames(r, &top.Config)
			if len(names) == 0 {
				t.Errorf("%s: %+v has no name", f.name, r)
			}
			for _, n := range names {
				named[n] = true
				if _, ok := file.Lookup(n); !ok && r.Projection != "kv_b" { // split by converters
					t.Errorf("%s: %+v is %s, which the file does not have", f.name, r, n)
				}
			}
		}
		for i := range file.Tensors {
			x := &file.Tensors[i]
			layer, module, _ := split(x.Name)
			_, known := named[x.Name]
			small := module == "ssm_conv1d" || module == "attn_k_b" || module == "attn_v_b" || module == "ffn_gate_tid2eid" || strings.HasSuffix(module, "_compressor_ape")
			if len(x.Shape) > 1 && layer >= 0 && layer < top.Config.Layers && !known && !small {
				t.Errorf("%s: %s is no linear map of the checkpoint", f.name, x.Name)
			}
		}
	}
}
