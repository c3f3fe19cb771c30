package sessions

import (
	"context"
	"encoding/json"
	"math"

	"quantscope/analysis/gates"
)

// putGate writes what an event other than an answer says of gates.
func (in *inserts) putGate(ctx context.Context, e *stored) error {
	d := e.gate
	switch e.Kind {
	case EventGates:
		return in.putGates(ctx, e.Seq, d)
	case EventArm:
		i := d.Identity
		_, err := in.opened.ExecContext(ctx, i.Kind, i.At, i.Model, i.Engine, i.Version, orNothing(i.Effective), orNothing(i.Content), orNothing(i.Fingerprint),
			orNull(i.Speculative), orNull(i.MaxTokens), d.Run, d.Arm)
		return err
	case EventMeter:
		return in.putMeter(ctx, e.Seq, d)
	}
	_, err := in.gateEnd.ExecContext(ctx, d.End.State, d.End.Reason, d.Run)
	return err
}

// putGates writes what a run asks of whom.
func (in *inserts) putGates(ctx context.Context, seq int64, d *gateJSON) error {
	s := d.Setup
	settings, err := json.Marshal(d.Settings)
	if err != nil {
		return err
	}
	var texts any
	if s.Texts != nil {
		texts = s.Texts.Name
	}
	if _, err := in.gates.ExecContext(ctx, d.Run, seq, string(RunRunning), s.Suite, s.Path, s.SHA256, len(s.Probes), len(s.Arms), s.Answers(),
		texts, string(settings), s.Set, s.Program); err != nil {
		return err
	}
	for i, a := range s.Arms {
		if _, err := in.arm.ExecContext(ctx, d.Run, i, a.Label, a.Spec, string(a.Role)); err != nil {
			return err
		}
	}
	for i := range s.Probes {
		p := &s.Probes[i]
		if _, err := in.probe.ExecContext(ctx, d.Run, i, p.ID, p.Group, p.About, p.Grader, len(p.Cases), p.Passes, p.Need, asInt(p.Timed)); err != nil {
			return err
		}
		for k := range p.Cases {
			c := &p.Cases[k]
			var tokens, depth any
			if c.Tokens > 0 {
				tokens, depth = c.Tokens, c.Depth
			}
			if _, err := in.item.ExecContext(ctx, d.Run, i, k, c.ID, tokens, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// tableText is how much of an answer's text its row has; the event has all of it.
const tableText = 64 << 10

// putAnswer writes an answer; an older one to the same is marked as replaced.
// Counts are sums over the turns; what one turn was not told is not known.
func (in *inserts) putAnswer(ctx context.Context, e *stored) error {
	r := e.gate.Result
	if _, err := in.replaced.ExecContext(ctx, e.gate.Run, r.Arm, r.Probe, r.Case, r.Pass); err != nil {
		return err
	}
	t := sumReplies(&r.Answer)
	var first any
	if t.first > 0 {
		first = t.first
	}
	_, err := in.answer.ExecContext(ctx, e.Seq, e.gate.Run, r.Arm, r.Probe, r.Case, r.Pass, 0, asInt(r.Verdict.Passed), orNothing(string(r.Verdict.Fault)), r.Verdict.Reason,
		orNothing(r.Answer.Error), len(r.Answer.Replies), orNothing(t.finish), orNull(t.prompt), orNull(t.made), orNull(t.cached), replacements(r), t.invalid, t.retries,
		first, t.seconds, orNothing(t.text[:min(len(t.text), tableText)]))
	return err
}

// putMeter writes what an arm counted. Acceptance stands beside accepted length and
// tokens/s, or nowhere.
func (in *inserts) putMeter(ctx context.Context, seq int64, d *gateJSON) error {
	m := d.Meter
	args := make([]any, 21)
	args[0], args[1], args[2], args[3], args[4] = d.Run, m.Arm, seq, m.Seconds, m.Tokens
	if m.Seconds > 0 {
		args[5] = float64(m.Tokens) / m.Seconds
	}
	if c := m.Counted; c != nil {
		rate, length := c.Acceptance()
		if m.Seconds <= 0 || math.IsNaN(rate) || math.IsNaN(length) {
			rate, length = math.NaN(), math.NaN()
		}
		copy(args[6:], []any{orUnknown(c.Generated), orUnknown(c.Steps), orUnknown(c.Drafts), orUnknown(c.Drafted), orUnknown(c.Accepted), rate, length,
			orUnknown(c.CacheQueries), orUnknown(c.CacheHits)})
	}
	if a := m.Arm1; a != nil {
		copy(args[15:], []any{a.Positions, a.NLL, a.PPL, a.MedianRank})
	}
	if p := m.Pair; p != nil {
		copy(args[19:], []any{p.KL, p.Top1})
	}
	if _, err := in.meter.ExecContext(ctx, args...); err != nil {
		return err
	}
	return in.putChecks(ctx, d.Run, m.Arm, m.Checks)
}

func (in *inserts) putChecks(ctx context.Context, run, arm int, checks []gates.Check) error {
	if _, err := in.unchecked.ExecContext(ctx, run, arm); err != nil {
		return err
	}
	for i, c := range checks {
		if _, err := in.check.ExecContext(ctx, run, arm, i, c.ID, string(c.State), c.Message); err != nil {
			return err
		}
	}
	return nil
}

// orNothing is a text, NULL for none.
func orNothing(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// orUnknown is a count, NULL where it was not told.
func orUnknown(n int64) any {
	if n < 0 {
		return nil
	}
	return n
}
