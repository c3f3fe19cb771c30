package kernels

import (
	"fmt"
	"math"
	"testing"
)

// deltaLayer is layer 0 of a reference model up to its output projection, which
// transformers has computed as well.
type deltaLayer struct {
	tensors map[string]tensor
	t       testing.TB
}

func (l deltaLayer) floats(name string) []float32 {
	x := need(l.t, l.tensors, name)
	if x.DType == "F32" {
		return x.f32()
	}
	out := make([]float32, len(x.data)/2)
	for i, b := range x.u16() {
		out[i] = BF16ToF32(b)
	}
	return out
}

// Sizes of both models.
var (
	goldenDelta = DeltaShape{KeyHeads: 2, ValueHeads: 4, KeyDim: 16, ValueDim: 16}
	goldenConv  = Convolution{Channels: 128, Taps: 4}
)

// project is x by the named weights.
func (l deltaLayer) project(s Set, x []float32, name string) (y []float32, width int) {
	w := need(l.t, l.tensors, name).matrix(l.t)
	n := len(x) / w.Cols
	out, err := NewDense(n, w.Rows)
	if err == nil {
		err = s.GEMM(out, DenseOperand(Dense{n, w.Cols, w.Cols, x}), StoredOperand(w).T(), GEMMOptions{})
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return out.Data, w.Rows
}

// columns picks columns of rows that are width wide.
func columns(x []float32, width int, pick []int) (out []float32) {
	for ; len(x) > 0; x = x[width:] {
		for _, c := range pick {
			out = append(out, x[c])
		}
	}
	return out
}

// span is n numbers from first on.
func span(first, n int) (out []int) {
	for i := range n {
		out = append(out, first+i)
	}
	return out
}

// projections gives [q k v], z, b and a, each with all heads side by side.
func (l deltaLayer) projections(s Set, x []float32) (qkv, z, b, a []float32) {
	if _, grouped := l.tensors["in_proj_qkvz.weight"]; !grouped {
		qkv, _ = l.project(s, x, "in_proj_qkv.weight")
		z, _ = l.project(s, x, "in_proj_z.weight")
		b, _ = l.project(s, x, "in_proj_b.weight")
		a, _ = l.project(s, x, "in_proj_a.weight")
		return qkv, z, b, a
	}
	all, width := l.project(s, x, "in_proj_qkvz.weight")
	both, few := l.project(s, x, "in_proj_ba.weight")
	// A key head's rows: 16 of q, 16 of k, 32 of v, 32 of z; 2 of b, 2 of a.
	pick := func(from, n int) []int { return append(span(from, n), span(96+from, n)...) }
	return columns(all, width, append(append(pick(0, 16), pick(16, 16)...), pick(32, 32)...)), columns(all, width, pick(64, 32)),
		columns(both, few, []int{0, 1, 4, 5}), columns(both, few, []int{2, 3, 6, 7})
}

// run takes tokens through the layer's kernels; check sees what is between.
func (l deltaLayer) run(s Set, ids []int32, st *DeltaState, conv *ConvolutionState, check func(name string, got []float32)) {
	embed, norm := l.floats("embed_tokens.weight"), l.floats("input_layernorm.weight")
	width := len(norm)
	x := make([]float32, len(ids)*width)
	for i, id := range ids {
		row := embed[int(id)*width:][:width]
		s.MulScaled(x[i*width:], row, norm, float32(1/math.Sqrt(s.SumSquares(row)/float64(width)+1e-6)), true)
	}
	n, d := len(ids), goldenDelta
	qkv, z, beta, g := l.projections(s, x)
	check("x", x)
	check("conv_in", qkv)
	check("z", z)
	taps := make([]float32, 128*4)
	transposeRef(taps, 128, l.floats("conv1d.weight"), 4, 128, 4)
	mixed := make([]float32, len(qkv))
	if err := s.Convolve(goldenConv, qkv, taps, n, conv, mixed, 2); err != nil {
		l.t.Fatal(err)
	}
	check("conv_out", mixed)
	q, k, v := columns(mixed, 128, span(0, 32)), columns(mixed, 128, span(32, 32)), columns(mixed, 128, span(64, 64))
	s.L2Norm(q, d.KeyDim, 1e-6, 0.25)
	s.L2Norm(k, d.KeyDim, 1e-6, 1)
	repeated := append(append(span(0, 16), span(0, 16)...), append(span(16, 16), span(16, 16)...)...)
	check("q", columns(q, 32, repeated))
	check("k", columns(k, 32, repeated))
	check("v", v)
	DeltaGates(g, beta, l.floats("A_log"), l.floats("dt_bias"))
	check("g", g)
	check("beta", beta)
	core := make([]float32, len(v))
	if err := s.Delta(d, q, k, v, g, beta, n, st, core, 2); err != nil {
		l.t.Fatal(err)
	}
	check("core", core)
	s.GatedNorm(z, core, l.floats("norm.weight"), 1e-6)
	check("gated", z)
	out, _ := l.project(s, z, "out_proj.weight")
	check("out", out)
}

// Everything between a layer's input and its output as transformers has it, and
// the state after 1, 16, 48, 64 and 200 tokens.
func TestDeltaGoldens(t *testing.T) {
	for _, name := range []string{"qwen3_next", "qwen3_5"} {
		l := deltaLayer{golden(t, "golden/delta_"+name+".safetensors"), t}
		ids, long := need(t, l.tensors, "input_ids").i32(), need(t, l.tensors, "long.input_ids").i32()
		for _, s := range Available() {
			compared := 0
			near := func(what string, got, want []float32) {
				t.Helper()
				if len(got) != len(want) {
					t.Fatalf("%s %s: %s has %d values, want %d", name, s.Name, what, len(got), len(want))
				}
				for i, w := range want {
					if math.Abs(float64(got[i]-w)) > 1e-4 {
						t.Fatalf("%s %s: %s %d is %v, want %v", name, s.Name, what, i, got[i], w)
					}
				}
				compared++
			}
			l.run(s, ids[:16], nil, nil, func(what string, got []float32) { near(what, got, l.floats(what)) })
			for _, c := range []struct {
				ids  []int32
				n    int
				name string
			}{{ids, 1, "state_1"}, {ids, 16, "state_16"}, {ids, 48, "state_48"}, {long, 64, "long.state_64"}, {long, 200, "long.state_200"}} {
				var st DeltaState
				var conv ConvolutionState
				for at := 0; at < c.n; at += 50 {
					l.run(s, c.ids[at:min(at+50, c.n)], &st, &conv, func(string, []float32) {})
				}
				want := l.floats(c.name)
				for j := range goldenDelta.ValueHeads {
					got := make([]float32, 256)
					for i, x := range st.matrix(j) {
						got[i] = float32(x)
					}
					near(fmt.Sprintf("%s of head %d", c.name, j), got, want[j*256:][:256])
				}
			}
			if compared != 12+5*4 {
				t.Errorf("%s %s: compared %d tensors", name, s.Name, compared)
			}
		}
	}
}
