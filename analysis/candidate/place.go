package candidate

import (
	"fmt"

	"quantscope/analysis/model"
	"quantscope/quant/topology"
)

// param is one parameter of a place: weight, bias, ….
type param struct {
	model.Place
	name string
}

func placeOf(r topology.Role) model.Place {
	return model.Place{Kind: r.Kind, Layer: r.Layer, Expert: r.Expert, Projection: r.Projection}
}

var (
	embeddingAt = model.Place{Kind: topology.Embedding, Layer: -1, Expert: -1}
	finalNormAt = model.Place{Kind: topology.Norm, Layer: -1, Expert: -1, Projection: "norm"}
	headAt      = model.Place{Kind: topology.Head, Layer: -1, Expert: -1}
)

// reads says whether the forward pass reads tensors of a role: what is in the
// decoder layers, embeddings and what goes with them, the final norm and the head.
func reads(r topology.Role, spec *model.Spec) bool {
	if r.Layer >= 0 && r.Layer < len(spec.Layers) && spec.Layers[r.Layer].Attn.Borrows {
		switch r.Projection { // stored in some checkpoints, and of no use to anyone
		case "k", "v", "k_norm":
			return false
		}
	}
	switch r.Kind {
	case topology.Embedding, topology.Head, topology.Norm, topology.Mixing:
		return !r.MTP && r.Layer < len(spec.Layers)
	case topology.Attention, topology.MLP, topology.Expert, topology.SharedExpert, topology.Router:
		return !r.MTP && r.Layer >= 0 && r.Layer < len(spec.Layers)
	}
	return false
}

// need is a tensor that the forward pass cannot do without. rows and cols are 0
// where the architecture does not say.
type need struct {
	param
	rows, cols int // of a vector: cols are its values, rows is 0
}

// needs lists what the decoder layers need, and what stands beside them.
func needs(s *model.Spec) []need {
	var list []need
	for _, t := range s.Tensors() {
		if t.At != headAt { // where none is stored the embedding is
			list = append(list, need{param{t.At, t.Param}, t.Rows, t.Cols})
		}
	}
	for i := range s.Layers {
		for _, t := range s.Layers[i].Tensors(s) {
			list = append(list, need{param{t.At, t.Param}, t.Rows, t.Cols})
		}
	}
	return list
}

// Compatible says why two candidates cannot go through one forward pass or be
// parts of one model: the first size that differs, with both numbers.
func Compatible(a, b *Candidate) error {
	x, y := a.Arch, b.Arch
	if x == nil || y == nil {
		return fmt.Errorf("candidate: %s and %s: one has no architecture", a.Label, b.Label)
	}
	for _, s := range []struct {
		what string
		x, y int
	}{{"hidden size", x.Hidden, y.Hidden}, {"residual streams", max(x.Streams, 1), max(y.Streams, 1)}, {"layers", len(x.Layers), len(y.Layers)}, {"vocabulary", x.Vocab, y.Vocab}} {
		if s.x != s.y {
			return fmt.Errorf("candidate: %s and %s differ: %s is %d and %d", a.Label, b.Label, s.what, s.x, s.y)
		}
	}
	if x.Norm.PlusOne != y.Norm.PlusOne {
		return fmt.Errorf("candidate: %s and %s differ: one multiplies by a norm's weights, the other by 1 and the weights", a.Label, b.Label)
	}
	return nil
}
