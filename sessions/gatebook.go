package sessions

import (
	"fmt"
	"math"

	"quantscope/analysis/gates"
)

// gateBook knows the runs of gates of a session while its events are read in
// order, and what fits them, as yardBook does of measurements.
type gateBook struct {
	at     map[int]int // by number in the file: index in State.Gates
	setups []*gates.Setup
}

// place gives an event about gates its index, and is an error where it does not
// fit what came before. Other events are left alone.
func (b *gateBook) place(e *stored) error {
	if e.gate == nil {
		return nil
	}
	if e.Kind == EventGates {
		if _, twice := b.at[e.gate.Run]; twice {
			return fmt.Errorf("run %d of gates began twice", e.gate.Run)
		}
		if b.at == nil {
			b.at = map[int]int{}
		}
		b.at[e.gate.Run] = len(b.setups)
		b.setups = append(b.setups, e.gate.Setup)
		e.gateRun = len(b.setups) - 1
		return nil
	}
	i, ok := b.at[e.gate.Run]
	if !ok {
		return fmt.Errorf("run %d of gates has no beginning", e.gate.Run)
	}
	e.gateRun = i
	return checkGate(b.setups[i], e)
}

// checkGate is an error where an event names what its run does not have, or says
// what cannot be.
func checkGate(s *gates.Setup, e *stored) error {
	arm := func(i int) error {
		if i < 0 || i >= len(s.Arms) {
			return fmt.Errorf("arm %d of %d", i, len(s.Arms))
		}
		return nil
	}
	switch e.Kind {
	case EventArm:
		return arm(e.gate.Arm)
	case EventMeter:
		m := e.gate.Meter
		if math.IsNaN(m.Seconds) || m.Seconds < 0 || m.Tokens < 0 {
			return fmt.Errorf("arm %d made %d tokens in %g s", m.Arm, m.Tokens, m.Seconds)
		}
		return arm(m.Arm)
	case EventAnswer:
		return checkResult(s, e.gate.Result)
	}
	return nil
}

func checkResult(s *gates.Setup, r *gates.Result) error {
	if r.Arm < 0 || r.Arm >= len(s.Arms) || r.Probe < 0 || r.Probe >= len(s.Probes) {
		return fmt.Errorf("an answer of arm %d of %d to probe %d of %d", r.Arm, len(s.Arms), r.Probe, len(s.Probes))
	}
	p := &s.Probes[r.Probe]
	if r.Case < 0 || r.Case >= len(p.Cases) || r.Pass < 0 || r.Pass >= p.Passes {
		return fmt.Errorf("an answer to case %d of %d in pass %d of %d of probe %s", r.Case, len(p.Cases), r.Pass, p.Passes, p.ID)
	}
	for _, m := range r.Verdict.Marks {
		if m.Turn < 0 || m.Turn >= len(r.Answer.Replies) || m.At[0] < 0 || m.At[1] < m.At[0] {
			return fmt.Errorf("a mark at bytes %d to %d of turn %d of %d", m.At[0], m.At[1], m.Turn, len(r.Answer.Replies))
		}
	}
	return nil
}
