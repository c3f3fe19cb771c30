package gates

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
	"quantscope/analysis/gates/suite"
	"quantscope/analysis/gates/through"
)

// Run asks every arm every probe, in the order of the arms. A target that cannot be
// reached at its turn, or that is gone in the middle of it, ends the run with its
// error; single answers that do not come are results. ctx ends it; what was answered
// went to Options.Answered, and the report, which is never nil with such an error,
// says what that means so far.
//
// One arm is open at a time, and closed before the next is opened.
func Run(ctx context.Context, s *suite.Suite, arms []ArmSpec, o Options) (*Report, error) {
	r := &run{o: o, setup: NewSetup(s, arms, o), specs: arms, grade: grade.Grade, ask: through.Ask}
	return r.do(ctx)
}

// run is a run while it runs.
type run struct {
	o     Options
	setup *Setup
	specs []ArmSpec
	grade func(*suite.Probe, *suite.Case, *grade.Answer, *grade.Answer) grade.Verdict
	ask   func(context.Context, chat.Target, [][]int32, through.Options) (*through.Said, error)
	pace  pace

	mu      sync.Mutex // held while a result is handed over
	results map[Key]*Result
	nonces  map[string]bool
	meters  []*Meter
	said    *through.Said // of the baseline
}

func (r *run) do(ctx context.Context) (*Report, error) {
	if err := r.setup.check(); err != nil {
		return nil, err
	}
	if err := r.take(); err != nil {
		return nil, err
	}
	if r.o.Begin != nil {
		r.o.Begin(r.setup)
	}
	r.pace.begin(len(r.results), r.setup.Answers())
	var err error
	for i := range r.setup.Arms {
		if err = r.arm(ctx, i); err != nil {
			break
		}
	}
	all := make([]*Result, 0, len(r.results))
	for _, res := range r.results {
		all = append(all, res)
	}
	return Analyze(r.setup, all, r.meters, r.o.Level), err
}

// take takes in what an earlier run brought.
func (r *run) take() error {
	r.results, r.nonces = map[Key]*Result{}, map[string]bool{}
	for _, res := range r.o.Prior {
		k := res.Key()
		if !r.setup.holds(k) {
			return fmt.Errorf("%w: an earlier result of arm %d, probe %d, case %d, pass %d is not of this suite and these arms", ErrSetup, k.Arm, k.Probe, k.Case, k.Pass)
		}
		r.results[k] = res
		for _, n := range noncesOf(res) {
			r.nonces[n] = true
		}
	}
	for _, m := range r.o.Meters {
		if m.Arm < 0 || m.Arm >= len(r.setup.Arms) {
			return fmt.Errorf("%w: an earlier meter is of arm %d, of %d", ErrSetup, m.Arm, len(r.setup.Arms))
		}
	}
	r.meters = slices.Clone(r.o.Meters)
	return nil
}

// missing lists what of a probe is not answered yet, pass after pass, so that equal
// prompts are far apart.
func (r *run) missing(arm, probe int) []Key {
	p := &r.setup.Probes[probe]
	var out []Key
	for pass := range p.Passes {
		for c := range p.Cases {
			k := Key{arm, probe, c, pass}
			if r.results[k] == nil {
				out = append(out, k)
			}
		}
	}
	return out
}

// done says whether an earlier run finished an arm.
func (r *run) done(arm int) bool {
	if !slices.ContainsFunc(r.meters, func(m *Meter) bool { return m.Arm == arm }) {
		return false
	}
	for p := range r.setup.Probes {
		if len(r.missing(arm, p)) > 0 {
			return false
		}
	}
	return true
}

// open reaches an arm.
func (r *run) open(ctx context.Context, arm int) (chat.Target, chat.Identity, error) {
	label := r.setup.Arms[arm].Label
	r.tell(Progress{Stage: "opening", Arm: arm, Probe: -1})
	t, err := r.specs[arm].Open(ctx)
	if err != nil {
		return nil, chat.Identity{}, fmt.Errorf("%s: %w", label, err)
	}
	id, err := t.Identity(ctx)
	if err != nil {
		return nil, id, errors.Join(fmt.Errorf("%s: %w", label, err), t.Close())
	}
	return t, id, nil
}

func (r *run) close(t chat.Target, arm int) {
	if err := t.Close(); err != nil {
		r.warn("%s: %v", r.setup.Arms[arm].Label, err)
	}
}

// arm asks one arm all that is missing, and meters it.
func (r *run) arm(ctx context.Context, i int) error {
	if r.done(i) {
		return nil
	}
	if err := r.baselineSaid(ctx, i); err != nil {
		return err
	}
	t, id, err := r.open(ctx, i)
	if err != nil {
		return err
	}
	defer r.close(t, i)
	m := &Meter{Arm: i, Identity: id}
	r.tell(Progress{Stage: "checking", Arm: i, Probe: -1})
	e := exam{run: r, t: t, m: m}
	if err := e.all(ctx); err != nil {
		return err
	}
	before, countErr := t.Counters(ctx)
	a := &asking{run: r, t: t, arm: i}
	for p := range r.setup.Probes {
		if err := a.probe(ctx, p); err != nil {
			return err
		}
	}
	a.settle()
	m.Tokens, m.Seconds = a.tokens, a.clock.seconds()
	r.count(ctx, t, m, before, countErr)
	if err := r.texts(ctx, t, m); err != nil {
		return err
	}
	e.after(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	r.meters = slices.DeleteFunc(r.meters, func(old *Meter) bool { return old.Arm == i })
	r.meters = append(r.meters, m)
	if r.o.Metered != nil {
		r.o.Metered(m)
	}
	return nil
}

// count sets what the target counted over the arm's answers.
func (r *run) count(ctx context.Context, t chat.Target, m *Meter, before chat.Counters, err error) {
	if err != nil {
		if !errors.Is(err, chat.ErrNoCounters) {
			r.warn("%s: counters: %v", r.setup.Arms[m.Arm].Label, err)
		}
		return
	}
	after, err := t.Counters(ctx)
	if err != nil {
		r.warn("%s: counters: %v", r.setup.Arms[m.Arm].Label, err)
		return
	}
	if after.Generated >= 0 && after.Generated < before.Generated {
		r.warn("%s: counters began anew in the middle of the run, and are left out", r.setup.Arms[m.Arm].Label)
		return
	}
	d := after.Since(before)
	m.Counted = &d
}

func (r *run) warn(format string, args ...any) {
	if r.o.Warn != nil {
		r.o.Warn(fmt.Sprintf(format, args...))
	}
}
