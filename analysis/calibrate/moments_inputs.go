package calibrate

import (
	"quantscope/analysis/model"
	"quantscope/quant/topology"
)

// Input is one input of a layer.
type Input struct {
	At model.Place // see model.InputOf
	N  int         // columns
	// told is the place of the first map that the forward pass tells it for.
	told model.Place
}

// Inputs are those of all linear maps of a layer, in the order in which the text
// goes through them; of the head of an MTP layer only where own says that it has one.
func Inputs(s *model.Spec, l *model.Layer, own bool) []Input {
	var out []Input
	have := map[model.Place]bool{}
	for _, t := range l.Tensors(s) {
		if t.Rows > 0 && !t.Table && !have[t.Input] {
			have[t.Input] = true
			out = append(out, Input{t.Input, t.Cols, t.Told})
		}
	}
	if l.MTP && own {
		at := model.Place{Kind: topology.MTPExtra, Layer: l.Index, Expert: -1, Projection: "shared_head.head"}
		out = append(out, Input{at, s.Hidden, at})
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
