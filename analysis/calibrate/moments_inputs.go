package calibrate

import (
	"quantscope/analysis/model"
	"quantscope/quant/topology"
)

// InputOf is the input that a linear map reads, named by one place: q, k and v
// share one, which is called q's, in low-rank attention too, where q_a (or q) and
// kv_a read it; and so do gate and up, which is called gate's. In a layer of experts
// the router stands for all that read the normed states: gate and up of every
// expert, over all tokens, and of the shared expert. Every other map has its
// own: o, q_b, kv_b, and down, of an expert over the tokens routed to it.
//
// moe says whether the layer has experts; where it has, what stands as its MLP is
// taken for the shared expert.
func InputOf(p model.Place, moe bool) model.Place {
	switch p.Kind {
	case topology.Attention:
		switch p.Projection {
		case "k", "v", "qkv", "q_a", "kv_a", "qkv_a":
			p.Projection = "q"
		}
	case topology.MLP, topology.SharedExpert, topology.Expert:
		switch p.Projection {
		case "gate", "up", "gate_up":
			if moe || p.Kind != topology.MLP {
				return model.Place{Kind: topology.Router, Layer: p.Layer, Expert: -1}
			}
			p.Projection = "gate"
		}
	}
	return p
}

// Input is one input of a layer.
type Input struct {
	At model.Place // see InputOf
	N  int         // columns
	// told is the place of the first map that the forward pass tells it for.
	told model.Place
}

// Inputs are those of all linear maps of a layer, in the order in which the text
// goes through them; of the head of an MTP layer only where own says that it has one.
func Inputs(s *model.Spec, l *model.Layer, own bool) []Input {
	var out []Input
	add := func(k topology.Kind, expert int, projection string, n int) *Input {
		at := model.Place{Kind: k, Layer: l.Index, Expert: expert, Projection: projection}
		out = append(out, Input{at, n, at})
		return &out[len(out)-1]
	}
	if l.MTP {
		add(topology.MTPExtra, -1, "eh_proj", 2*s.Hidden)
	}
	q := add(topology.Attention, -1, "q", s.Hidden)
	if r := l.Attn.LowRank; r != nil {
		if r.Q > 0 {
			q.told.Projection = "q_a"
			add(topology.Attention, -1, "q_b", r.Q)
		}
		add(topology.Attention, -1, "kv_b", r.KV)
	}
	add(topology.Attention, -1, "o", l.Attn.Heads*l.Attn.VDim)
	if m := l.MoE; m != nil {
		add(topology.Router, -1, "", s.Hidden)
		for e := range m.Experts {
			add(topology.Expert, e, "down", m.Inner)
		}
		if m.Shared > 0 {
			add(topology.SharedExpert, -1, "down", m.Shared)
		}
	} else {
		add(topology.MLP, -1, "gate", s.Hidden)
		add(topology.MLP, -1, "down", l.MLP.Inner)
	}
	if l.MTP && own {
		add(topology.MTPExtra, -1, "shared_head.head", s.Hidden)
	}
	return out
}

// HeadInput is the input of the head, which stands where src has it.
func HeadInput(s *model.Spec, src model.Source) Input {
	at := model.HeadPlace(src)
	return Input{at, s.Hidden, at}
}

// OwnHead says whether a source has a head of its own in an MTP layer.
func OwnHead(src model.Source, l *model.Layer) bool {
	return l.MTP && src.Has(model.Place{Kind: topology.MTPExtra, Layer: l.Index, Expert: -1, Projection: "shared_head.head"}, "weight")
}
