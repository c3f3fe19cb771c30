package model

// Part is one of the parts of a layer that add to the hidden states.
type Part int

// Parts of a layer, in their order.
const (
	MixerPart    Part = iota // attention, or what stands in its place
	MLPPart                  // the MLP, or the experts with the shared one
	PerLayerPart             // what a layer makes of embeddings of its own, where it has any
)

func (p Part) String() string {
	switch p {
	case MixerPart:
		return "attention"
	case PerLayerPart:
		return "per-layer embeddings"
	}
	return "mlp"
}

// tellAdds calls Options.Adds for all candidates that this one stands for.
func (r *run) tellAdds(layer int, p Part, y []float32, rows int) {
	if len(r.sharing) == 0 { // outside a Pass there is one
		r.o.Adds(r.candidate, layer, p, y, rows)
	}
	for _, c := range r.sharing {
		r.o.Adds(c, layer, p, y, rows)
	}
}
