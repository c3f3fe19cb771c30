package sessions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"quantscope/analysis/bias"
	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/tier"
)

// lookDesk makes the looks at biases and the runs of hot tiers of one session, and knows
// how many there are. The measurement desk says whose turn it is.
type lookDesk struct {
	mu            sync.Mutex
	biases, tiers int

	bias    func(context.Context, *bias.Setup, *candidate.Candidate, []*candidate.Candidate, []*corpus.Corpus, bias.Options, bias.Sink) error
	prepare func(ctx context.Context, ref, routed tier.Model, workload []string, load func(string) ([]*corpus.Corpus, error), o tier.Options) (*tier.Setup, *tier.Trace, error)
	tier    func(context.Context, *tier.Setup, *tier.Trace, tier.Options, tier.Sink) (*tier.End, error)
}

func newLookDesk(st *State) *lookDesk {
	return &lookDesk{biases: len(st.Biases), tiers: len(st.Tiers), bias: bias.Run, prepare: tier.Prepare, tier: tier.Run}
}

// know replaces what is known of runs.
func (d *lookDesk) know(st *State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.biases, d.tiers = len(st.Biases), len(st.Tiers)
}

// next is the number of a run that begins.
func (d *lookDesk) next(of *int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := *of
	*of++
	return n
}

// look looks at biases. post records events; hold waits where something comes first.
func (d *lookDesk) look(ctx context.Context, r BiasRequest, p *biasParties, post func(...stored), hold func(context.Context) error) error {
	if err := hold(ctx); err != nil {
		return err
	}
	e, err := newBiasEvent(EventBias, &biasJSON{Message: biasMessage(p.setup), Run: d.next(&d.biases), Setup: p.setup})
	if err != nil {
		return err
	}
	w := &looking{post: post, run: e.bias.Run}
	b := &BiasRun{Setup: e.bias.Setup}
	w.record(e)
	found := func(doc *biasJSON) error {
		doc.Run = w.run
		e, err := newBiasEvent(EventBiasFound, doc)
		if err == nil {
			err = w.record(e)
		}
		if err == nil {
			b.add(BiasFound{Weights: e.bias.Weights, Row: e.bias.Row, Divergence: e.bias.Divergence})
		}
		return err
	}
	o := p.look
	o.Progress, o.Pause = r.Progress, both(hold, r.Pause)
	err = d.bias(ctx, p.setup, p.ref, p.candidates, p.corpora, o, bias.Sink{
		Weights:    func(x *bias.Weights) error { return found(&biasJSON{Weights: x}) },
		Row:        func(x *bias.Row) error { return found(&biasJSON{Row: x}) },
		Divergence: func(x *bias.Divergence) error { return found(&biasJSON{Divergence: x}) },
	})
	end := &bias.End{}
	end.State, end.Reason = endOf(err)
	e, endErr := newBiasEvent(EventBiasEnd, &biasJSON{Message: biasEndMessage(end, len(b.Rows)), Run: w.run, End: end})
	if endErr == nil {
		endErr = w.record(e)
	}
	if err = errors.Join(err, endErr); err == nil && r.Report != nil {
		r.Report(b.Analyze())
	}
	return err
}

// breathe runs a hot tier. Until the workload is there nothing is recorded.
func (d *lookDesk) breathe(ctx context.Context, r TierRequest, p *tierParties, post func(...stored), hold func(context.Context) error) error {
	if err := hold(ctx); err != nil {
		return err
	}
	o := p.run
	o.Progress, o.Pause, o.Pace = r.Progress, both(hold, r.Pause), r.Pace
	setup, trace := p.setup, p.trace
	if setup == nil {
		var err error
		if setup, trace, err = d.prepare(ctx, p.ref.TierModel(), p.routed.TierModel(), p.workload, p.load, o); err != nil {
			return err
		}
	}
	if r.Record != "" {
		if err := tier.WriteTrace(r.Record, trace, setup.Model); err != nil {
			return err
		}
	}
	e, err := newTierEvent(EventTier, &tierJSON{Message: tierMessage(setup), Run: d.next(&d.tiers), Setup: setup})
	if err != nil {
		return err
	}
	w := &looking{post: post, run: e.tier.Run}
	w.record(e)
	windows := 0
	end, err := d.tier(ctx, setup, trace, o, func(x *tier.Window) error {
		e, err := newWindowEvent(w.run, x)
		if err == nil {
			err = w.record(e)
		}
		windows++
		return err
	})
	if err != nil || end == nil {
		end = &tier.End{}
	}
	end.State, end.Reason = endOf(err)
	e, endErr := newTierEvent(EventTierEnd, &tierJSON{Message: tierEndMessage(end, windows), Run: w.run, End: end})
	if endErr == nil {
		endErr = w.record(e)
	}
	if err = errors.Join(err, endErr); err == nil && r.Report != nil {
		r.Report(setup, e.tier.End)
	}
	return err
}

// looking is a run that goes on. It records nothing that a reader of the file would
// refuse.
type looking struct {
	post func(...stored)
	run  int
	book books
}

func (w *looking) record(e stored) error {
	check := e // the book gives it the index of a session that holds nothing else
	if err := w.book.place(&check, 0); err != nil {
		return fmt.Errorf("sessions: a %s event cannot be recorded: %w", e.Kind, err)
	}
	w.post(e)
	return nil
}

// endOf is how a run ended.
func endOf(err error) (state, reason string) {
	switch {
	case err == nil:
		return string(RunFinished), ""
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return string(RunCancelled), ""
	}
	return string(RunStopped), oneLine(err.Error())
}

// both asks one after the other; the second may be nil.
func both(first, second func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := first(ctx); err != nil || second == nil {
			return err
		}
		return second(ctx)
	}
}

// refuseExisting is an error where a file is there already.
func refuseExisting(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return &ExistsError{Path: path}
	}
	return nil
}
