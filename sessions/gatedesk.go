package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
	"quantscope/analysis/gates/suite"
)

// gateDesk makes the runs of gates of one session and knows those that were made.
// The measurement desk says whose turn it is.
type gateDesk struct {
	mu   sync.Mutex
	runs []*GateRun

	run func(context.Context, *suite.Suite, []gates.ArmSpec, gates.Options) (*gates.Report, error)
}

func newGateDesk(runs []*GateRun) *gateDesk {
	return &gateDesk{runs: cloneGates(runs), run: gates.Run}
}

// know replaces what is known of runs.
func (d *gateDesk) know(runs []*GateRun) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.runs = cloneGates(runs)
}

// find is the run of a key, nil where there is none, and its index.
func (d *gateDesk) find(key string) (int, *GateRun) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, g := range d.runs {
		if gateKey(g.Setup, g.Settings) == key {
			return i, g
		}
	}
	return len(d.runs), nil
}

// ask runs gates, or goes on with a run of the same setup. post records events;
// hold waits where something comes first.
func (d *gateDesk) ask(ctx context.Context, path string, r GatesRequest, p *gateParties, post func(...stored), hold func(context.Context) error) error {
	o := p.options(r)
	setup := gates.NewSetup(p.suite, p.arms, o)
	id, g := d.find(gateKey(setup, p.settings))
	if g != nil && g.complete() {
		if r.Report != nil {
			r.Report(g.Analyze())
		}
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &asking{desk: d, id: id, g: g, post: post, lost: cancel, path: path}
	if a.begun = g != nil; a.begun {
		o.Prior, o.Meters = g.kept()
	} else {
		a.g = newGateRun(setup, p.settings, 0)
		o.Begin = a.begin
	}
	a.prior = o.Prior
	o.Answered, o.Metered = a.answered, a.metered
	o.Pause = func(ctx context.Context) error {
		if err := hold(ctx); err != nil || r.Pause == nil {
			return err
		}
		return r.Pause(ctx)
	}
	if err := hold(ctx); err != nil {
		return err
	}
	rep, err := d.run(ctx, p.suite, a.watched(p.arms), o)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause // what could not be recorded
	}
	err = serverError(path, err)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.begun {
		return err
	}
	end := &gates.End{State: string(RunFinished)}
	switch {
	case err == nil:
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		end.State = string(RunCancelled)
	default:
		end.State, end.Reason = string(RunStopped), oneLine(err.Error())
	}
	a.g.End = end
	done, of := a.g.Answers()
	e, eventErr := newGatesEndEvent(id, end, done, of)
	if eventErr == nil {
		post(e)
	}
	if err = errors.Join(err, eventErr); err == nil && r.Report != nil {
		r.Report(rep)
	}
	return err
}

// asking is a run of gates that goes on.
type asking struct {
	desk *gateDesk
	id   int
	path string
	post func(...stored)
	lost func(error) // ends the run: something cannot be recorded

	mu    sync.Mutex
	g     *GateRun
	begun bool
	prior []*gates.Result
}

// begin records the setup. It is asked before the first arm is opened, or after.
func (a *asking) begin(*gates.Setup) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.beginLocked()
}

func (a *asking) beginLocked() {
	if a.begun {
		return
	}
	e, err := newGatesEvent(a.id, a.g.Setup, a.g.Settings)
	if err != nil {
		a.lost(err)
		return
	}
	a.begun = true
	a.desk.mu.Lock()
	a.desk.runs = append(a.desk.runs, a.g)
	a.desk.mu.Unlock()
	a.post(e)
}

// record posts an event of the run that has begun.
func (a *asking) record(e stored, err error) {
	switch {
	case err != nil:
		a.lost(err)
	case a.begun:
		a.post(e)
	}
}

func (a *asking) answered(r *gates.Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, err := newAnswerEvent(a.id, r)
	if err == nil {
		a.g.add(e.gate.Result)
	}
	a.record(e, err)
}

func (a *asking) metered(m *gates.Meter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, err := newMeterEvent(a.id, a.g.Setup, m)
	if err == nil {
		a.g.meter(e.gate.Meter)
	}
	a.record(e, err)
}

// watched are the arms with a look at who answers, whenever one is opened.
func (a *asking) watched(arms []gates.ArmSpec) []gates.ArmSpec {
	out := slices.Clone(arms)
	for i := range out {
		open := out[i].Open
		out[i].Open = func(ctx context.Context) (chat.Target, error) {
			t, err := open(ctx)
			if err != nil {
				return nil, err
			}
			if err := a.opened(ctx, i, t); err != nil {
				return nil, errors.Join(err, t.Close())
			}
			return t, nil
		}
	}
	return out
}

