package sessions

import (
	"context"
	"fmt"

	"quantscope/analysis/tier"
)

// putTier writes what an event says of a hot tier.
func (in *inserts) putTier(ctx context.Context, e *stored) error {
	d := e.tier
	switch {
	case d.window != nil:
		return in.putWindow(ctx, e.Seq, d.Run, d.window)
	case d.Setup != nil:
		return in.putTierRun(ctx, e.Seq, d)
	}
	return in.putTierEnd(ctx, d.Run, d.End)
}

// putTierRun writes what a run is of.
func (in *inserts) putTierRun(ctx context.Context, seq int64, d *tierJSON) error {
	s := d.Setup
	p := &s.Policy
	if _, err := in.tierRun.ExecContext(ctx, d.Run, seq, string(RunRunning), s.Model, s.Source, s.Hot, s.Cold, orNothing(s.Routed), s.Workload.Name, s.Workload.Kind, s.Workload.SHA256,
		s.Workload.Tokens, len(s.Shape.Layers), s.Shape.Experts, s.Shape.TopK, p.Window, p.Decay, p.Hysteresis, p.Stay, p.Moves, asInt(p.PerLayer), s.Trace,
		fmt.Sprint(s.Seed), s.KernelSet, s.Program); err != nil {
		return err
	}
	for i, b := range s.Budgets {
		if _, err := in.tierBudget.ExecContext(ctx, d.Run, i, b.Label, b.Bytes, b.Share); err != nil {
			return err
		}
	}
	return nil
}

// putWindow writes a window and what moved at its end.
func (in *inserts) putWindow(ctx context.Context, seq int64, run int, w *tier.Window) error {
	if _, err := in.tierWindow.ExecContext(ctx, run, w.Budget, w.Index, seq, w.First, w.Tokens, w.Pairs, w.Hits, w.Promoted, w.Evicted, w.Churn, w.Hot, w.HotBytes, w.Held); err != nil {
		return err
	}
	for i := range w.Moves {
		m := &w.Moves[i]
		if _, err := in.tierMove.ExecContext(ctx, run, w.Budget, w.Index, i, m.Layer, m.Expert, asInt(m.Up), m.Score); err != nil {
			return err
		}
	}
	return nil
}

// putTierEnd writes how a run ended and what it came to.
func (in *inserts) putTierEnd(ctx context.Context, run int, end *tier.End) error {
	var knee, rise, noise any
	if c := end.Curve; c != nil {
		rise, noise = c.Rise, c.Noise
		if c.Knee >= 0 {
			knee = c.Knee
		}
	}
	if _, err := in.tierEnd.ExecContext(ctx, end.State, orNothing(end.Reason), knee, rise, noise, orNothing(end.Verdict), run); err != nil {
		return err
	}
	for _, r := range end.Results {
		control := func(name string) any {
			for _, c := range r.Controls {
				if c.Name == name {
					return c.Hits
				}
			}
			return nil
		}
		if _, err := in.tierResult.ExecContext(ctx, r.Windows, r.Coverage, r.Hits, r.Settled, r.Best, r.Promoted, r.Evicted, r.Churn, r.ChurnWindow, r.Held,
			r.HotBytes, r.Replace, r.Beside, control(tierRandom), control(tierColdest), run, r.Budget); err != nil {
			return err
		}
	}
	return nil
}

// Names of controls, as they stand behind # in a map's name.
const (
	tierRandom  = "random"
	tierColdest = "coldest"
)
