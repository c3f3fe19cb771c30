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
	headAt      = model.Place{Kind: topology.Head, Layer: -1, Expert: -1}
	finalNormAt = model.Place{Kind: topology.Norm, Layer: -1, Expert: -1, Projection: "norm"}
)

// reads says whether the forward pass reads tensors of a role: what is in the
// decoder layers, the embedding, the final norm and the head.
func reads(r topology.Role, spec *model.Spec) bool {
	switch r.Kind {
	case topology.Embedding, topology.Head, topology.Norm:
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

// needs lists what an architecture needs.
func needs(s *model.Spec) []need {
	var list []need
	matrix := func(p model.Place, rows, cols int) { list = append(list, need{param{p, "weight"}, rows, cols}) }
	vector := func(p model.Place, n int) { list = append(list, need{param{p, "weight"}, 0, n}) }
	matrix(embeddingAt, s.Vocab, s.Hidden)
	vector(finalNormAt, s.Hidden)
	for i := range s.Layers {
		l := &s.Layers[i]
		at := func(k topology.Kind, projection string) model.Place {
			return model.Place{Kind: k, Layer: l.Index, Expert: -1, Projection: projection}
		}
		for _, norm := range []string{l.In, l.PostAttn, l.PreMLP, l.PostMLP} {
			if norm != "" {
				vector(at(topology.Norm, norm), s.Hidden)
			}
		}
		a := &l.Attn
		if lr := a.LowRank; lr != nil {
			if lr.Q > 0 {
				matrix(at(topology.Attention, "q_a"), lr.Q, s.Hidden)
				matrix(at(topology.Attention, "q_b"), a.Heads*a.Dim, lr.Q)
			} else {
				matrix(at(topology.Attention, "q"), a.Heads*a.Dim, s.Hidden)
			}
			matrix(at(topology.Attention, "kv_a"), lr.KV+lr.Rope, s.Hidden)
			matrix(at(topology.Attention, "kv_b"), a.Heads*(lr.Nope+a.VDim), lr.KV)
			if lr.Q > 0 {
				vector(at(topology.Norm, "q_a_layernorm"), lr.Q)
			}
			vector(at(topology.Norm, "kv_a_layernorm"), lr.KV)
		} else {
			matrix(at(topology.Attention, "q"), a.Heads*a.Dim, s.Hidden)
			matrix(at(topology.Attention, "k"), a.KVHeads*a.Dim, s.Hidden)
			matrix(at(topology.Attention, "v"), a.KVHeads*a.VDim, s.Hidden)
		}
		matrix(at(topology.Attention, "o"), s.Hidden, a.Heads*a.VDim)
		if a.QKNorm {
			vector(at(topology.Norm, "q_norm"), a.Dim)
			vector(at(topology.Norm, "k_norm"), a.Dim)
		}
		if a.Sinks {
			vector(at(topology.Attention, "sinks"), a.Heads)
		}
		gated := func(kind topology.Kind, expert, inner int) {
			for _, p := range []string{"gate", "up", "down"} {
				place := model.Place{Kind: kind, Layer: l.Index, Expert: expert, Projection: p}
				if p == "down" {
					matrix(place, s.Hidden, inner)
				} else {
					matrix(place, inner, s.Hidden)
				}
			}
		}
		if l.MoE == nil {
			gated(topology.MLP, -1, l.MLP.Inner)
			continue
		}
		matrix(at(topology.Router, ""), l.MoE.Experts, s.Hidden)
		if l.MoE.Correction {
			list = append(list, need{param{at(topology.Router, ""), "e_score_correction_bias"}, 0, l.MoE.Experts})
		}
		for e := range l.MoE.Experts {
			gated(topology.Expert, e, l.MoE.Inner)
		}
		if l.MoE.Shared > 0 {
			gated(topology.SharedExpert, -1, l.MoE.Shared)
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
	}{{"hidden size", x.Hidden, y.Hidden}, {"layers", len(x.Layers), len(y.Layers)}, {"vocabulary", x.Vocab, y.Vocab}} {
		if s.x != s.y {
			return fmt.Errorf("candidate: %s and %s differ: %s is %d and %d", a.Label, b.Label, s.what, s.x, s.y)
		}
	}
	if x.Norm.PlusOne != y.Norm.PlusOne {
		return fmt.Errorf("candidate: %s and %s differ: one multiplies by a norm's weights, the other by 1 and the weights", a.Label, b.Label)
	}
	return nil
}
