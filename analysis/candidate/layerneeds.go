package candidate

import "quantscope/analysis/model"

// Need is a tensor that the forward pass reads.
type Need struct {
	At    model.Place
	Param string // weight, e_score_correction_bias, …
}

// LayerNeeds lists the tensors that the pass cannot do without in one layer, of a
// multi-token-prediction layer too: what joins it to the main model comes first.
func LayerNeeds(s *model.Spec, l *model.Layer) []Need {
	var list []Need
	for _, t := range l.Tensors(s) {
		list = append(list, Need{t.At, t.Param})
	}
	return list
}
