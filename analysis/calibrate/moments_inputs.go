package calibrate

import "quantscope/analysis/model"

// Input is one input of a layer.
type Input struct {
	At model.Place // see model.InputOf
	N  int         // columns
	// told is the place of the first map that the forward pass tells it for.
	told model.Place
	// times is how many rows a token has: parts of what a map reads, of which the
	// moments are then those of all together.
	times int
}

// Inputs are those of all linear maps of a layer, in the order in which the text
// goes through them; of the head of an MTP layer only where own says that it has one.
func Inputs(s *model.Spec, l *model.Layer, own bool) []Input {
	var out []Input
	have := map[model.Place]bool{}
	for _, t := range l.Tensors(s) {
		if t.Linear() && !have[t.Input] {
			have[t.Input] = true
			out = append(out, Input{t.Input, t.Cols, t.Told, max(t.Times, 1)})
		}
	}
	if l.MTP && own {
		at := l.OwnHead()
		out = append(out, Input{at, s.Hidden, at, 1})
	}
	return out
}

// HeadInput is the input of the head, which stands where src has it.
func HeadInput(s *model.Spec, src model.Source) Input {
	at := model.HeadPlace(src)
	return Input{at, s.Hidden, at, 1}
}

// OwnHead says whether a source has a head of its own in an MTP layer.
func OwnHead(src model.Source, l *model.Layer) bool {
	return l.MTP && src.Has(l.OwnHead(), "weight")
}
