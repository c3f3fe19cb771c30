package candidate

import (
	"context"
	"testing"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/topology"
)

// What the pass reads: decoder layers, embedding, final norm and head; neither MTP
// layers, however they are numbered, nor towers, nor what no table knows.
func TestReads(t *testing.T) {
	spec := &model.Spec{Layers: make([]model.Layer, 2)}
	for _, c := range []struct {
		role topology.Role
		want bool
	}{
		{topology.Role{Kind: topology.Attention, Layer: 1, Expert: -1, Projection: "q"}, true},
		{topology.Role{Kind: topology.Router, Layer: 0, Expert: -1}, true},
		{topology.Role{Kind: topology.Embedding, Layer: -1, Expert: -1}, true},
		{topology.Role{Kind: topology.Head, Layer: -1, Expert: -1}, true},
		{topology.Role{Kind: topology.Norm, Layer: -1, Expert: -1, Projection: "norm"}, true},
		{topology.Role{Kind: topology.Expert, Layer: 2, Expert: 0, Projection: "up"}, false},
		{topology.Role{Kind: topology.MLP, Layer: 0, Expert: -1, Projection: "up", MTP: true}, false},
		{topology.Role{Kind: topology.Norm, Layer: 0, Expert: -1, Projection: "input_layernorm", MTP: true}, false},
		{topology.Role{Kind: topology.Attention, Layer: -1, Expert: -1, Projection: "q"}, false},
		{topology.Role{Kind: topology.MTPExtra, Layer: 1, Expert: -1, Projection: "eh_proj"}, false},
		{topology.Role{Kind: topology.Vision, Layer: 1, Expert: -1}, false},
		{topology.Role{Kind: topology.Unknown, Layer: 1, Expert: -1}, false},
	} {
		if got := reads(c.role, spec); got != c.want {
			t.Errorf("%+v: %v", c.role, got)
		}
	}
}

// Nothing that a pass asks for is missing from what is checked before: a pass over
// every family reads only what needs lists, biases aside.
func TestNeeds(t *testing.T) {
	for _, name := range []string{"llama_tied", "qwen3", "qwen3_moe", "glm4_moe", "deepseek_v3", "gemma3_text", "gpt_oss", "mixtral", "qwen2",
		"qwen3_next", "qwen3_5", "qwen3_5_moe", "step3p7", "deepseek_v2", "deepseek_v4", "gemma4_moe", "gemma4_ple"} {
		c := open(t, "../model/testdata/"+name)
		w := &watching{traced: source(t, c), asked: map[param]bool{}}
		text := make([]int32, 24)
		for i := range text {
			text[i] = int32(i * 5 % c.Arch.Vocab)
		}
		if _, err := model.Run(t.Context(), c.Arch, []model.Source{w}, [][]int32{text}, model.Options{Set: kernels.Best(), Threads: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := model.NewHead(t.Context(), c.Arch, w, model.Options{Set: kernels.Best()}); err != nil {
			t.Fatal(err)
		}
		listed := map[param]bool{{headAt, "weight"}: true}
		for _, n := range needs(c.Arch) {
			listed[n.param] = true
		}
		for p := range w.asked {
			if p.name != "bias" && !listed[p] {
				t.Errorf("%s: %s of %s is read and not checked", name, p.name, p.Place)
			}
		}
	}
}

// watching notes what is asked for.
type watching struct {
	traced
	asked map[param]bool
}

func (w *watching) Weight(ctx context.Context, p model.Place) (model.Weight, error) {
	w.asked[param{p, "weight"}] = true
	return w.traced.Weight(ctx, p)
}

func (w *watching) Vector(ctx context.Context, p model.Place, name string) ([]float32, error) {
	w.asked[param{p, name}] = true
	return w.traced.Vector(ctx, p, name)
}