// opened notes who answers for an arm. Where another one answered before and is
// gone on with, that is a *SettingsError, of a server within a *chat.Error.
func (a *asking) opened(ctx context.Context, arm int, t chat.Target) error {
	id, err := t.Identity(ctx)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.g.Opened[arm]
	if was != nil && slices.ContainsFunc(a.prior, func(r *gates.Result) bool { return r.Arm == arm }) {
		by := &a.g.Setup.Arms[arm]
		if err := sameIdentity(a.path, by, was, &id); err != nil && id.Kind == "server" {
			return &chat.Error{At: by.Spec, Kind: chat.Wrong, Reason: "another server than when the run began", Err: err}
		} else if err != nil {
			return err
		}
	}
	a.beginLocked()
	a.g.Opened[arm] = &id
	e, err := newArmEvent(a.id, a.g.Setup, arm, &id)
	a.record(e, err)
	return nil
}

// sameIdentity refuses to mix the answers of two.
func sameIdentity(path string, arm *gates.Arm, was, is *chat.Identity) error {
	for _, f := range []struct{ what, was, is string }{
		{"model", was.Model, is.Model},
		{"engine", was.Engine, is.Engine},
		{"version", was.Version, is.Version},
		{"content", was.Content, is.Content},
		{"fingerprint", was.Fingerprint, is.Fingerprint},
		{"what is presented", was.Effective, is.Effective},
		{"drafts a step", drafts(was.Speculative), drafts(is.Speculative)},
		{"longest context", drafts(was.MaxTokens), drafts(is.MaxTokens)},
	} {
		if f.was != f.is {
			return &SettingsError{path, fmt.Sprintf("%s of arm %s (%s; another label makes it an arm of its own)", f.what, arm.Label, arm.Spec), orNone(f.was), orNone(f.is)}
		}
	}
	return nil
}

func drafts(n int) string {
	if n < 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// complete says whether nothing is left to ask.
func (g *GateRun) complete() bool {
	if g.End == nil || g.End.State != string(RunFinished) {
		return false
	}
	return !slices.ContainsFunc(g.Results, again)
}

// again says whether an answer is asked for once more when its run is gone on
// with: it did not come, for a reason that may have passed.
func again(r *gates.Result) bool {
	if r.Verdict.Fault != grade.Erred {
		return false
	}
	switch r.Answer.Kind {
	case chat.Absent, chat.Timeout, chat.Status, chat.Cut:
		return true
	}
	return false
}

// kept is what a run that goes on begins with: answers that are not asked for again,
// and meters of arms of which there are all. What was held against an answer of the
// baseline that had not come is asked for again with it, as it was found different from
// nothing.
func (g *GateRun) kept() ([]*gates.Result, []*gates.Meter) {
	lost := map[gates.Key]bool{}
	for _, r := range g.Results {
		if r.Arm == g.Setup.Baseline() && again(r) {
			lost[r.Key()] = true
		}
	}
	var results []*gates.Result
	missing := map[int]bool{}
	for _, r := range g.Results {
		base := r.Key()
		base.Arm = g.Setup.Baseline()
		if again(r) || g.Setup.Probes[r.Probe].Against && lost[base] {
			missing[r.Arm] = true
			continue
		}
		results = append(results, r)
	}
	var meters []*gates.Meter
	for _, m := range g.Meters {
		if !missing[m.Arm] {
			meters = append(meters, m)
		}
	}
	return results, meters
}

// gateKey is what of a run decides its answers, as text: not where files lie, nor
// how long is waited.
func gateKey(s *gates.Setup, settings map[string]string) string {
	plain := *s
	plain.Path, plain.Text, plain.Timeout = "", "", 0
	b, err := json.Marshal(struct {
		Setup    *gates.Setup
		Settings map[string]string
	}{&plain, settings})
	if err != nil {
		return fmt.Sprintf("%p", s) // equal to no other
	}
	return string(b)
}

// serverError makes what a server did an error of the environment.
func serverError(path string, err error) error {
	var c *chat.Error
	var env *EnvError
	if err == nil || errors.As(err, &env) || !errors.As(err, &c) {
		return err
	}
	switch c.Kind {
	case chat.Refused, chat.Internal:
		return err
	}
	return &EnvError{Path: path, Reason: "gates", Err: err}
}
