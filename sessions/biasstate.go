package sessions

import "slices"

// applyBiases takes in what a batch says of looks at biases.
func (s *State) applyBiases(b Batch) {
	for _, r := range b.BiasesBegun {
		if r.Run == len(s.Biases) {
			s.Biases = append(s.Biases, &BiasRun{Setup: r.Setup, AtUS: r.AtUS})
		}
	}
	for _, f := range b.BiasesFound {
		if f.Run >= 0 && f.Run < len(s.Biases) {
			s.Biases[f.Run].add(f)
		}
	}
	for _, e := range b.BiasesEnded {
		if e.Run >= 0 && e.Run < len(s.Biases) {
			s.Biases[e.Run].End = e.End
		}
	}
}

// add takes in what was found.
func (b *BiasRun) add(f BiasFound) {
	switch {
	case f.Weights != nil:
		b.Weights = append(b.Weights, f.Weights)
	case f.Row != nil:
		b.Rows = append(b.Rows, f.Row)
	case f.Divergence != nil:
		b.Divergences = append(b.Divergences, f.Divergence)
	}
}

// cloneBiases copies what applyBiases changes.
func cloneBiases(bs []*BiasRun) []*BiasRun {
	out := make([]*BiasRun, len(bs))
	for i, b := range bs {
		c := *b
		c.Weights, c.Rows, c.Divergences = slices.Clone(b.Weights), slices.Clone(b.Rows), slices.Clone(b.Divergences)
		out[i] = &c
	}
	return out
}

// takeBias puts what an event says of biases into a batch. The event's index must be
// that of State.Biases.
func (b *Batch) takeBias(e *stored) {
	d := e.bias
	if d == nil {
		return
	}
	switch e.Kind {
	case EventBias:
		b.BiasesBegun = append(b.BiasesBegun, BiasBegun{Run: e.biasRun, AtUS: e.AtUS, Setup: d.Setup})
	case EventBiasFound:
		b.BiasesFound = append(b.BiasesFound, BiasFound{Run: e.biasRun, Weights: d.Weights, Row: d.Row, Divergence: d.Divergence})
	case EventBiasEnd:
		b.BiasesEnded = append(b.BiasesEnded, BiasEnded{Run: e.biasRun, End: d.End})
	}
}

// takeBias brings the state up to date with one event.
func (s *State) takeBias(e *stored) {
	if e.bias != nil {
		var b Batch
		b.takeBias(e)
		s.applyBiases(b)
	}
}
