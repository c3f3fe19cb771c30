package views

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"quantscope/quant/topology"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

func rowLabels(g *Grid) (out []string) {
	for _, r := range g.Rows {
		out = append(out, r.Label)
	}
	return out
}

func TestGridOfTheDemo(t *testing.T) {
	g := NewGrid(viewstest.Demo().Tensors)
	if d := cmp.Diff([]string{"L1", "L2", "L3", "L4", "M5"}, rowLabels(g)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"gate", "up", "down"}, g.Parts); d != "" {
		t.Error(d)
	}
	if g.Dense != 0 || len(g.Cols) != 16 || g.Cols[7].Expert != 7 || g.Cols[7].Label != "7" {
		t.Errorf("%d dense of %d columns, the eighth is %+v", g.Dense, len(g.Cols), g.Cols[7])
	}
	// Layer 3 is the third row; expert 7's tensors stand together.
	if d := cmp.Diff([]int32{2*48 + 21, 2*48 + 22, 2*48 + 23}, g.At(2, 7)); d != "" {
		t.Error(d)
	}
}

func TestGridOfADenseModel(t *testing.T) {
	g := NewGrid(viewstest.Dense(3))
	var got [][3]string
	for _, c := range g.Cols {
		got = append(got, [3]string{c.Group, c.Label, c.Short})
	}
	want := [][3]string{
		{"attention", "q", "q"}, {"attention", "k", "k"}, {"attention", "v", "v"}, {"attention", "o", "o"},
		{"mlp", "gate", "g"}, {"mlp", "up", "u"}, {"mlp", "down", "d"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"L0", "L1", "L2"}, rowLabels(g)); d != "" {
		t.Error(d)
	}
	if g.Dense != 7 || g.Parts != nil {
		t.Errorf("%d dense columns, parts %v", g.Dense, g.Parts)
	}
}

func TestGridOfAMixedModel(t *testing.T) {
	tensors := viewstest.Mixed(3, 4)
	tower := sessions.Tensor{Name: "visual.blocks.0.attn.qkv", Role: topology.Role{Kind: topology.Vision, Layer: 0, Expert: -1, Projection: "qkv"}}
	g := NewGrid(append(tensors, tower))
	if d := cmp.Diff([]string{"V0", "D0", "L1", "L2", "–"}, rowLabels(g)); d != "" {
		t.Error(d)
	}
	last := g.Cols[g.Dense-1]
	if last.Group != "head" || last.Label != "head" || len(g.Cols)-g.Dense != 4 {
		t.Errorf("last dense column %+v, %d experts", last, len(g.Cols)-g.Dense)
	}
	// The head has no layer and a row of its own.
	if d := cmp.Diff([]int32{int32(len(tensors) - 1)}, g.At(4, g.Dense-1)); d != "" {
		t.Error(d)
	}
	if got := g.At(1, g.Dense); len(got) != 0 {
		t.Errorf("a dense layer has experts %v", got)
	}
	if g.At(-1, 0) != nil || g.At(9, 0) != nil {
		t.Error("there are tensors outside the grid")
	}
}

// anyTensors draws tensors with roles that no family has.
func anyTensors(most int) *rapid.Generator[[]sessions.Tensor] {
	tensor := rapid.Custom(func(t *rapid.T) sessions.Tensor {
		return sessions.Tensor{
			Name: rapid.SampledFrom([]string{"a", "model.layers.3.mlp.experts.7.up_proj", "模型.层.0.注意力.权重", "👨‍👩‍👧.weight", "b\x1b[31m", ""}).Draw(t, "name"),
			Rows: 4, Cols: 4, DType: "bf16",
			Role: topology.Role{
				Kind:       topology.Kind(rapid.IntRange(0, 12).Draw(t, "kind")),
				Layer:      rapid.IntRange(-1, 80).Draw(t, "layer"),
				Expert:     rapid.SampledFrom([]int{-1, 0, 1, 2, 7, 300, 1 << 40}).Draw(t, "expert"),
				Projection: rapid.SampledFrom([]string{"", "gate", "up", "down", "gate_up", "q", "投影", "x\x00y"}).Draw(t, "projection"),
				MTP:        rapid.Bool().Draw(t, "mtp"),
			},
		}
	})
	return rapid.Custom(func(t *rapid.T) []sessions.Tensor {
		out := rapid.SliceOfN(tensor, 0, most).Draw(t, "tensors")
		for i := range out {
			out[i].ID = i
		}
		return out
	})
}

func TestEveryTensorStandsInOneCell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tensors := anyTensors(60).Draw(t, "model")
		g := NewGrid(tensors)
		seen := make([]int, len(tensors))
		for r := range g.Rows {
			for c := range g.Cols {
				for _, id := range g.At(r, c) {
					seen[id]++
					if row, col, part := g.Place(int(id)); row != r || col != c || part < 0 || part > 0 && part >= len(g.Parts) {
						t.Fatalf("tensor %d of cell (%d, %d) says it is at (%d, %d, %d)", id, r, c, row, col, part)
					}
				}
			}
		}
		for id, n := range seen {
			if n != 1 {
				t.Fatalf("tensor %d stands in %d cells", id, n)
			}
		}
	})
}
