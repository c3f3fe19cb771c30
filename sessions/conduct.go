package sessions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quantscope/analysis/calibrate"
	"quantscope/kernels"
)

// conductor makes one calibrated variant at a time, unit by unit, in the engine's
// loop. What of it others look at is in the meter.
type conductor struct {
	e     *engine
	v     int    // variant
	name  string // of it
	ready preparedCalib
	setup CalibrationSetup
	id    int             // of the calibration
	begun bool            // the session has it
	known map[string]bool // units that the session has
	units []CalibUnit     // that the session has, these and those of this process
	prior *Calibration
	w     worker // looks at weights

	counts []calibrate.Counts // of the unit in hand
	made   []madeMatrix       // of the unit in hand
	clock  calibClock
}

// madeMatrix is one matrix of the unit in hand.
type madeMatrix struct {
	m     CalibMatrix
	tap   kernels.Tap
	look  look
	nan   string // why it is no measurement, "" where it is one
	again bool   // its codes were read back
}

// conduct makes a calibrated variant. The error ends the run: one of the
// environment, or a *CalibrationError. Where ctx ended it is nil.
func (e *engine) conduct(ctx context.Context, v int) error {
	c, err := e.conductor(ctx, v)
	if err != nil {
		return e.calibFailure(ctx, e.quantizer(v).Variant.Name, err)
	}
	err = c.run(ctx)
	return errors.Join(err, c.ready.close())
}

// conductor is that of a variant, prepared where that was not done before.
func (e *engine) conductor(ctx context.Context, v int) (*conductor, error) {
	q := e.quantizer(v)
	e.mu.Lock()
	ready, prior := e.prepared[q.Variant.Name], e.priors[v]
	delete(e.prepared, q.Variant.Name)
	e.mu.Unlock()
	if ready == nil {
		var err error
		want := calibWant{variant: q.Variant.Name, id: v, prior: prior.calibration, env: e.opts, session: e.session}
		if ready, err = prepareCalib(ctx, e.job, want); err != nil {
			return nil, err
		}
	}
	c := &conductor{e: e, v: v, name: q.Variant.Name, ready: ready, setup: ready.setup(), id: prior.id, known: map[string]bool{}, prior: prior.calibration, w: worker{e: e}}
	c.setup.Variant = v
	if p := prior.calibration; p != nil {
		c.begun = true
		for i := range p.Units {
			c.known[p.Units[i].Unit] = true
		}
		c.units = append(c.units, p.Units...)
	}
	return c, nil
}

// calibFailure is an error of a calibrated run in words of a run.
func (e *engine) calibFailure(ctx context.Context, name string, err error) error {
	var env *EnvError
	var codes *CodesError
	var settings *SettingsError
	switch {
	case err == nil, ctx.Err() != nil:
		return nil
	case errors.As(err, &env), errors.As(err, &codes), errors.As(err, &settings):
		return err
	}
	return &CalibrationError{name, err}
}

func (c *conductor) run(ctx context.Context) error {
	e := c.e
	if err := c.begin(); err != nil {
		return err
	}
	c.clock.begin(e.clock.Now())
	defer e.meter.calib.Store(nil)
	o, err := c.ready.run(ctx, calibrate.Sink{
		Progress: c.progress,
		Counts:   func(n calibrate.Counts) { c.counts = append(c.counts, n) },
		Matrix:   func(r calibrate.Result) error { return c.matrix(ctx, r) },
		Unit:     func(unit string, seconds float64) error { return c.unit(unit, seconds) },
		Pause:    c.between,
	})
	if err == nil {
		err = c.complete()
	}
	if o != nil && o.Store != nil {
		defer o.Store.Close()
	}
	gate := c.end(ctx, o, err)
	if err != nil {
		return e.calibFailure(ctx, c.name, err)
	}
	if gate || o == nil {
		return nil
	}
	return e.pack(ctx, c.v, o.Store)
}

// begin says in the log what is calibrated, unless the session knows.
func (c *conductor) begin() error {
	e := c.e
	for _, n := range c.ready.notes() {
		e.rec.note(EventFinding, c.v, -1, note{Message: oneLine(n.message), Code: n.code})
	}
	if c.begun {
		return nil
	}
	c.id = e.newCalibration()
	ev, err := newCalibEvent(c.id, c.setup, c.name)
	if err != nil {
		return err
	}
	e.rec.post(ev)
	c.begun = true
	return nil
}

