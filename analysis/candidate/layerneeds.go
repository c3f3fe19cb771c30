package candidate

import (
	"quantscope/analysis/model"
	"quantscope/quant/topology"
)

// Need is a tensor that the forward pass reads of a layer.
type Need struct {
	At    model.Place
	Param string // weight, e_score_correction_bias, …
}

// LayerNeeds lists the tensors that the pass cannot do without in one layer, of a
// multi-token-prediction layer too: what joins it to the main model comes first.
func LayerNeeds(s *model.Spec, l *model.Layer) []Need {
	var list []Need
	if l.MTP {
		for _, p := range []string{"enorm", "hnorm", "eh_proj"} {
			list = append(list, Need{model.Place{Kind: topology.MTPExtra, Layer: l.Index, Expert: -1, Projection: p}, "weight"})
		}
	}
	for _, n := range needs(&model.Spec{Hidden: s.Hidden, Vocab: s.Vocab, Layers: []model.Layer{*l}}) {
		if n.Place != embeddingAt && n.Place != finalNormAt {
			list = append(list, Need{n.Place, n.name})
		}
	}
	return list
}
