package tier

// Trace is a workload: which experts each token chose in each layer.
type Trace struct {
	Name    string
	Kind    string // recorded, zipf, file
	Layers  []int
	Experts int
	TopK    int
	Tokens  int
	Phases  []Phase
	// Choices are token by token, layer by layer, TopK of each.
	Choices []uint16
}

// Of are the experts that a token chose in a layer, by its index in Layers.
func (t *Trace) Of(token, layer int) []uint16 {
	at := (token*len(t.Layers) + layer) * t.TopK
	return t.Choices[at : at+t.TopK]
}
