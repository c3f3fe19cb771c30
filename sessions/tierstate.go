package sessions

import "slices"

// applyTiers takes in what a batch says of runs of a hot tier.
func (s *State) applyTiers(b Batch) {
	for _, t := range b.TiersBegun {
		if t.Run == len(s.Tiers) {
			s.Tiers = append(s.Tiers, &TierRun{Setup: t.Setup, AtUS: t.AtUS})
		}
	}
	for _, m := range b.TiersMoved {
		if m.Run >= 0 && m.Run < len(s.Tiers) {
			t := s.Tiers[m.Run]
			t.Windows = append(t.Windows, m.Window)
		}
	}
	for _, e := range b.TiersEnded {
		if e.Run >= 0 && e.Run < len(s.Tiers) {
			s.Tiers[e.Run].End = e.End
		}
	}
}

// cloneTiers copies what applyTiers changes.
func cloneTiers(ts []*TierRun) []*TierRun {
	out := make([]*TierRun, len(ts))
	for i, t := range ts {
		c := *t
		c.Windows = slices.Clone(t.Windows)
		out[i] = &c
	}
	return out
}

// takeTier puts what an event says of a hot tier into a batch. The event's index must
// be that of State.Tiers.
func (b *Batch) takeTier(e *stored) {
	d := e.tier
	if d == nil {
		return
	}
	switch e.Kind {
	case EventTier:
		b.TiersBegun = append(b.TiersBegun, TierBegun{Run: e.tierRun, AtUS: e.AtUS, Setup: d.Setup})
	case EventWindow, EventMoves:
		b.TiersMoved = append(b.TiersMoved, TierMoved{Run: e.tierRun, AtUS: e.AtUS, Window: d.window})
	case EventTierEnd:
		b.TiersEnded = append(b.TiersEnded, TierEnded{Run: e.tierRun, End: d.End})
	}
}

// takeTier brings the state up to date with one event.
func (s *State) takeTier(e *stored) {
	if e.tier != nil {
		var b Batch
		b.takeTier(e)
		s.applyTiers(b)
	}
}
