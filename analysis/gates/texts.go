package gates

import (
	"context"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/through"
)

// texts asks an arm for the log probabilities of texts, where the run wants them, and
// holds a candidate's against the baseline's. That they are not told is no error.
func (r *run) texts(ctx context.Context, t chat.Target, m *Meter) error {
	said, err := r.sayTexts(ctx, t, m.Arm)
	if err != nil || said == nil {
		return err
	}
	sum := through.Sum(said)
	m.Said, m.Arm1 = said, &sum
	if why := through.Examine(said).Reason(); why != "" {
		m.Checks = append(m.Checks, newCheck(CheckRank, m.Arm, CheckFailed,
			map[string]float64{"positions": float64(sum.Positions), "median_rank": sum.MedianRank}, "log probabilities of the texts cannot be right: %s", why))
	}
	if m.Arm == r.setup.Baseline() {
		r.said = said
		return nil
	}
	if r.said == nil {
		return nil
	}
	pair, _, err := through.Compare(r.said, said)
	if err != nil {
		r.warn("%s: log probabilities: %v", r.setup.Arms[m.Arm].Label, err)
		return nil
	}
	m.Pair = &pair
	return nil
}

// sayTexts is what one arm says of the texts; nil where none are asked for, and where it
// does not tell. Its error is the end of the run.
func (r *run) sayTexts(ctx context.Context, t chat.Target, arm int) (*through.Said, error) {
	texts := r.setup.Texts
	if texts == nil {
		return nil, nil
	}
	r.tell(Progress{Stage: "log probabilities", Arm: arm, Probe: -1})
	said, err := r.ask(ctx, t, texts.IDs, through.Options{Top: texts.Top, Text: r.o.Words})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		r.warn("%s: log probabilities: %v", r.setup.Arms[arm].Label, err)
		return nil, nil
	}
	return said, nil
}

// baselineSaid asks the baseline of an earlier run again for what results do not
// keep, when a later arm is to be held against it.
func (r *run) baselineSaid(ctx context.Context, arm int) error {
	base := r.setup.Baseline()
	if arm == base || r.setup.Texts == nil || r.said != nil {
		return nil
	}
	for _, m := range r.meters {
		if m.Arm == base && m.Arm1 == nil {
			return nil // it did not tell then
		}
	}
	t, _, err := r.open(ctx, base)
	if err != nil {
		return err
	}
	defer r.close(t, base)
	r.said, err = r.sayTexts(ctx, t, base)
	return err
}
