package model

// Part is one of the two parts of a layer that add to the hidden states.
type Part int

// Parts of a layer, in their order.
const (
	MixerPart Part = iota // attention, or what stands in its place
	MLPPart               // the MLP, or the experts with the shared one
)

func (p Part) String() string {
	if p == MixerPart {
		return "attention"
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
