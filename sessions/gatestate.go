package sessions

import (
	"slices"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
)

// applyGates takes in what a batch says of runs of gates.
func (s *State) applyGates(b Batch) {
	for _, g := range b.GatesBegun {
		if g.Run == len(s.Gates) {
			s.Gates = append(s.Gates, newGateRun(g.Setup, g.Settings, g.AtUS))
		}
	}
	run := func(i int) *GateRun {
		if i < 0 || i >= len(s.Gates) {
			return &GateRun{} // of which nobody hears
		}
		return s.Gates[i]
	}
	for _, o := range b.GatesOpened {
		if g := run(o.Run); o.Arm >= 0 && o.Arm < len(g.Opened) {
			g.Opened[o.Arm], g.End = o.Identity, nil // it was gone on with
		}
	}
	for _, a := range b.GatesAnswered {
		run(a.Run).add(a.Result)
	}
	for _, m := range b.GatesMetered {
		run(m.Run).meter(m.Meter)
	}
	for _, e := range b.GatesEnded {
		run(e.Run).End = e.End
	}
}

func newGateRun(setup *gates.Setup, settings map[string]string, atUS int64) *GateRun {
	g := &GateRun{Setup: setup, Settings: settings, AtUS: atUS}
	g.Opened = make([]*chat.Identity, len(setup.Arms))
	return g
}

// add takes in an answer. One that was asked again stands where it came last, and
// the older one is gone.
func (g *GateRun) add(r *gates.Result) {
	if g.at == nil {
		g.index()
	}
	if i, again := g.at[r.Key()]; again {
		g.Results = slices.Concat(g.Results[:i], g.Results[i+1:]) // others may hold the old list
		g.index()
	}
	g.at[r.Key()] = len(g.Results)
	g.Results = append(g.Results, r)
	g.End = nil
}

func (g *GateRun) index() {
	g.at = make(map[gates.Key]int, len(g.Results))
	for i, r := range g.Results {
		g.at[r.Key()] = i
	}
}

// meter takes in what an arm told of itself.
func (g *GateRun) meter(m *gates.Meter) {
	kept := make([]*gates.Meter, 0, len(g.Meters)+1)
	for _, o := range g.Meters {
		if o.Arm != m.Arm {
			kept = append(kept, o)
		}
	}
	g.Meters, g.End = append(kept, m), nil
}

// Answers are how many a run has, and will have.
func (g *GateRun) Answers() (done, of int) { return len(g.Results), g.Setup.Answers() }

// cloneGates copies what applyGates changes.
func cloneGates(gs []*GateRun) []*GateRun {
	out := make([]*GateRun, len(gs))
	for i, g := range gs {
		out[i] = g.clone()
	}
	return out
}

func (g *GateRun) clone() *GateRun {
	c := *g
	c.Opened, c.Results, c.Meters = slices.Clone(g.Opened), slices.Clone(g.Results), slices.Clone(g.Meters)
	c.at = nil
	return &c
}

// takeGates puts what an event says of a run of gates into a batch. The event's
// index must be that of State.Gates.
func (b *Batch) takeGates(e *stored) {
	d := e.gate
	if d == nil {
		return
	}
	switch e.Kind {
	case EventGates:
		b.GatesBegun = append(b.GatesBegun, GatesBegun{Run: e.gateRun, AtUS: e.AtUS, Setup: d.Setup, Settings: d.Settings})
	case EventArm:
		b.GatesOpened = append(b.GatesOpened, GatesOpened{Run: e.gateRun, Arm: d.Arm, Identity: d.Identity})
	case EventAnswer:
		b.GatesAnswered = append(b.GatesAnswered, GatesAnswered{Run: e.gateRun, Result: d.Result})
	case EventMeter:
		b.GatesMetered = append(b.GatesMetered, GatesMetered{Run: e.gateRun, Meter: d.Meter})
	case EventGatesEnd:
		b.GatesEnded = append(b.GatesEnded, GatesEnded{Run: e.gateRun, End: d.End})
	}
}

// takeGates brings the state up to date with one event.
func (s *State) takeGates(e *stored) {
	if e.gate == nil {
		return
	}
	var b Batch
	b.takeGates(e)
	s.applyGates(b)
}
