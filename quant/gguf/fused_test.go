package gguf

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
)

// matrix reads a whole weight by rows and in panels, which must agree.
func matrix(t *testing.T, m *Model, name string) []float32 {
	t.Helper()
	i := slices.IndexFunc(m.Weights, func(w Weight) bool { return w.Name == name })
	if i < 0 {
		t.Fatalf("%s has no %s", m.Path, name)
	}
	w := &m.Weights[i]
	if w.Vector {
		x, err := m.ReadVector(context.Background(), w)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	rows := make([]int32, w.Rows)
	for r := range rows {
		rows[r] = int32(r)
	}
	got := make([]float32, w.Rows*w.Cols)
	if err := m.ReadRows(context.Background(), w, rows, got); err != nil {
		t.Fatal(err)
	}
	for _, set := range kernels.Available() {
		l, err := m.Load(context.Background(), w, set, make([]byte, w.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		panel := make([]float32, len(got))
		if err := l.panel(panel, 0, w.Rows, 0, w.Cols); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got, panel, sameFloat) {
			t.Errorf("%s, %s: rows and panels differ", name, set.Name)
		}
	}
	return got
}

// sameFloat is equality of bits; any NaN is like any other.
func sameFloat(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// Every type that has a decoder goes through a model: by rows, in panels by every set
// of kernels, and with rows of q and k put back.
func TestEveryTypeInAModel(t *testing.T) {
	n := 0
	for kind := range kernels.GGUFType(48) {
		if block, _ := kind.Block(); !kind.Decodes() || block == 1 && kind != kernels.GGUFF32 && kind != kernels.GGUFF16 && kind != kernels.GGUFBF16 {
			continue
		}
		n++
		rng := rand.New(rand.NewPCG(8, uint64(kind)))
		x := llamaFixture(kernels.GGUFF16)
		x.tensors = nil
		x.keys["llama.embedding_length"], x.keys["llama.feed_forward_length"], x.keys["llama.rope.dimension_count"] = uint32(256), uint32(512), uint32(64)
		x.add(rng, "token_embd.weight", kind, 8, 256).add(rng, "output_norm.weight", kernels.GGUFF32, 256)
		x.add(rng, "blk.0.attn_q.weight", kind, 256, 256).add(rng, "blk.0.attn_k.weight", kind, 128, 256).add(rng, "blk.0.ffn_down.weight", kind, 256, 512)
		m, err := x.model(t)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		for i := range m.Weights {
			w := &m.Weights[i]
			got := matrix(t, m, w.Name)
			stored := make([]float32, len(got))
			if err := m.Decode(context.Background(), &m.Tensors[w.pieces[0].tensor], 0, stored); err != nil {
				t.Fatal(err)
			}
			if h := w.pieces[0].heads; h > 0 {
				for r := range w.Rows {
					if !slices.EqualFunc(got[r*w.Cols:][:w.Cols], stored[paired(r, w.Rows/h)*w.Cols:][:w.Cols], sameFloat) {
						t.Errorf("%s: row %d of %s", kind, r, w.Name)
						break
					}
				}
			} else if !slices.EqualFunc(got, stored, sameFloat) {
				t.Errorf("%s: %s", kind, w.Name)
			}
		}
	}
	if n < 26 {
		t.Errorf("%d types", n)
	}
}

func put(x *fixture, name string, kind kernels.GGUFType, data []byte, shape ...int) {
	x.tensors = append(x.tensors, fixtureTensor{name, kind, shape, data})
}

// take removes a tensor and gives its data.
func (x *fixture) take(name string) []byte {
	i := slices.IndexFunc(x.tensors, func(t fixtureTensor) bool { return t.name == name })
	d := x.tensors[i].data
	x.tensors = slices.Delete(x.tensors, i, i+1)
	return d
}

// A file whose q, k and v are one tensor is the model of the file that has three.
func TestFusedQKV(t *testing.T) {
	for _, biased := range []bool{false, true} {
		apart, fused := llamaFixture(kernels.GGUFQ8_0), llamaFixture(kernels.GGUFQ8_0)
		if biased {
			for _, x := range []*fixture{apart, fused} {
				for name, n := range map[string]int{"q": 64, "k": 32, "v": 32} {
					var b []byte
					for i := range n {
						b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(n*100+i)))
					}
					put(x, "blk.0.attn_"+name+".bias", kernels.GGUFF32, b, n)
				}
			}
			put(fused, "blk.0.attn_qkv.bias", kernels.GGUFF32, bytes.Join([][]byte{fused.take("blk.0.attn_q.bias"), fused.take("blk.0.attn_k.bias"), fused.take("blk.0.attn_v.bias")}, nil), 128)
		}
		put(fused, "blk.0.attn_qkv.weight", kernels.GGUFQ8_0, bytes.Join([][]byte{fused.take("blk.0.attn_q.weight"), fused.take("blk.0.attn_k.weight"), fused.take("blk.0.attn_v.weight")}, nil), 128, 64)
		a, err := apart.model(t)
		if err != nil {
			t.Fatal(err)
		}
		f, err := fused.model(t)
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Weights) != len(f.Weights) {
			t.Errorf("%d weights, want %d", len(f.Weights), len(a.Weights))
		}
		for i := range a.Weights {
			name := a.Weights[i].Name
			if !slices.Equal(matrix(t, f, name), matrix(t, a, name)) {
				t.Errorf("%s differs", name)
			}
		}
	}
}

