package gguf

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/topology"
)

// dequantized are all values of a stored tensor, by the decoder of whole tensors.
func dequantized(t *testing.T, m *Model, name string) []float32 {
	t.Helper()
	x, ok := m.Lookup(name)
	if !ok {
		t.Fatalf("no %s", name)
	}
	out := make([]float32, x.Elements())
	if err := m.Decode(context.Background(), x, 0, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// expanded are all values of a weight, by panels of a product, and by rows.
func expanded(t *testing.T, m *Model, w *Weight) []float32 {
	t.Helper()
	l, err := m.Load(context.Background(), w, kernels.Best(), make([]byte, w.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, w.Rows*w.Cols)
	if err := kernels.Best().ExpandRows(out, l.Operand(), 0); err != nil {
		t.Fatal(err)
	}
	// From the middle of a piece on, three rows at a time.
	some := make([]float32, 3*w.Cols)
	for r := 1; r+3 <= w.Rows; r += 2 {
		if err := kernels.Best().ExpandRows(some, l.Operand(), r); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(some, out[r*w.Cols:(r+3)*w.Cols]) {
			t.Fatalf("%s: rows from %d on are others alone", w.Name, r)
		}
	}
	// In the panels of a product, with the unit matrix.
	one := make([]float32, w.Cols*w.Cols)
	for i := range w.Cols {
		one[i*w.Cols+i] = 1
	}
	product := make([]float32, len(out))
	err = kernels.Best().GEMM(kernels.Dense{Rows: w.Cols, Cols: w.Rows, Stride: w.Rows, Data: product},
		kernels.DenseOperand(kernels.Dense{Rows: w.Cols, Cols: w.Cols, Stride: w.Cols, Data: one}), l.Operand().T(), kernels.GEMMOptions{Alpha: 1, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	for r := range w.Rows {
		for c := range w.Cols {
			if product[c*w.Rows+r] != out[r*w.Cols+c] {
				t.Fatalf("%s: element %d, %d is %g in a product and %g alone", w.Name, r, c, product[c*w.Rows+r], out[r*w.Cols+c])
			}
		}
	}
	return out
}

var decoded = []kernels.GGUFType{
	kernels.GGUFF32, kernels.GGUFF16, kernels.GGUFBF16, kernels.GGUFQ4_0, kernels.GGUFQ4_1, kernels.GGUFQ5_0, kernels.GGUFQ5_1, kernels.GGUFQ8_0,
	kernels.GGUFQ2_K, kernels.GGUFQ3_K, kernels.GGUFQ4_K, kernels.GGUFQ5_K, kernels.GGUFQ6_K, kernels.GGUFIQ4NL, kernels.GGUFIQ4XS,
}

// Weights of every type are what the whole tensor decodes to: plain, with rows in
// pairs, one expert of a stack.
func TestPanels(t *testing.T) {
	for _, kind := range decoded {
		rng := rand.New(rand.NewPCG(11, uint64(kind)))
		x := &fixture{}
		x.add(rng, "plain", kind, 5, 512).add(rng, "pairs", kind, 12, 256).add(rng, "stack", kind, 3, 4, 768)
		f, err := Open(writeFile(t, x.bytes()))
		if err != nil {
			t.Fatal(err)
		}
		m := &Model{File: f}
		plain, err := m.whole("plain", 0)
		if err != nil {
			t.Fatal(err)
		}
		pairs, _ := m.whole("pairs", 1)
		if err := m.pair(&pairs, &f.Tensors[1], 2); err != nil {
			t.Fatal(err)
		}
		stack, err := m.stack(2, 3, func(int) string { return "expert" })
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range []*Weight{&plain, &pairs, &stack[1]} {
			_, w.bytes = m.extent(w, &w.pieces[0])
		}
		all := dequantized(t, m, "plain")
		if got := expanded(t, m, &plain); !slices.Equal(got, all) {
			t.Errorf("%s: a plain matrix", kind)
		}
		all = dequantized(t, m, "stack")
		if got := expanded(t, m, &stack[1]); !slices.Equal(got, all[4*768:8*768]) {
			t.Errorf("%s: an expert of a stack", kind)
		}
		// Two heads of six rows: of a stored head a b c d e f the halves are a c e and b d f.
		all = dequantized(t, m, "pairs")
		var want []float32
		for _, r := range []int{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11} {
			want = append(want, all[r*256:][:256]...)
		}
		if got := expanded(t, m, &pairs); !slices.Equal(got, want) {
			t.Errorf("%s: rows in pairs", kind)
		}
		rows := []int32{11, 0, 5}
		got := make([]float32, 3*256)
		if err := m.ReadRows(context.Background(), &pairs, rows, got); err != nil {
			t.Fatal(err)
		}
		for i, r := range rows {
			if !slices.Equal(got[i*256:][:256], want[r*256:][:256]) {
				t.Errorf("%s: row %d", kind, r)
			}
		}
		_ = f.Close()
	}
}

// kv_b of split files is k_b, turned, and v_b, head by head.
func TestJoinedHalves(t *testing.T) {
	const heads, nope, vdim, latent = 3, 32, 64, 288 // a panel and a bit
	rng := rand.New(rand.NewPCG(5, 6))
	x := &fixture{}
	x.add(rng, "k", kernels.GGUFQ8_0, heads, latent, nope).add(rng, "v", kernels.GGUFQ4_0, heads, vdim, latent)
	f := open(t, writeFile(t, x.bytes()))
	m := &Model{File: f}
	w, err := m.join("kv_b", 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range w.pieces {
		_, n := m.extent(&w, &w.pieces[i])
		w.bytes += n
	}
	k, v := dequantized(t, m, "k"), dequantized(t, m, "v")
	var want []float32
	for h := range heads {
		for r := range nope {
			for c := range latent {
				want = append(want, k[(h*latent+c)*nope+r])
			}
		}
		want = append(want, v[h*vdim*latent:(h+1)*vdim*latent]...)
	}
	if got := expanded(t, m, &w); !slices.Equal(got, want) {
		t.Error("kv_b is not k_b and v_b")
	}
	if types := m.Types(&w); len(types) != 2 {
		t.Errorf("types %v", types)
	}
	if err := m.ReadRows(context.Background(), &w, []int32{0}, make([]float32, latent)); err == nil {
		t.Error("rows of two tensors")
	}
}

func TestVectors(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	x := llamaFixture(kernels.GGUFF16).add(rng, "blk.0.attn_q.bias", kernels.GGUFF32, 64)
	m, err := x.model(t)
	if err != nil {
		t.Fatal(err)
	}
	w, ok := m.Find(topology.Role{Kind: topology.Attention, Layer: 0, Expert: -1, Projection: "q", Param: "bias"})
	if !ok {
		t.Fatal("no bias")
	}
	got, err := m.ReadVector(context.Background(), w)
	if err != nil {
		t.Fatal(err)
	}
	all := dequantized(t, m, "blk.0.attn_q.bias")
	for i := range got { // four heads of 16
		if h, in := i/16, i%16; got[i] != all[16*h+2*(in%8)+in/8] {
			t.Errorf("bias %d", i)
		}
	}
}

// What is asked for and is not there is an error, not a panic.
func TestReadingOutside(t *testing.T) {
	m, err := llamaFixture(kernels.GGUFQ8_0).model(t)
	if err != nil {
		t.Fatal(err)
	}
	find := func(k topology.Kind) *Weight {
		w, ok := m.Find(topology.Role{Kind: k, Layer: -1, Expert: -1, Projection: map[topology.Kind]string{topology.Norm: "norm"}[k], Param: "weight"})
		if !ok {
			t.Fatalf("no %s", k)
		}
		return w
	}
	embedding, norm := find(topology.Embedding), find(topology.Norm)
	ctx := context.Background()
	stop, cancel := context.WithCancel(ctx)
	cancel()
	for what, err := range map[string]error{
		"a row too many":    m.ReadRows(ctx, embedding, []int32{8}, make([]float32, 64)),
		"a row before":      m.ReadRows(ctx, embedding, []int32{-1}, make([]float32, 64)),
		"too little memory": m.ReadRows(ctx, embedding, []int32{1}, make([]float32, 63)),
		"rows of a vector":  m.ReadRows(ctx, norm, []int32{0}, make([]float32, 64)),
		"a stopped read":    m.ReadRows(stop, embedding, []int32{1}, make([]float32, 64)),
		"a matrix as vector": func() error {
			_, err := m.ReadVector(ctx, embedding)
			return err
		}(),
		"a vector as matrix": func() error {
			_, err := m.Load(ctx, norm, kernels.Best(), make([]byte, norm.Bytes()))
			return err
		}(),
		"a short buffer": func() error {
			_, err := m.Load(ctx, embedding, kernels.Best(), make([]byte, 1))
			return err
		}(),
	} {
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
