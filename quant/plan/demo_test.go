package plan

import (
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

func openDemo(t testing.TB) (*checkpoint.Checkpoint, *topology.Model) {
	t.Helper()
	ck, err := demo.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ck.Close() })
	m, err := topology.FromCheckpoint(ck)
	if err != nil {
		t.Fatal(err)
	}
	return ck, m
}

// The demo has 4 MoE layers of 16 experts with matrices of 128×128, a dense layer
// of width 384 before them, attention of 128→128, 64, 64 and 128→128, a shared
// expert of width 128 a layer, a head of 1024×128, and an MTP layer that no recipe
// touches. A 128×128 matrix takes 16384·4/8 + 16384/16 + 4 = 9220 bytes in nvfp4.
func TestBuiltinsOnTheDemo(t *testing.T) {
	ck, m := openDemo(t)
	const (
		nvfp4 = 128*128/2 + 128*128/16 + 4
		dense = 3 * (384*128/2 + 384*128/16 + 4)
		// fp8 with an f32 scale a row
		expert    = 3 * (128*128 + 4*128)
		attention = 128*128 + 4*128 + 2*(64*128+4*64) + 128*128 + 4*128
		head      = 1024*128 + 4*1024
		int4      = 128*128/2 + 128*4 // a group is a row
		int4Dense = 2*(384*128/2+384*4) + 128*384/2 + 128*3*4
		int4Att   = 2*int4 + 2*(64*128/2+64*4)
	)
	for _, c := range []struct {
		name     string
		matrices []int
		bytes    []int64
	}{
		{"moe-nvfp4", []int{192}, []int64{192 * nvfp4}},
		{"mixed-nvfp4-fp8", []int{3 + 2*51, 5*4 + 2*51 + 1}, []int64{dense + 2*51*nvfp4, 5*attention + 2*17*expert + head}},
		{"int4-g128", []int{3 + 4*51 + 20}, []int64{int4Dense + 4*51*int4 + 5*int4Att}},
	} {
		f, err := recipe.Builtin(c.name, m)
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(ck, m, f, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Findings) > 0 || p.Err() != nil {
			t.Errorf("%s: %+v", c.name, p.Findings)
		}
		if len(p.Groups) != len(c.matrices) {
			t.Fatalf("%s: %d groups", c.name, len(p.Groups))
		}
		after := p.BytesBefore
		for g := range p.Groups {
			if p.Groups[g].Matrices != c.matrices[g] || p.Groups[g].BytesAfter != c.bytes[g] {
				t.Errorf("%s: group %d has %d matrices of %d bytes, want %d of %d", c.name, g, p.Groups[g].Matrices, p.Groups[g].BytesAfter, c.matrices[g], c.bytes[g])
			}
			after += p.Groups[g].BytesAfter - p.Groups[g].BytesBefore
		}
		if p.BytesBefore != 10380352 || p.BytesAfter != after {
			t.Errorf("%s: %d bytes to %d, want %d", c.name, p.BytesBefore, p.BytesAfter, after)
		}
	}
}
