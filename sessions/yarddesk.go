package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/yardstick"
)

// ErrMeasuring is wrapped where a measurement of the session goes on already.
var ErrMeasuring = errors.New("a measurement goes on already")

// yardDesk makes the measurements of one session, one at a time, and knows those
// that were made.
type yardDesk struct {
	mu    sync.Mutex
	yards []*Yard
	busy  chan struct{} // of the measurement that goes on: closed at its end; nil without one

	measure func(context.Context, *candidate.Candidate, []*candidate.Candidate, []*corpus.Corpus, yardstick.Options) (*yardstick.Report, error)
}

func newYardDesk(ys []*Yard) *yardDesk {
	return &yardDesk{yards: cloneYards(ys), measure: yardstick.Measure}
}

// know replaces what is known of measurements.
func (d *yardDesk) know(ys []*Yard) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.yards = cloneYards(ys)
}

// take reserves the desk, until the function that it returns is called.
func (d *yardDesk) take(path string) (release func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy != nil {
		return nil, fmt.Errorf("sessions: %s: %w", path, ErrMeasuring)
	}
	busy := make(chan struct{})
	d.busy = busy
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.busy = nil
		close(busy)
	}, nil
}

// idle is closed when no measurement goes on.
func (d *yardDesk) idle() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy != nil {
		return d.busy
	}
	done := make(chan struct{})
	close(done)
	return done
}

// run makes a measurement, or goes on with one of the same setup. post records
// events; hold waits between groups of chunks where something comes first.
func (d *yardDesk) run(ctx context.Context, r MeasureRequest, p *parties, post func(...stored), hold func(context.Context) error) error {
	id, y := d.find(p.setup)
	if r.Base != "" || r.BaseOut != "" { // what such a file says of a text, or is told of it, is of a whole pass
		id, y = d.count(), nil
	}
	if y != nil && y.End != nil && y.End.State == RunFinished && (!r.Probe || len(y.End.Probes) > 0) {
		return d.again(ctx, r, y)
	}
	o := p.options
	o.Progress = r.Progress
	o.Pause = func(ctx context.Context) error {
		if err := hold(ctx); err != nil || r.Pause == nil {
			return err
		}
		return r.Pause(ctx)
	}
	begun := y != nil
	if begun {
		o.Prior = y.Chunks
	} else {
		y = &Yard{Setup: p.setup}
		e, err := newYardEvent(id, p.setup)
		if err != nil {
			return err
		}
		o.Begin = func(*yardstick.Setup) {
			begun = true
			d.mu.Lock()
			d.yards = append(d.yards, y)
			d.mu.Unlock()
			post(e)
		}
	}
	o.Scored = func(c *yardstick.Chunk) {
		y.Chunks = append(y.Chunks[:len(y.Chunks):len(y.Chunks)], c) // Prior is not written over
		post(newScoreEvent(id, c))
	}
	if err := hold(ctx); err != nil {
		return err
	}
	rep, err := d.measure(ctx, p.ref, p.candidates, p.corpora, o)
	if !begun {
		return err
	}
	end := &YardEnd{State: RunFinished}
	switch {
	case err == nil:
		end.Probes, end.Sane = rep.Probes, rep.Sane
	case ctx.Err() != nil:
		end.State = RunCancelled
	default:
		end.State, end.Reason = RunStopped, oneLine(err.Error())
	}
	done, of := y.Positions()
	y.End = end
	post(newYardEndEvent(id, end, done, of))
	if err == nil && r.Report != nil {
		r.Report(rep)
	}
	return err
}

// again reports a measurement that was made before.
func (d *yardDesk) again(ctx context.Context, r MeasureRequest, y *Yard) error {
	rep, err := y.Analyze(ctx, r.Seed)
	if err == nil && r.Report != nil {
		r.Report(rep)
	}
	return err
}

// Analyze is the report of what was scored so far, with what the end of the
// measurement says beside it.
func (y *Yard) Analyze(ctx context.Context, seed uint64) (*yardstick.Report, error) {
	rep, err := yardstick.Analyze(ctx, y.Setup, y.Chunks, seed)
	if err != nil || y.End == nil {
		return rep, err
	}
	rep.Complete(y.End.Sane, y.End.Probes)
	return rep, nil
}

// find is the measurement of a setup, nil where there is none, and its index.
func (d *yardDesk) find(s *yardstick.Setup) (int, *Yard) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := yardKey(s)
	for i, y := range d.yards {
		if yardKey(y.Setup) == key {
			return i, y
		}
	}
	return len(d.yards), nil
}

// count is how many measurements there are.
func (d *yardDesk) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.yards)
}

// yardKey is what of a setup decides its figures, as text: not where files lie,
// nor what is drawn from the figures afterwards.
func yardKey(s *yardstick.Setup) string {
	plain := *s
	plain.Texts, plain.Special, plain.Notes, plain.Seed, plain.Ceiling = nil, nil, nil, 0, 0
	party := func(p yardstick.Party) yardstick.Party {
		p.Path, p.Findings, p.Tokenizer, p.Calibrated, p.Added = "", nil, "", "", false
		return p
	}
	plain.Reference = party(s.Reference)
	plain.Reference.Spec = ""
	plain.Candidates = nil
	for _, c := range s.Candidates {
		c = party(c)
		if c.Identity != s.Reference.Identity { // else the spec says what was made of the reference
			c.Spec = ""
		}
		plain.Candidates = append(plain.Candidates, c)
	}
	var lengths [][]int
	plain.Corpora = nil
	for _, c := range s.Corpora {
		c.Source = ""
		plain.Corpora = append(plain.Corpora, c)
		var n []int
		for _, ids := range c.IDs {
			n = append(n, len(ids))
		}
		lengths = append(lengths, n)
	}
	b, err := json.Marshal(struct {
		Setup   *yardstick.Setup
		Lengths [][]int
	}{&plain, lengths})
	if err != nil {
		return fmt.Sprintf("%p", s) // equal to no other
	}
	return string(b)
}