// between is asked between two units: it waits where the person holds the run, and
// lets variants go first that are not calibrated.
func (c *conductor) between(ctx context.Context) error {
	start := c.e.clock.Now()
	defer func() { c.clock.rested += c.e.clock.Now().Sub(start) }()
	if err := c.e.gate.pass(ctx); err != nil {
		return err
	}
	for c.e.plainUndone() > 0 && ctx.Err() == nil {
		if err := c.e.measureAll(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// matrix takes in one matrix. What is lent is looked at before it returns.
func (c *conductor) matrix(ctx context.Context, r calibrate.Result) error {
	e := c.e
	t, ok := e.job.tensorOf(r.Matrix)
	if !ok {
		return fmt.Errorf("matrix %d is no tensor of the session", r.Matrix)
	}
	m := madeMatrix{m: CalibMatrix{Tensor: t, Trade: r.Trade}, tap: r.Tap, again: r.Again}
	it := item{tensor: t, m: r.Source}
	var err error
	if r.Source.Data != nil {
		c.w.hash.begin(e.digest(t).sha != 0)
		err = c.w.examined(r.Source, false, &m.look)
		m.look.digest = c.w.hash.digest()
	} else if e.rowSource != nil {
		if it.m, err = e.rowSource.Shape(t); err == nil {
			m.look, err = c.w.survey(ctx, it)
		}
	}
	if err != nil {
		return err
	}
	if err := e.checkDigest(t, m.look.digest); err != nil {
		return err
	}
	if n := m.tap.NaN + m.tap.Inf; n > 0 {
		if m.nan, err = c.w.nonFinite(ctx, it, m.tap.NaN, m.tap.Inf); err != nil {
			return err
		}
	}
	m.tap.SetMoments(m.look.moments)
	e.meter.bytes.Add(int64(it.m.Rows) * int64(it.m.Cols) * int64(it.m.Element.Size()))
	e.meter.weights.Add(m.tap.Elements)
	c.made = append(c.made, m)
	return nil
}

// unit records a unit whose codes are kept: its tap records, what fell back, and
// what was traded, in one transaction. What the session has is compared.
func (c *conductor) unit(unit string, seconds float64) error {
	e := c.e
	u := CalibUnit{Unit: unit, Counts: c.counts, Seconds: seconds, Again: readBack(c.made)}
	made := c.made
	c.counts, c.made = nil, nil
	var events []stored
	var settled []int
	for i := range made {
		m := &made[i]
		u.Matrices = append(u.Matrices, m.m)
		evs, err := c.record(m)
		if err != nil {
			return err
		}
		events = append(events, evs...)
		settled = append(settled, m.m.Tensor)
	}
	if !c.known[unit] {
		ev, err := newUnitEvent(c.id, c.v, u)
		if err != nil {
			return err
		}
		c.known[unit] = true
		c.units = append(c.units, u)
		events = append(events, ev)
	}
	if len(events) > 0 {
		e.rec.post(events...)
	}
	for i, t := range settled {
		if made[i].nan != "" {
			e.mu.Lock()
			e.failed++
			e.mu.Unlock()
		}
		e.settle(c.v, t)
	}
	return nil
}

// record is what the session is told of one matrix, nothing where it knows.
func (c *conductor) record(m *madeMatrix) ([]stored, error) {
	e, t := c.e, m.m.Tensor
	if m.nan != "" {
		return []stored{newNote(EventFailed, c.v, t, note{Message: e.where(t) + ": " + m.nan, NaN: m.tap.NaN, Inf: m.tap.Inf})}, nil
	}
	if err := e.keepDigest(t, m.look.digest); err != nil {
		return nil, err
	}
	if was, ok := e.hadBefore(c.v, t); ok {
		now := NewRecord(c.v, t, &m.tap)
		if !now.sameFigures(&was) {
			return nil, &CodesError{c.setup.Codes, e.where(t) + ": they are not what the session's record of " + c.name + " says"}
		}
		return nil, nil
	}
	q := e.quantizer(c.v)
	events := []stored{newTapEvent(c.v, t, &m.tap, m.look.digest.xxh)}
	if m.m.FellBack() {
		events = append(events, newNote(EventFallback, c.v, t, note{
			Message:   oneLine(fmt.Sprintf("%s: %s in place of %s: %s", e.where(t), m.m.Effective, c.name, m.m.Why)),
			Requested: c.name, Effective: m.m.Effective, Why: oneLine(m.m.Why),
		}))
	}
	return append(events, e.examine(c.v, t, &q.Variant, &m.tap)...), nil
}

// complete is an error where a run that ended well left tensors out.
func (c *conductor) complete() error {
	if n := c.e.undoneOf(c.v); n > 0 {
		return fmt.Errorf("%d of %s came to nothing", n, count(int64(len(c.e.job.Tensors)), "tensor"))
	}
	return nil
}

// end says in the log how the calibration ended, and whether it failed its gate.
func (c *conductor) end(ctx context.Context, o *calibrate.Outcome, err error) (gate bool) {
	e := c.e
	end := &CalibrateEnd{State: RunFinished, Params: c.setup.ParamsOfAll}
	var events []stored
	if o == nil {
		end.Calibrated, end.Changed, end.FellBack = c.kept()
	} else {
		end.Calibrated, end.Changed, end.FellBack, end.Params, end.Warnings = o.Calibrated, o.Changed, o.FellBack, o.Params, o.Warnings
	}
	switch {
	case err == nil && o != nil:
		if failed := o.Gate(); failed != nil {
			end.Gate, gate = oneLine(failed.Error()), true
			events = append(events, newNote(EventFinding, c.v, -1, note{Message: c.name + ": " + end.Gate, Code: "calibration-gate"}))
		}
		for _, w := range o.Warnings {
			events = append(events, newNote(EventFinding, c.v, -1, note{Message: c.name + ": " + oneLine(w), Code: "calibration"}))
		}
	case err == nil:
	case ctx.Err() != nil:
		end.State = RunCancelled
	default:
		end.State, end.Reason = RunStopped, oneLine(err.Error())
	}
	e.mu.Lock()
	if gate {
		e.gated = true
	}
	e.mu.Unlock()
	if p := c.prior; p != nil && p.End != nil && p.End.State == RunFinished && end.State == RunFinished {
		return gate // it was said; this run only packed
	}
	if ev, marshal := newCalibEndEvent(c.id, c.v, end, len(c.units), len(c.setup.Units)); marshal == nil {
		events = append(events, ev)
	}
	e.rec.post(events...)
	e.keepCalibration(c, end)
	return gate
}

// kept is what the units come to that the session has: matrices that are
// calibrated, what changed in them, and the parameters of those that fell back.
func (c *conductor) kept() (calibrated int, changed, fellBack int64) {
	for i := range c.units {
		list := c.units[i].Matrices
		t := TradesOf(list)
		calibrated, changed = calibrated+t.Calibrated, changed+t.Changed
		for k := range list {
			if x := list[k].Tensor; list[k].FellBack() && x >= 0 && x < len(c.e.job.Tensors) {
				fellBack += int64(c.e.job.Tensors[x].Rows) * int64(c.e.job.Tensors[x].Cols)
			}
		}
	}
	return calibrated, changed, fellBack
}

// calibClock tells how long a calibration will take, of the time that it had.
type calibClock struct {
	start  time.Time
	rested time.Duration
	from   float64 // share that was done before
	seen   bool
}

func (k *calibClock) begin(now time.Time) { k.start = now }

// eta is the seconds that are left when a share is done; 0 where it is not known.
func (k *calibClock) eta(now time.Time, share float64) float64 {
	if !k.seen {
		k.seen, k.from = true, share
	}
	if share <= k.from {
		return 0
	}
	return k.worked(now) * (1 - share) / (share - k.from)
}

func (k *calibClock) worked(now time.Time) float64 { return (now.Sub(k.start) - k.rested).Seconds() }

// steps of a unit are taken to be as long as one another.
var calibSteps = map[string]int{"reading codes": 0, "looking": 0, "factoring": 1, "quantizing": 2, "passing": 3}

// progress takes in how far the run is.
func (c *conductor) progress(p calibrate.Progress) {
	now := c.e.clock.Now()
	live := &calibLive{Calibrating: Calibrating{Variant: c.v, Unit: p.Unit, Step: p.Step, Done: p.Done, Units: p.Units, At: p.At, Of: p.Of}}
	step := float64(calibSteps[p.Step])
	if p.Of > 0 {
		step += float64(p.At) / float64(p.Of)
	}
	if p.Units > 0 {
		live.eta = c.clock.eta(now, min((float64(p.Done)+step/4)/float64(p.Units), 1))
	}
	if s := c.clock.worked(now); s > 0 {
		live.TokensPerSec = float64(p.Tokens) / s
	}
	c.e.meter.calib.Store(live)
}

// readBack says whether all of a unit was.
func readBack(made []madeMatrix) bool {
	for i := range made {
		if !made[i].again {
			return false
		}
	}
	return len(made) > 0
}
