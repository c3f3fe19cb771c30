package sessions

// books know what of a session goes on in runs of several events (measurements,
// calibrations, gates, looks at biases, hot tiers) while its events are read in order,
// and what fits them.
type books struct {
	yards  yardBook
	calibs calibBook
	gates  gateBook
	biases biasBook
	tiers  tierBook
}

// place gives an event of such a run its index, and is an error where it does not fit
// what came before. tensors is how many the session has. Other events are left alone.
func (b *books) place(e *stored, tensors int) error {
	switch {
	case e.gate != nil:
		return b.gates.place(e)
	case e.bias != nil:
		return b.biases.place(e)
	case e.tier != nil:
		return b.tiers.place(e)
	}
	if err := b.yards.place(e); err != nil {
		return err
	}
	return b.calibs.place(e, tensors)
}

// takeRuns puts what an event says of such runs into a batch. The event's index must
// be that of the state.
func (b *Batch) takeRuns(e *stored) {
	b.takeYard(e)
	b.takeCalib(e)
	b.takeGates(e)
	b.takeBias(e)
	b.takeTier(e)
}
