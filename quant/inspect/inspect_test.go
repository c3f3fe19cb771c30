package inspect

import (
	"math"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/topology"
)

func openDemo(t *testing.T) (*checkpoint.Checkpoint, *topology.Model) {
	t.Helper()
	c, err := demo.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	m, err := topology.FromCheckpoint(c)
	if err != nil {
		t.Fatal(err)
	}
	return c, m
}

// The figures are those of the demo's own page: 4 MoE layers and an MTP layer of
// 16 experts, 240 expert matrices of 128×128, 10,380,352 bytes of tensors.
func TestHeadersOfTheDemo(t *testing.T) {
	c, m := openDemo(t)
	r, err := Headers(c, m, true)
	if err != nil {
		t.Fatal(err)
	}
	if r.Family != "glm4_moe" || r.MTPLayers != 1 || r.Experts != 16 || r.TopK != 2 || r.Bytes != 10380352 {
		t.Errorf("%+v", r)
	}
	if r.Targets.Matrices != 240 || r.Targets.Params != 240*128*128 {
		t.Errorf("targets %+v", r.Targets)
	}
	if len(r.List) != r.Tensors || len(r.Unknown) != 0 || len(r.Findings) != 0 {
		t.Errorf("%d listed of %d, unknown %v, findings %v", len(r.List), r.Tensors, r.Unknown, r.Findings)
	}
	for _, shares := range [][]Share{r.Kinds, r.DTypes} {
		var bytes int64
		var tensors int
		for _, s := range shares {
			bytes += s.Bytes
			tensors += s.Tensors
		}
		if bytes != r.Bytes || tensors != r.Tensors {
			t.Errorf("shares sum to %d bytes of %d tensors, not %d of %d", bytes, tensors, r.Bytes, r.Tensors)
		}
	}
}

// NVFP4 stores 4 bits a weight, 8 a block of 16 and 32 a matrix.
func TestEstimates(t *testing.T) {
	c, m := openDemo(t)
	r, err := Headers(c, m, false)
	if err != nil {
		t.Fatal(err)
	}
	const n = 240 * 128 * 128
	want := map[string]int64{
		"as stored": 10380352,
		"nvfp4":     10380352 - 2*n + n/2 + n/16 + 4*240,
		"mxfp4":     10380352 - 2*n + n/2 + n/32,
	}
	for _, e := range r.Estimates {
		if w, ok := want[e.Format]; ok && e.Bytes != w {
			t.Errorf("%s: %d bytes, want %d", e.Format, e.Bytes, w)
		}
		delete(want, e.Format)
		for i, ranks := range []int64{2, 4, 8} {
			if e.PerRank[i]*ranks < e.Bytes || e.PerRank[i] > e.Bytes {
				t.Errorf("%s on %d devices: %d bytes each of %d", e.Format, ranks, e.PerRank[i], e.Bytes)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("not estimated: %v", want)
	}
}

func TestReadValues(t *testing.T) {
	c, err := checkpoint.Open("../../cmd/quantscope/testdata/cases/C06-dtypes/dtypes.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	v, err := ReadValues(t.Context(), c, "fp8.weight")
	if err != nil {
		t.Fatal(err)
	}
	if v.NaN != 2 || v.Inf != 0 || v.Zeros != 2 || *v.Min != -448 || *v.Max != 448 || math.Abs(*v.Mean*14-370.03125) > 1e-9 {
		t.Errorf("%+v", v)
	}
	if len(v.Positions) != 2 || v.Positions[0] != 9 || v.Positions[1] != 10 {
		t.Errorf("non-finite at %v, want [9 10]", v.Positions)
	}
	if _, err := ReadValues(t.Context(), c, "gone"); err == nil {
		t.Error("a tensor that is not there is read")
	}
	if v, err := ReadValues(t.Context(), c, "empty.mid"); err != nil || v.Min != nil || len(v.First) != 0 {
		t.Errorf("an empty tensor: %+v %v", v, err)
	}
}