// mixtralFixture is the llama fixture with two experts.
func mixtralFixture(kind kernels.GGUFType) *fixture {
	x := llamaFixture(kind)
	x.keys["llama.expert_count"], x.keys["llama.expert_used_count"] = uint32(2), uint32(1)
	put(x, "blk.0.ffn_gate_inp.weight", kernels.GGUFF32, make([]byte, 4*2*64), 2, 64)
	for name, shape := range map[string][2]int{"gate": {96, 64}, "up": {96, 64}, "down": {64, 96}} {
		d := x.take("blk.0.ffn_" + name + ".weight")
		put(x, "blk.0.ffn_"+name+"_exps.weight", kind, append(slices.Clone(d), d[len(d)/2:]...), 1)
		last := &x.tensors[len(x.tensors)-1]
		last.data, last.shape = append(slices.Clone(d), slices.Concat(d[len(d)/2:], d[:len(d)/2])...), []int{2, shape[0], shape[1]}
	}
	return x
}

// Gate and up of all experts in one tensor are those of two, with scales beside.
func TestFusedGateUp(t *testing.T) {
	apart, fused := mixtralFixture(kernels.GGUFQ8_0), mixtralFixture(kernels.GGUFQ8_0)
	gate, up := fused.take("blk.0.ffn_gate_exps.weight"), fused.take("blk.0.ffn_up_exps.weight")
	n := len(gate) / 2
	put(fused, "blk.0.ffn_gate_up_exps.weight", kernels.GGUFQ8_0, slices.Concat(gate[:n], up[:n], gate[n:], up[n:]), 2, 192, 64)
	two := append(binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.5)), binary.LittleEndian.AppendUint32(nil, math.Float32bits(3))...)
	for _, name := range []string{"gate_exps", "up_exps", "down_exps"} {
		put(apart, "blk.0.ffn_"+name+".scale", kernels.GGUFF32, two, 2)
	}
	put(fused, "blk.0.ffn_gate_up_exps.scale", kernels.GGUFF32, two, 2)
	put(fused, "blk.0.ffn_down_exps.scale", kernels.GGUFF32, two, 2)
	put(fused, "blk.0.ffn_down_exps.input_scale", kernels.GGUFF32, two, 2)
	plain, err := mixtralFixture(kernels.GGUFQ8_0).model(t)
	if err != nil {
		t.Fatal(err)
	}
	a, err := apart.model(t)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fused.model(t)
	if err != nil {
		t.Fatal(err)
	}
	for i := range plain.Weights {
		name := plain.Weights[i].Name
		want := matrix(t, plain, name)
		if e := strings.Index(name, "experts."); e >= 0 {
			s := map[byte]float32{'0': 0.5, '1': 3}[name[e+len("experts.")]]
			for k := range want {
				want[k] *= s
			}
		}
		if !slices.Equal(matrix(t, a, name), want) || !slices.Equal(matrix(t, f, name), want) {
			t.Errorf("%s differs", name)
		}
	}
}

// A scale of one value goes over the whole tensor, and its matrix is no longer one
// that can be multiplied as it is stored.
func TestScaleBeside(t *testing.T) {
	x := llamaFixture(kernels.GGUFF16)
	put(x, "blk.0.attn_q.scale", kernels.GGUFF32, binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.25)), 1)
	put(x, "blk.0.attn_q.input_scale", kernels.GGUFF32, binary.LittleEndian.AppendUint32(nil, math.Float32bits(7)), 1)
	m, err := x.model(t)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := llamaFixture(kernels.GGUFF16).model(t)
	if err != nil {
		t.Fatal(err)
	}
	const name = "model.layers.0.self_attn.q_proj.weight"
	want := matrix(t, plain, name)
	for k := range want {
		want[k] *= 0.25
	}
	if !slices.Equal(matrix(t, m, name), want) {
		t.Error("the scale is not applied")
	}
	i := slices.IndexFunc(m.Weights, func(w Weight) bool { return w.Name == name })
	if !m.Weights[i].Scaled() || m.Weights[i].pieces[0].heads != 4 {
		t.Errorf("%+v", m.Weights[i])
	}
}
