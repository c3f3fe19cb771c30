package sessions

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// prior is what a session holds of a variant's calibration.
type prior struct {
	id          int          // of the calibration
	calibration *Calibration // nil for none
}

// calibLive is what the meter shows of a calibration that goes on.
type calibLive struct {
	Calibrating
	eta float64 // seconds; 0 where it is not known
}

// count notes that so many measurements of a variant are to be done; e.mu is held,
// or nothing runs yet.
func (e *engine) count(q Quantizer, n int64) {
	e.undone += n
	if !q.Calibrated {
		e.plain += n
	}
}

// plainUndone is what is to be done of variants that are not calibrated.
func (e *engine) plainUndone() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.plain
}

// calibrates says whether a variant is calibrated.
func (e *engine) calibrates() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.variants, func(q Quantizer) bool { return q.Calibrated })
}

// undoneOf is what is to be done of a variant.
func (e *engine) undoneOf(v int) (n int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.work[v] {
		if w == todo || w == inHand {
			n++
		}
	}
	return n
}

// nextCalibrated is the calibrated variant that is made next, -1 where all are.
func (e *engine) nextCalibrated() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	for v, q := range e.variants {
		if !q.Calibrated {
			continue
		}
		for _, w := range e.work[v] {
			if w == todo || w == inHand {
				return v
			}
		}
	}
	return -1
}

// prepareCalibs makes the calibrated variants of a session ready that are to be
// made, so that what is wrong with them is said before anything is computed. One that
// is there already is held against what is asked for now.
func prepareCalibs(ctx context.Context, job *Job, s *opened, env note) (ready map[string]preparedCalib, err error) {
	ready = map[string]preparedCalib{}
	for v, q := range s.variants {
		if !q.Calibrated || !job.asksCalib && !pending(job, s.st, v, q.Variant.Name) {
			continue
		}
		var prior *Calibration
		if v < len(s.st.Variants) {
			_, prior = s.st.calibrationOf(v)
		}
		p, err := prepareCalib(ctx, job, calibWant{variant: q.Variant.Name, id: v, prior: prior, env: env, session: s.st.Meta.Path})
		if err != nil {
			for _, p := range ready {
				err = errors.Join(err, p.close())
			}
			return nil, err
		}
		ready[q.Variant.Name] = p
	}
	return ready, nil
}

// pending says whether a variant is still to be made, or to be written.
func pending(job *Job, st *State, v int, name string) bool {
	if v >= len(st.Records) || job.export != nil && job.export.variant == name {
		return true
	}
	for i := range st.Records[v] {
		if r := &st.Records[v][i]; r.Seq == 0 || r.Failed {
			return true
		}
	}
	return false
}

// prepareCalib prepares one calibrated variant.
func prepareCalib(ctx context.Context, job *Job, w calibWant) (preparedCalib, error) {
	if job.calibrator == nil {
		return nil, fmt.Errorf("sessions: variant %s is calibrated, and this run has nothing to calibrate with", w.variant)
	}
	p, err := job.calibrator.prepare(ctx, w)
	if err != nil {
		return nil, err
	}
	if w.prior == nil || len(w.prior.Units) == 0 {
		return p, nil
	}
	now := p.setup()
	if err := w.prior.Setup.agrees(w.session, &now, w.variant); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// makeReady prepares a calibrated variant that is to be added, unless it is there.
func (e *engine) makeReady(q Quantizer) error {
	name := q.Variant.Name
	e.mu.Lock()
	known := e.prepared[name] != nil || slices.ContainsFunc(e.variants, func(o Quantizer) bool { return o.Variant.Name == name })
	id := len(e.variants)
	e.mu.Unlock()
	if known {
		return nil
	}
	p, err := prepareCalib(e.ctx, e.job, calibWant{variant: name, id: id, env: e.opts, session: e.session})
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.prepared[name] = p
	return nil
}

// closePrepared gives back what was prepared and not begun.
func (e *engine) closePrepared() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, p := range e.prepared {
		_ = p.close() // of files that were only read
		delete(e.prepared, name)
	}
}

// newCalibration is the number of a calibration that begins.
func (e *engine) newCalibration() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calibs++
	return e.calibs - 1
}

// folderOf is the folder of codes of a variant's last calibration.
func (e *engine) folderOf(v int) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.priors[v].calibration; c != nil {
		return c.Setup.Codes
	}
	return ""
}

// keepCalibration remembers what the session now holds of a calibration, for a run
// that goes on with it.
func (e *engine) keepCalibration(c *conductor, end *CalibrateEnd) {
	held := &Calibration{Setup: c.setup, End: end, Units: c.units}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.priors[c.v] = prior{c.id, held}
}
